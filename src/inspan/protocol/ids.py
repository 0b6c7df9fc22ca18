"""Names of runs: ids and how a new one is made, the short name of an id, and what a person may call a run."""

import re
import zlib
from datetime import UTC, datetime, timedelta
from typing import NewType

RunId = NewType("RunId", str)

RUN_ID = re.compile(r"\d{8}-\d{9}-\d+")
RUN_VARIABLE = "JRUN_ID"
"""The variable that tells a program in which run it was started."""
NAME_CHARACTERS = 60
"""The most that a run's own name has."""

# No vowels, so that no name reads as a word; nothing that looks like another one.
_LETTERS = "bcdfghjkmnpqrstvwxyz"
_SYMBOLS = _LETTERS + "23456789"
_SHORT_CHARACTERS = 4
_ID_BEGINNING = re.compile(r"[0-9]{0,8}|[0-9]{8}-([0-9]{0,9}|[0-9]{9}-[0-9]*)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def make_run_id(*, at: datetime, pid: int, bump_ms: int = 0) -> RunId:
    """`{YYYYMMDD-HHMMSSmmm}-{PID}` in UTC; `bump_ms` moves the millisecond when the first choice is taken."""
    moment = at.astimezone(UTC) + timedelta(milliseconds=bump_ms)
    return RunId(f"{moment:%Y%m%d-%H%M%S}{moment.microsecond // 1000:03d}-{pid}")


def make_short_name(run_id: str) -> str:
    """Four characters that stand for an id: always the same ones, a letter first, so that no id begins so.

    Two ids can share one; whoever shows or takes it has to look.
    """
    rest, first = divmod(zlib.crc32(run_id.encode(errors="surrogateescape")), len(_LETTERS))
    name = _LETTERS[first]
    for _ in range(_SHORT_CHARACTERS - 1):
        rest, place = divmod(rest, len(_SYMBOLS))
        name += _SYMBOLS[place]
    return name


def begins_run_id(text: str) -> bool:
    """Whether an id could begin so."""
    return _ID_BEGINNING.fullmatch(text) is not None


def find_name_problem(name: str) -> str:
    """What is wrong with a name that a person gives a run, as the end of a sentence; empty where nothing is."""
    if not name:
        return "it is empty."
    if len(name) > NAME_CHARACTERS:
        return f"it is too long: {len(name)} characters."
    if name.isascii() and name.isdigit():
        return "it has only digits."
    if begins_run_id(name):
        return "a run id could begin so."
    if name[0] in "@-._":
        return f"it begins with {name[0]}."
    if not _NAME.fullmatch(name):
        odd = next(letter for letter in name if not _NAME.fullmatch(f"a{letter}"))
        return f"it contains the character {odd!r}."
    return ""
