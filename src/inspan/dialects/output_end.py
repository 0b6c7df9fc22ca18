"""The end of what a command has put out so far, out of pieces: what is told of it while it works."""

import re

_CHARACTERS = 16 * 1024
_LINE_END = re.compile(r"[\r\n]")


def append_output(before: str, piece: str) -> str:
    """The end of both, from the beginning of a line on: of a line that was cut, a half could be that of a secret."""
    text = before + piece
    if len(text) <= _CHARACTERS:
        return text
    found = _LINE_END.search(text, len(text) - _CHARACTERS)
    return text[found.end() :] if found else ""
