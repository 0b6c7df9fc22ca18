"""How a console shows each kind of passage: brief, indented, in colour. After redaction: these shorten."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from .narration import Kind, Passage
from .text import Style, cut

_BRIEF = 160
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


def shaped(passage: Passage, *, lines: int | None) -> Iterator[Line]:
    """A passage that is whole, as lines; `lines` limits what is shown of a tool's output."""
    shape = _SHAPES.get(passage.kind, _whole)
    return shape(passage.removesuffix("\n"), _STYLES.get(passage.kind, ""), lines)


def _whole(text: str, style: Style, _: int | None) -> Iterator[Line]:
    yield cut(text), style


def _brief(text: str, style: Style, _: int | None) -> Iterator[Line]:
    """The name as it is, what follows it on one line."""
    name, gap, rest = text.partition("  ")
    rest = " ".join(rest.split())
    yield name + gap + (rest if len(rest) <= _BRIEF else rest[: _BRIEF - 1] + "…"), style


def _indented(text: str, style: Style, _: int | None) -> Iterator[Line]:
    yield "  " + cut(text).replace("\n", "\n  "), style


def _output(text: str, style: Style, lines: int | None) -> Iterator[Line]:
    shown = cut(text).split("\n")
    left = 0 if lines is None else max(0, len(shown) - lines)
    yield "\n".join("  " + line for line in shown[: len(shown) - left]), style
    if left:
        yield f"  … {left} more lines: inspan logs", "dim"


_SHAPES: dict[Kind, Callable[[str, Style, int | None], Iterator[Line]]] = {
    "reasoning": _indented,
    "tool": _brief,
    "question": _brief,
    "output": _output,
}
