"""How much room a text takes on a terminal, and how it is cut to the room there is; every cut shows as `…`."""

import os
from functools import cache
from typing import TextIO

CUT = "…"
_FIRST_COMBINING = "\u0300"
# Those of our own tables, which would be the only ones that have to be looked up in most of them.
_GLYPHS = frozenset("…✔✘●▲◷■▶→")


def find_width(stream: TextIO) -> int | None:
    """The columns of the terminal that a stream leads to; nothing where it is none, or does not say."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or None if stream.isatty() else None
    except (OSError, ValueError):
        return None


def measure(text: str) -> int:
    """The columns that a text takes: East Asian characters and emoji take two, combining ones none."""
    return len(text) if text.isascii() else sum(map(_measure_character, text))


def cut_end(text: str, width: int) -> str:
    """The text, its end cut where it takes more columns than that."""
    return text if measure(text) <= width else _take(text, width - 1) + CUT[: max(0, width)]


def cut_middle(text: str, width: int) -> str:
    """The text, its middle cut where it takes more columns than that; of a path, both ends say the most."""
    if measure(text) <= width:
        return text
    tail = _take(text[::-1], (width - 1) // 2 + (width - 1) % 2)[::-1]
    return _take(text, width - 1 - measure(tail)) + CUT[: max(0, width)] + tail


def pad(text: str, width: int) -> str:
    """The text with as many spaces behind it as fill that many columns."""
    return text + " " * (width - measure(text))


def shorten_home(path: str) -> str:
    """A path with `~` for the user's home folder, where there is one."""
    home = os.environ.get("HOME", "").rstrip("/")
    if home.startswith("/") and (path == home or path.startswith(f"{home}/")):
        return "~" + path[len(home) :]
    return path


def _take(text: str, width: int) -> str:
    """As many of the first characters as fit; those without a width stay with what they stand on."""
    used = 0
    for place, character in enumerate(text):
        used += _measure_character(character)
        if used > width:
            return text[:place]
    return text


@cache
def _measure_character(character: str) -> int:
    if character < _FIRST_COMBINING or character in _GLYPHS:
        return 1
    from unicodedata import category, east_asian_width  # Start-up time: most texts have nothing of the kind.

    if category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1
