"""What inspan itself says begins at the left edge with a sign: `✔`, `▲`, `?`, `inspan:`. Nobody else's text does.

An agent could else write "✔ completed in 3s", or a question of its own, and nobody could tell who says it. A row of
others that would begin like ours gets a mark before it. Rows count, not lines: text can be made to wrap where it wants.
"""

from .width import character_width

MARK = "┊ "
"""Stands before a row that only looks like one of ours."""

NAME = "inspan:"
# The glyphs of our states and tools, what looks like them (all of Geometric Shapes), and what begins a question, a
# warning or a message of a person.
_SIGNS = frozenset(map(chr, (*range(0x25A0, 0x2600), *range(0x2713, 0x2719)))) | frozenset("⏺⬤\U0001f5f8×√!?›")


def mark_text(text: str, *, columns: int | None = None) -> str:
    """A text of others that begins at the left edge, with a mark before each row that begins like one of ours."""
    return mark_rows(text, column=0, columns=columns, at_edge=True)[0]


def mark_rows(text: str, *, column: int, columns: int | None, at_edge: bool) -> tuple[str, int]:
    """The text with a mark before each of its rows that begins like one of ours, and the column that it ends at.

    It begins at a column of a row, which breaks after `columns`, if they are known; `at_edge` says whether its own
    first character counts, or is a sign of ours.
    """
    if columns is None and _SIGNS.isdisjoint(text) and NAME not in text.lower():
        _, newline, last = text.rpartition("\n")
        return text, len(last) + (0 if newline else column)
    marked: list[str] = []
    for place, character in enumerate(text):
        if character == "\n":
            marked.append(character)
            column, at_edge = 0, True
            continue
        width = character_width(character)
        if columns is not None and width and column + width > columns:
            column, at_edge = 0, True
        if at_edge and width:
            at_edge = False
            if _is_ours(text, place):
                marked.append(MARK)
                column += len(MARK)
        marked.append(character)
        column += width
    return "".join(marked), column


def may_become_name(row: str) -> bool:
    """Whether a row that begins like this may still turn out to begin with our name."""
    return len(row) < len(NAME) and NAME.startswith(row.lower())


def _is_ours(text: str, place: int) -> bool:
    return text[place] in _SIGNS or text[place : place + len(NAME)].lower() == NAME
