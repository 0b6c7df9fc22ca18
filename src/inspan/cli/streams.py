"""The standard streams of the command line: all three are there, and what they refuse is told from any other fault."""

import errno
import io
import os
import sys

from inspan.errors import OutputRefused
from inspan.system.standard_streams import fill_standard_fds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from _typeshed import ReadableBuffer


class _Output(io.FileIO):
    """Raises `OutputRefused` once; what comes after that is dropped, also when Python leaves and flushes again.

    Progress and complaints are courtesies: where `best_effort` is set, only a closed pipe is raised.
    """

    def __init__(self, number: int, *, best_effort: bool) -> None:
        super().__init__(number, "wb", closefd=False)
        self._best_effort = best_effort
        self._refused = False

    def write(self, data: "ReadableBuffer", /) -> int:
        if self._refused:
            return memoryview(data).nbytes
        try:
            while (count := super().write(data)) is None:  # pyright: ignore[reportUnnecessaryComparison]  so it is where the stream does not block
                _wait_for_room(self.fileno())
            return count
        except OSError as error:
            self._refused = True
            if not self._best_effort or error.errno == errno.EPIPE:
                raise _refusal_error(self.fileno(), error) from error
            return memoryview(data).nbytes


def set_up() -> None:
    """Replaces stdout and stderr; called first of all, so that no file is opened where one of them is missing."""
    fill_standard_fds()
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  so it is after `<&-`
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if os.environ.get("_INSPAN_COMPLETE"):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # A shell asks while its user types: nothing may be printed there.
    sys.stdout = _open_stream(1, sys.stdout, best_effort=False)
    sys.stderr = _open_stream(2, sys.stderr, best_effort=True)


def is_live(stream: "TextIO") -> bool:
    """Whether somebody looks at this stream who can be shown things that move: no pipe, no CI, no dumb terminal."""
    if os.environ.get("TERM", "dumb") in ("", "dumb") or os.environ.get("CI"):
        return False
    return stream.isatty() and (stream.encoding or "").lower().replace("-", "") == "utf8"


def _open_stream(number: int, given: "TextIO | None", *, best_effort: bool) -> "TextIO":
    """The stream as Python made it, or one that leads nowhere; a mark that this terminal cannot show is no fault."""
    raw = _Output(number, best_effort=best_effort)
    immediate = isinstance(given, io.TextIOWrapper) and given.write_through
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=given.encoding if given else "utf-8",
        errors="backslashreplace",
        line_buffering=best_effort or raw.isatty() or immediate,
    )


def _refusal_error(number: int, error: OSError) -> OutputRefused:
    name = {1: "stdout", 2: "stderr"}[number]
    if error.errno == errno.EPIPE:
        return OutputRefused(f"{name} was closed by its reader.", is_closed=True)
    return OutputRefused(
        f"Cannot write to {name}: {error.strerror}.", next_step="Send the output where there is room for it."
    )


def _wait_for_room(number: int) -> None:
    import select  # Start-up time: few parents make a stream that does not block.

    select.select([], [number], [])
