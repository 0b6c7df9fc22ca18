"""The pages of the project, and what in them can be tried: files to write, commands to type, what they print.

A page marks what can be tried with a comment above a code block: `<!-- file: NAME -->` writes the block to a file,
`<!-- driver: NAME -->` to a file among the drivers of a copy of inspan, `<!-- run -->` types its `$` lines and compares
what follows each of them. `…` stands for any text, alone on a line for any lines. Run ids, short names, durations and
the way a run is held differ between machines and are compared by their shape.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
# A block's title, which the site shows, is the name of its file: docs/generate.py writes it.
_BLOCK = re.compile(
    r"<!-- ((?P<kind>file|driver): (?P<name>[\w.-]+)|run) -->\n"
    r"```\w+(?: title=\"(?P<title>[^\"\n]*)\")?\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_MARK = re.compile(r"^<!-- (?:(?:file|driver): .*|run) -->$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_SHAPES = (
    (re.compile(r"\b\d{8}-\d{9}-\d+\b"), "RUN-ID"),
    (re.compile(r"\b[b-df-hjkmnp-tv-z][b-df-hjkmnp-tv-z2-9]{3}\b"), "SHORT-NAME"),
    (re.compile(r"\b(?:\d+\.\d+s|\d+m\d\ds)\b"), "DURATION"),
    (re.compile(r"full access|writes only in its folder \(bwrap\)"), "ACCESS"),
    # Codex takes the shell of its user.
    (re.compile(r"/\S*/(?:ba|z|da|)sh -lc\b"), "SHELL"),
    # Columns are as wide as their widest cell.
    (re.compile(r"(?<=\S) {2,}"), "  "),
)


@dataclass(frozen=True, kw_only=True)
class WriteFile:
    """A block that is a file of the story, in its folder or among the drivers."""

    name: str
    text: str
    among_drivers: bool = False


@dataclass(frozen=True, kw_only=True)
class TypeCommand:
    """A command and what the page says it prints."""

    command: str
    expected: str


Step = WriteFile | TypeCommand


def pages() -> list[Path]:
    """Every Markdown page that the project ships."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.md")]
    return sorted([*found, *(ROOT / "changes").glob("*.md")])


def relative_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def steps(path: Path) -> list[Step]:
    """What a page marks as runnable, in order; together they are one story in one folder."""
    found: list[Step] = []
    text = path.read_text(encoding="utf-8")
    blocks = list(_BLOCK.finditer(text))
    if len(blocks) != len(_MARK.findall(text)):
        raise ValueError(f"{relative_name(path)}: a mark without a code block that can be tried")
    for block in blocks:
        if block["title"] is not None and block["title"] != block["name"]:
            raise ValueError(f"{relative_name(path)}: {block['name']} has the title {block['title']!r}")
        if block["name"]:
            found.append(WriteFile(name=block["name"], text=block["text"], among_drivers=block["kind"] == "driver"))
        else:
            found += _parse_commands(block["text"])
    return found


def prose(path: Path) -> str:
    """The page without its code blocks."""
    return _FENCED.sub("", path.read_text(encoding="utf-8"))


def matches(expected: str, printed: str) -> bool:
    """Whether a command printed what the page says."""
    return re.fullmatch(_pattern(expected), _normalize(printed), re.DOTALL) is not None


def _parse_commands(text: str) -> Iterator[TypeCommand]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        yield TypeCommand(command=command, expected=expected)


def _pattern(expected: str) -> str:
    lines = _normalize(expected).split("\n")
    return "".join(_line_pattern(line, last=number == len(lines)) for number, line in enumerate(lines, start=1))


def _line_pattern(line: str, *, last: bool) -> str:
    if line == "…":
        return r"(?:[^\n]*(?:\n|\Z))*?"
    return "[^\n]*".join(map(re.escape, line.split("…"))) + ("" if last else "\n")


def _normalize(text: str) -> str:
    for pattern, name in _SHAPES:
        text = pattern.sub(name, text)
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))
