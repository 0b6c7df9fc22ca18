"""Markdown for a terminal, as it streams: what can be decided is shown at once, the rest waits for its line to end.

Only what makes an answer easier to read: headings, bold, italics, code, lists, quotes, links, tables. The words stay as
they were written, so that what is copied from the screen is what the agent said.
"""

import re
from collections.abc import Callable, Iterator

from .live_screen import Span
from .markdown_table import TableStream, may_be_row
from .text import Style

# How long an open mark is waited for: after that it is a character like any other.
_LONGEST_WAIT = 200
# How far the end of a mark may be: looking for each to the end of a long line would take minutes.
_LONGEST_MARK = 1000
_COLUMNS = 80
# Enough of a line to tell what it begins with.
_BEGINNING = 6
_HEADING = re.compile(r"(#{1,6})\s+")
_ITEM = re.compile(r"(\s*)[-*+]\s+")
_FENCE = re.compile(r"\s*(```|~~~)")
_FENCE_BEGINNING = re.compile(r"\s*(?:`{0,3}|~{0,3}|(?:```|~~~).*)")
_TELLING = re.compile(r"\s*(#|[-*+]\s|`|~|>|\||-|\*|$)")
_INLINE = re.compile(
    r"(?P<code>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))"
    r"|(?P<bold>\*\*(?=\S)(?P<strong>.+?)(?<=\S)\*\*)"
    r"|(?P<italic>\*(?=[^\s*])(?P<emphasis>[^*]+?)(?<=[^\s*])\*(?![\w*]))"
    r"|(?P<link>\[(?P<title>[^\[\]]+)\]\((?P<address>[^()\s]+)\))"
)
_OPENERS = re.compile(r"[`*\[]")


class MarkdownStream:
    """Give it a text in any pieces; it gives back what to show. `end` is for the end of the text."""

    def __init__(self, *, columns: Callable[[], int] = lambda: _COLUMNS) -> None:
        self._rest = ""
        self._begun = False
        self._style: Style = ""
        self._fence = ""
        self._before = " "
        self._table = TableStream(columns=columns, style=self._style_cell)

    @property
    def is_verbatim(self) -> bool:
        """Whether what was just given is code or a table, in which a line means something."""
        return bool(self._fence) or self._table.is_open

    def feed(self, piece: str) -> Iterator[Span]:
        """What can be shown after one more piece."""
        self._rest += piece
        while "\n" in self._rest:
            line, _, self._rest = self._rest.partition("\n")
            if self._is_row(line):
                yield from self._table.add(line)
                continue
            yield from self._table.end()
            yield from self._show_line(line)
            yield "\n", ""
        if not self._fence and self._rest and not self._is_row(self._rest):
            yield from self._show_part()

    def end(self) -> Iterator[Span]:
        """What was held back."""
        rest, self._rest = self._rest, ""
        is_row = self._is_row(rest)
        if is_row:
            yield from self._table.add(rest)
        yield from self._table.end(whole=not is_row)
        if rest and not is_row:
            yield from self._show_line(rest)
        self._fence = ""
        self._begin_line()

    def _is_row(self, line: str) -> bool:
        return not self._fence and not self._begun and may_be_row(line)

    def _style_cell(self, text: str) -> list[Span]:
        self._begin_line()
        return [span for span in self._show_inline(text, whole=True) if span[0]]

    def _begin_line(self) -> None:
        self._begun, self._style, self._before = False, "", " "

    def _show_line(self, line: str) -> Iterator[Span]:
        """The rest of a line that is whole."""
        if not self._begun and self._is_fence(line):
            yield line, "dim"
        elif self._fence:
            yield line, "cyan"
        else:
            if not self._begun:
                prefix, line = self._read_beginning(line)
                yield prefix
            yield from self._show_inline(line, whole=True)
        self._begin_line()

    def _is_fence(self, line: str) -> bool:
        found = _FENCE.match(line)
        if not found or (self._fence and found[1] != self._fence):
            return False
        self._fence = "" if self._fence else found[1]
        return True

    def _show_part(self) -> Iterator[Span]:
        if not self._begun:
            undecided = len(self._rest) < _BEGINNING and _TELLING.match(self._rest)
            if undecided or _FENCE.match(self._rest):
                return
            yield from self._table.end()
            prefix, self._rest = self._read_beginning(self._rest)
            yield prefix
            self._begun = True
        yield from self._show_inline(self._rest, whole=False)

    def _read_beginning(self, line: str) -> tuple[Span, str]:
        """What stands for the mark at the beginning of a line, and the rest."""
        if found := _HEADING.match(line):
            self._style = "bold"
            return ("", ""), line[found.end() :]
        if found := _ITEM.match(line):
            return (f"{found[1]}• ", ""), line[found.end() :]
        return ("", ""), line

    def _show_inline(self, text: str, *, whole: bool) -> Iterator[Span]:
        at, shown = 0, 0
        while opener := _OPENERS.search(text, at):
            at = opener.start()
            found = _INLINE.match(text, at, at + _LONGEST_MARK) if self._may_open(text, at) else None
            if found and (whole or found.end() < len(text)):
                yield text[shown:at], self._style
                yield from self._style_inline(found)
                shown = at = found.end()
            elif whole or (len(text) - at > _LONGEST_WAIT and not found) or not self._may_open(text, at):
                at += 1
            else:
                break
        else:
            at = len(text)
        yield text[shown:at], self._style
        self._before = text[at - 1] if at else self._before
        if not whole:
            self._rest = text[at:]

    def _may_open(self, text: str, at: int) -> bool:
        """A star inside of a word is no mark: `2*3`. Underscores never are: they belong to names, as in `__init__`."""
        before = text[at - 1] if at else self._before
        return text[at] in "`[" or not (before.isalnum() or before in "*\\")

    def _style_inline(self, found: re.Match[str]) -> Iterator[Span]:
        if found["code"]:
            yield found[0], self._style or "cyan"
        elif found["bold"]:
            yield found["strong"], "bold"
        elif found["italic"]:
            yield found["emphasis"], self._style or "italic"
        else:
            yield found["title"], self._style
            if found["address"] != found["title"]:
                yield f" ({found['address']})", "dim"


