"""Sentences of ours in lines of whole words, so that a terminal breaks none of them."""

import re
from typing import TextIO

from .width import find_width, measure_width

_LEAD = re.compile(" *(?:→ )?")
_LEAST_INDENT = 2
# A command to be typed is one word, however many it has: a line break in it would be copied along.
_WORD = re.compile(r"(?:`[^`\n]*`|[^\s`]|`)+")


def fit_words(text: str, stream: TextIO) -> str:
    """The lines of a text as wide as the terminal that they go to; as they are where there is none."""
    columns = find_width(stream)
    return text if columns is None else "\n".join(wrap_words(line, columns=columns) for line in text.split("\n"))


def wrap_words(line: str, *, columns: int) -> str:
    """A line in as many as it takes, each further one indented; too long a word is for the terminal to break."""
    if measure_width(line) < columns:
        return line
    lines: list[str] = []
    indent = " " * max(_LEAST_INDENT, len(_find_lead(line)))
    row = " " * (len(line) - len(line.lstrip(" ")))
    for word in _WORD.findall(line):
        joined = f"{row} {word}" if row.strip() else f"{row}{word}"
        if measure_width(joined) < columns or not row.strip():
            row = joined
        else:
            lines.append(row)
            row = f"{indent}{word}"
    return "\n".join([*lines, row])


def _find_lead(line: str) -> str:
    """What a line begins with, below which its further ones do not begin."""
    found = _LEAD.match(line)
    return found.group() if found else ""
