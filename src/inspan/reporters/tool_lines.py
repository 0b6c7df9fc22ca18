"""A tool call on a terminal: its title while it runs, how it ended, and the part of its output that matters. Pure."""

import re
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from inspan.contracts.permissions import subject_of
from inspan.protocol.events import ToolFailed, ToolStarted

from .live_screen import Span
from .patch import Patch, find_patch, fold_lines
from .text import CUT, Cut, Style, format_duration, one_line
from .width import ELLIPSIS, cut_to_width, measure_width

_SUCCESS_LINES, _FAILURE_LINES, _PATCH_LINES = 4, 12, 12
# A shell that is only there to run the command behind it.
_SHELL = re.compile(r"(?:\S*/)?(?:ba|z|da|)sh -l?c (?=\S)")
_LONG_S = 1.0
# The most that is kept of one line of a failure, which is not cut at the edge: an error may stand far right.
_LONGEST_LINE = 400
# Room for `12.3s  exit 127` at the right edge, where the terminal is wide enough to have one.
_ENDING_COLUMNS, _WIDE_COLUMNS = 18, 60


class ToolLine(NamedTuple):
    """What is known of a call when it starts. A command is its own title; an edit is told by its patch."""

    title: str
    is_command: bool
    patch: Patch | None
    started_at: float | None


def describe_tool(event: ToolStarted, *, cwd: str, at: float | None) -> ToolLine:
    """The line for a call."""
    patch = find_patch(event.input)
    command = _find_command(event.input)
    if command:
        title = command
    elif patch:
        counts = f"+{patch.added}" + ("" if patch.writes else f" −{patch.removed}")
        title = f"{'write' if patch.writes else 'edit'} {shorten_path(patch.path, cwd)}  {counts}"
    else:
        title = f"{event.name} {_describe_subject(event.input, cwd)}"
    return ToolLine(one_line(" ".join(title.split(" "))).strip(), bool(command), patch, at)


def _find_command(given: Any) -> str:
    fields = cast(dict[str, Any], given) if isinstance(given, dict) else {}
    command = fields.get("command") or fields.get("cmd")
    if isinstance(command, list):
        command = shlex.join(map(str, cast(list[Any], command)))
    return " ".join(unwrap_command(command).split()) if isinstance(command, str) else ""


def unwrap_command(command: str) -> str:
    """A command without the shell that an agent starts it with."""
    found = _SHELL.match(command)
    if not found:
        return command
    try:
        words = shlex.split(command[found.end() :])
    except ValueError:
        return command
    return words[0] if len(words) == 1 else command


def _describe_subject(given: Any, cwd: str) -> str:
    if isinstance(given, list) and all(isinstance(each, str) for each in cast(list[Any], given)):
        return ", ".join(shorten_path(each, cwd) for each in cast(list[str], given))
    words = subject_of(given) if given else ""
    return " ".join(shorten_path(words, cwd).split())


def shorten_path(path: str, cwd: str) -> str:
    """A path as it is called from the run's folder, where it is below it."""
    return path.removeprefix(cwd.rstrip("/") + "/") if cwd else path


def fit_title(title: str, columns: int) -> str:
    """A title in one row, with room for its ending where there is some."""
    room = columns - _ENDING_COLUMNS if columns >= _WIDE_COLUMNS else columns - 1
    return cut_to_width(f"● {title}", room)


def pad_ending(words: str, *, column: int, columns: int) -> str:
    """What puts the ending at the right edge of the open line; empty where it does not fit there."""
    gap = columns - 1 - column - measure_width(words)
    return " " * gap + words if columns >= _WIDE_COLUMNS and gap >= 2 else ""


def has_failed(ended: object, exit_code: int | None) -> bool:
    """Whether a call came back as an error, or its command did."""
    return isinstance(ended, ToolFailed) or bool(exit_code)


def format_ending(line: ToolLine, *, failed: bool, denied: bool, exit_code: int | None, at: float | None) -> Span:
    """How a call ended, in a few words; nothing of an edit, or of a quick call, that went well."""
    took_s = at - line.started_at if at is not None and line.started_at is not None else None
    word = "denied" if denied else f"exit {exit_code}" if exit_code else "failed" if failed else "ok"
    if not failed and (line.patch or (not line.is_command and (took_s or 0.0) < _LONG_S)):
        return "", ""
    duration = f"{format_duration(took_s)}  " if took_s is not None else ""
    style: Style = "red" if failed else "dim"
    return f"{duration}{word}", style


def format_output(text: str, *, failed: bool, lines: int | None, columns: int, cut: Cut = CUT) -> Iterator[Span]:
    """The end of what a call put out: a few lines of a success, more of a failure. `lines=None` is all of it."""
    text, missing_bytes = _keep_end(text.strip("\n").rstrip(), cut.limit_bytes)
    if not text.strip():
        return
    limit = None if lines is None else _FAILURE_LINES if failed else _SUCCESS_LINES
    shown = text.split("\n")
    # One line more takes no more room than the words that it is missing.
    left = 0 if limit is None or len(shown) <= limit + 1 else len(shown) - limit
    if left or missing_bytes:
        above = f"{left} more lines" if left and not missing_bytes else f"{missing_bytes} more bytes"
        command = cut.command if missing_bytes else "" if lines is None else "inspan logs"
        yield f"  │ {ELLIPSIS} {above}{command and ': '}{command}", "dim"
    for line in shown[left:]:
        yield f"  │ {_fit_line(line.expandtabs(), failed=failed, lines=lines, columns=columns)}", "dim"


def _keep_end(text: str, limit_bytes: int) -> tuple[str, int]:
    data = text.encode(errors="replace")
    missing_bytes = max(0, len(data) - limit_bytes)
    return (data[missing_bytes:].decode(errors="ignore"), missing_bytes) if missing_bytes else (text, 0)


def _fit_line(line: str, *, failed: bool, lines: int | None, columns: int) -> str:
    if lines is None:
        return line
    return cut_to_width(line, _LONGEST_LINE if failed else max(columns - 5, 10))


def format_patch(patch: Patch, *, lines: int | None, columns: int) -> Iterator[Span]:
    """The changed lines below an edit, coloured by what becomes of them."""
    for line in fold_lines(patch.lines, None if lines is None else _PATCH_LINES):
        style: Style = "green" if line.startswith("+") else "red" if line.startswith("-") else "dim"
        yield f"  │ {cut_to_width(line.expandtabs(), max(columns - 5, 10))}", style