class PlainStream:
    """The same for a terminal that can show nothing bold: the words as they were written, and where code is told."""

    def __init__(self, *, columns: Callable[[], int] = lambda: _COLUMNS) -> None:
        self._rest = ""
        self._begun = False
        self._fence = ""
        self._table = TableStream(columns=columns, style=lambda text: [(text, "")] if text else [])

    @property
    def is_verbatim(self) -> bool:
        """Whether what was just given is code or a table."""
        return bool(self._fence) or self._table.is_open

    def feed(self, piece: str) -> Iterator[Span]:
        """What can be shown after one more piece: all, unless it may be the beginning of a fence or of a table."""
        *lines, self._rest = (self._rest + piece).split("\n")
        for line in lines:
            if self._is_row(line):
                yield from self._table.add(line)
                continue
            yield from self._table.end()
            yield from self._show(line)
            yield "\n", ""
            self._begun = False
        if self._rest and (self._begun or not self._is_undecided(self._rest)):
            rest, self._rest = self._rest, ""
            yield from self._table.end()
            yield from self._show(rest)
            self._begun = True

    def end(self) -> Iterator[Span]:
        """What was held back."""
        rest, self._rest = self._rest, ""
        is_row = self._is_row(rest)
        if is_row:
            yield from self._table.add(rest)
        yield from self._table.end(whole=not is_row)
        if not is_row:
            yield from self._show(rest)
        self._begun, self._fence = False, ""

    def _is_row(self, line: str) -> bool:
        return not self._fence and not self._begun and may_be_row(line)

    def _is_undecided(self, rest: str) -> bool:
        if _FENCE_BEGINNING.fullmatch(rest):
            return True
        return not self._fence and (may_be_row(rest) or not rest.strip())

    def _show(self, text: str) -> Iterator[Span]:
        if not self._begun:
            found = _FENCE.match(text)
            if found and self._fence in ("", found[1]):
                self._fence = "" if self._fence else found[1]
        if text:
            yield text, ""
