"""How many columns a text takes on a terminal, and where to cut it. What comes in is one line without controls."""

import unicodedata

ELLIPSIS = "…"
# Joiners and marks that a terminal draws into the character before them.
_NO_WIDTH = frozenset({"Mn", "Me", "Cf"})


def character_width(character: str) -> int:
    """0 for what joins the character before it, 2 for what is drawn wide, else 1."""
    if character < "\u0300":
        return 1
    if unicodedata.category(character) in _NO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def measure_width(text: str) -> int:
    """The columns that a text takes."""
    return len(text) if text.isascii() else sum(map(character_width, text))


def cut_to_width(text: str, columns: int) -> str:
    """The text where it fits, else its beginning and an ellipsis; never wider than `columns`."""
    if text.isascii() and len(text) <= columns:
        return text
    width = fitting = 0
    for at, character in enumerate(text, start=1):
        width += character_width(character)
        if width < columns:
            fitting = at
        if width > columns:
            return text[:fitting] + ELLIPSIS if columns > 0 else ""
    return text


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
