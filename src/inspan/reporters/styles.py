"""How a console shows each kind of chunk: brief, indented, in colour. After redaction: these shorten."""

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from .narration import Kind, TextChunk
from .text import CUT, Cut, Style, truncate

_BRIEF_LENGTH = 160
_WIDE_GAP = re.compile(r"[^\S\n]{9,}")
_ASKS = "? "
_STYLES: dict[Kind, Style] = {
    "start": "bold",
    "reasoning": "dim",
    "tool": "cyan",
    "output": "dim",
    "failure": "red",
    "change": "green",
    "question": "yellow",
    "warning": "yellow",
    "note": "dim",
    "ending": "yellow",
}


Line: TypeAlias = tuple[str, Style]
"""What goes on lines of its own, and its colour."""


def format_chunk(chunk: TextChunk, *, lines: int | None, cut: Cut = CUT) -> Iterator[Line]:
    """A chunk that is whole, as lines; `lines` limits what is shown of a tool's output, `cut` any text."""
    shape = _FORMATTERS.get(chunk.kind, _format_full)
    return shape(chunk.removesuffix("\n"), _STYLES.get(chunk.kind, ""), lines, cut)


def _format_full(text: str, style: Style, _: int | None, cut: Cut) -> Iterator[Line]:
    yield truncate(text, cut), style


def _format_question(text: str, style: Style, lines: int | None, cut: Cut) -> Iterator[Line]:
    """All of what is asked, for a yes is to what is seen: each further line has a mark before it, and a wide gap, which
    could push a part to where nobody looks, is told by its length. A person's own message is brief."""
    if not text.startswith(_ASKS):
        yield from _format_brief(text, style, lines, cut)
        return
    shown = _WIDE_GAP.sub(lambda gap: f" [{len(gap[0])} spaces] ", truncate(text, cut))
    first, *rest = shown.split("\n")
    yield "\n".join([first, *(f"  │ {line}" for line in rest)]), style


def _format_brief(text: str, style: Style, _: int | None, __: Cut) -> Iterator[Line]:
    """The name as it is, what follows it on one line."""
    name, gap, rest = text.partition("  ")
    rest = " ".join(rest.split())
    yield name + gap + (rest if len(rest) <= _BRIEF_LENGTH else rest[: _BRIEF_LENGTH - 1] + "…"), style


def _format_indented(text: str, style: Style, _: int | None, cut: Cut) -> Iterator[Line]:
    yield "  " + truncate(text, cut).replace("\n", "\n  "), style


def _format_output(text: str, style: Style, lines: int | None, cut: Cut) -> Iterator[Line]:
    shown = truncate(text, cut).split("\n")
    left = 0 if lines is None else max(0, len(shown) - lines)
    yield "\n".join("  " + line for line in shown[: len(shown) - left]), style
    if left:
        yield f"  … {left} more lines: inspan logs", "dim"


_FORMATTERS: dict[Kind, Callable[[str, Style, int | None, Cut], Iterator[Line]]] = {
    "reasoning": _format_indented,
    "tool": _format_brief,
    "question": _format_question,
    "output": _format_output,
}
