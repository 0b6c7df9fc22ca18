"""Cassettes as files: made for a recording, appended to, and read whole before a run starts."""

import fcntl
import os
import stat
from collections.abc import Mapping
from io import FileIO

import msgspec

from inspan.errors import BadInput
from inspan.gateway.cassettes.cassette import VERSION, Cassette, Exchange, Footer
from inspan.gateway.cassettes.lines import FIELD, RECORD_HINT, parse_cassette
from inspan.system import file_locks, forking

LIMIT_BYTES = 512 * 1024 * 1024


class _Recording(FileIO):
    """A file that is recorded to; once it is closed, another run may."""

    def close(self) -> None:
        if not self.closed:
            file_locks.unlock(self.fileno())
            forking.disown(self.fileno())
        super().close()


def load_cassette(path: str | os.PathLike[str]) -> Cassette:
    """Reads a whole cassette; raises `BadInput` that names the line, what is wrong with it and the next step."""
    name = os.fspath(path)
    return parse_cassette(name, _read_bytes(name))


def open_recording(path: str | os.PathLike[str]) -> FileIO:
    """An empty file to record to, which the caller closes and nobody else records to; raises `BadInput`.

    The file is made if there is none. One that holds something is never written over.
    """
    name = os.fspath(path)
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        step = "Give the path of a new file in a folder that can be written to."
        raise BadInput(FIELD, name, f"it cannot be written: {reason}.", next_step=step) from error
    file = _Recording(forking.own(descriptor), "wb")
    try:
        _check_recordable(name, descriptor)
    except BadInput:
        file.close()
        raise
    return file


def check_recording(path: str | os.PathLike[str]) -> None:
    """Raises what `open_recording` would, and leaves no file behind."""
    was_there = os.path.lexists(path)
    open_recording(path).close()
    if not was_there:
        os.unlink(path)


def _check_recordable(name: str, descriptor: int) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise BadInput(FIELD, name, "it is not a file.", next_step="Give the path of a new file.")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        step = "Give another path, or wait until that run has ended."
        raise BadInput(FIELD, name, "another run is recording to it.", next_step=step) from None
    except OSError:
        pass  # A file system without locks.
    if os.fstat(descriptor).st_size:
        step = "Give another path, or delete the file first."
        raise BadInput(FIELD, name, "the file already exists and is not overwritten.", next_step=step)


def encode_header(about: Mapping[str, str]) -> bytes:
    """The first line."""
    return msgspec.json.encode({"inspan_cassette": VERSION, **about}) + b"\n"


def encode_exchange(call: Exchange) -> bytes:
    """The lines of one call."""
    lines = (call.request, call.start, *call.chunks, call.ending)
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def encode_footer(calls: int) -> bytes:
    """The line that a finished cassette ends with."""
    return msgspec.json.encode(Footer(calls=calls)) + b"\n"


def _read_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise BadInput(FIELD, path, "it is not a file.", next_step=RECORD_HINT)
            if status.st_size > LIMIT_BYTES:
                problem = f"it has {status.st_size} bytes, and {LIMIT_BYTES} are the most."
                raise BadInput(FIELD, path, problem, next_step="Record a shorter run.")
            data = file.read()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BadInput(
            FIELD, path, f"it cannot be read: {reason}.", next_step=f"Check the path. {RECORD_HINT}"
        ) from error
    if not data:
        raise BadInput(FIELD, path, "it is empty: nothing was recorded.", next_step=RECORD_HINT)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadInput(FIELD, path, f"line {line} is not UTF-8.", next_step=RECORD_HINT) from None
    return data
