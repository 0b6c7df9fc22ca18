"""How many columns a text takes on a terminal, and how it is cut to the room there is; every cut shows as `…`.

What comes in is one line without controls.
"""

import os
from functools import cache
from typing import TextIO

ELLIPSIS = "…"
_FIRST_COMBINING = "\u0300"
# Those of our own tables, which would be the only ones that have to be looked up in most of them.
_GLYPHS = frozenset("…✔✘●◐◓◑◒▲◷■▶→")
# Joiners and marks that a terminal draws into the character before them.
_NO_WIDTH = frozenset({"Mn", "Me", "Cf"})


def find_width(stream: TextIO) -> int | None:
    """The columns of the terminal that a stream leads to; nothing where it is none, or does not say."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or None if stream.isatty() else None
    except (OSError, ValueError):
        return None


@cache
def character_width(character: str) -> int:
    """0 for what joins the character before it, 2 for what is drawn wide, else 1."""
    if character < _FIRST_COMBINING or character in _GLYPHS:
        return 1
    from unicodedata import category, east_asian_width  # Start-up time: most texts have nothing of the kind.

    if category(character) in _NO_WIDTH:
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def measure_width(text: str) -> int:
    """The columns that a text takes."""
    return len(text) if text.isascii() else sum(map(character_width, text))


def cut_to_width(text: str, columns: int) -> str:
    """The text where it fits, else its beginning and an ellipsis; never wider than `columns`."""
    return text if measure_width(text) <= columns else _take(text, columns - 1) + ELLIPSIS[: max(0, columns)]


def cut_middle(text: str, columns: int) -> str:
    """The same, its middle cut; of a path, both ends say the most."""
    if measure_width(text) <= columns:
        return text
    tail = _take(text[::-1], (columns - 1) // 2 + (columns - 1) % 2)[::-1]
    return _take(text, columns - 1 - measure_width(tail)) + ELLIPSIS[: max(0, columns)] + tail


def pad(text: str, columns: int) -> str:
    """The text with as many spaces behind it as fill that many columns."""
    return text + " " * (columns - measure_width(text))


def advance_column(column: int, text: str, columns: int) -> int:
    """Where the cursor stands after a text without newlines; `columns` itself means that the row is full."""
    if text.isascii():
        total = column + len(text)
        return total if total <= columns else (total - 1) % columns + 1
    for character in text:
        width = character_width(character)
        # A wide character that does not fit goes to the next row whole.
        column = column + width if column + width <= columns else width
    return column


def _take(text: str, columns: int) -> str:
    """As many of the first characters as fit; those without a width stay with what they stand on."""
    used = 0
    for place, character in enumerate(text):
        used += character_width(character)
        if used > columns:
            return text[:place]
    return text
