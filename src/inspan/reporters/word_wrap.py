"""Text in pieces on a terminal, broken between words: a word is shown at once, and moved down where it grows."""

import re
from collections.abc import Iterator

from .live_screen import LiveScreen, Span
from .text import Style
from .width import character_width, measure_width

_TOKENS = re.compile(r"\n| +|[^ \n]+")
_TAB = "    "
_JOINER = "\N{ZERO WIDTH JOINER}"


class WordWrap:
    """Writes to a screen what others say. Wide characters may be parted anywhere; a word that is longer than a row is,
    at its edge.

    Whatever else is written to the same screen, or becomes of its size, is followed: only the open word counts.
    """

    def __init__(self, screen: LiveScreen) -> None:
        self._screen = screen
        self._word: list[Span] = []
        self._width = 0
        self._start = 0
        self._column = 0
        self._columns = screen.columns
        self._blank = True

    def write(self, *spans: Span) -> None:
        """Goes on in the open line."""
        for text, style in spans:
            self._follow_screen()
            for token in _split(text.replace("\t", _TAB)):
                self._write_token(token, style)

    def write_verbatim(self, *spans: Span) -> None:
        """The same, left to the terminal: code and tables are what they are."""
        self._screen.write(*spans, theirs=True)

    def _follow_screen(self) -> None:
        screen = self._screen
        if (screen.column, screen.columns) != (self._column, self._columns):
            self._columns = screen.columns
            self._blank = not screen.column
            self._begin_word(screen.column)

    def _begin_word(self, column: int) -> None:
        self._word, self._width, self._start, self._column = [], 0, column, column

    def _write_token(self, token: str, style: Style) -> None:
        if token == "\n":
            self._screen.write((token, ""), theirs=True)
            self._blank = True
            self._begin_word(0)
        elif token[0] == " ":
            self._write_spaces(token, style)
        else:
            if _is_wide(token):
                self._begin_word(self._column)
            self._write_word(token, style)
            self._blank = False
            if _is_wide(token):
                self._begin_word(self._column)

    def _write_spaces(self, spaces: str, style: Style) -> None:
        """Those that do not fit are what the line is broken at."""
        shown = spaces[: max(0, self._columns - self._column)]
        self._screen.write((shown, style), theirs=True)
        self._begin_word(self._screen.column)

    def _write_word(self, piece: str, style: Style) -> None:
        width = self._width + measure_width(piece)
        if self._can_move and self._start + width > self._columns:
            self._move_word()
        if self._can_move:
            self._word.append((piece, style))
        self._width = width
        self._screen.write((piece, style), theirs=True)
        self._column = self._screen.column

    @property
    def _can_move(self) -> bool:
        """Whether the open word has others before it in its row."""
        return self._start > 0 and not self._blank

    def _move_word(self) -> None:
        """To a row of its own, with what of it is shown already."""
        if self._word:
            self._screen.retract(self._start)
        self._screen.write(("\n", ""), *self._word, theirs=True)
        self._word, self._start, self._column = [], 0, self._screen.column


def _split(text: str) -> Iterator[str]:
    """Newlines, spaces and words; each wide character is a word of its own."""
    for token in _TOKENS.findall(text):
        if token.isascii():
            yield token
        else:
            yield from _split_wide(token)


def _split_wide(word: str) -> Iterator[str]:
    begin = 0
    for place in range(1, len(word)):
        width, before = character_width(word[place]), word[place - 1]
        if width and before != _JOINER and (width == 2 or _is_wide(word[begin:place])):
            yield word[begin:place]
            begin = place
    yield word[begin:]


def _is_wide(token: str) -> bool:
    return character_width(token[0]) == 2
