"""Draws the pictures of a terminal: `python docs/pictures.py`, or with `--run` after a new real run.

A capture, `docs/pictures/NAME.ansi`, is what a terminal showed at the end, with its colours. Each is drawn twice, light
and dark, as `docs/assets/NAME-light.svg` and `NAME-dark.svg`. The agent in the run is the real one, its model a script.
"""

import itertools
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

DOCS = Path(__file__).parent
CAPTURES = DOCS / "pictures"
COLUMNS = 100
COMMAND = 'inspan run "fix the failing test" -a codex --profile clean --model-from script:fix.toml'
_PROGRAM = (
    '"""Prices."""\n\n\ndef total(first: int, second: int) -> int:\n    return first - second\n',
    "import unittest\n\nfrom basket import total\n\n\nclass Basket(unittest.TestCase):\n"
    "    def test_total_adds_prices(self) -> None:\n        self.assertEqual(total(2, 3), 5)\n",
)
_KEPT = ("PATH", "INSPAN_CODEX_BIN", "INSPAN_PORTABLE")
_SCRIPT = DOCS.parent / "src" / "inspan" / "cli" / "demo.toml"

_CHARACTER, _LINE, _MARGIN, _SIZE = 7.8, 20, 20, 13
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
# The 16 colours of a terminal by their role; bright ones are the same. Each has a contrast of 4.5 and more.
_COLOURS = {
    "light": {
        "back": "#f6f7f8",
        "edge": "#d5d9de",
        "": "#1f2328",
        "dim": "#59636e",
        "red": "#b42318",
        "green": "#18703a",
        "yellow": "#7a5600",
        "cyan": "#0b6480",
    },
    "dark": {
        "back": "#16191d",
        "edge": "#343a42",
        "": "#e6e8eb",
        "dim": "#9aa4af",
        "red": "#ff8a80",
        "green": "#5cc98a",
        "yellow": "#e0b34c",
        "cyan": "#5fb8d4",
    },
}
_ROLES = {"0": "", "1": "red", "2": "green", "3": "yellow", "4": "cyan", "5": "cyan", "6": "cyan", "7": "", "8": "dim"}
_NUMBERS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "dim": "90"}
_SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b(.)")


@dataclass(frozen=True)
class Style:
    """How a character is shown: the role of its colour, and whether it is bold or dim."""

    role: str = ""
    bold: bool = False
    dim: bool = False


@dataclass
class Screen:
    """What a terminal shows at the end. It knows what inspan writes: colours, lines that are erased and drawn anew."""

    columns: int = COLUMNS
    lines: list[list[tuple[str, Style]]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0
    style: Style = Style()
    kept: tuple[int, int, Style] = (0, 0, Style())

    def write(self, text: str) -> None:
        at = 0
        for found in _SEQUENCE.finditer(text):
            self._put(text[at : found.start()])
            self._obey(found[1] or "", found[2] or found[3] or "")
            at = found.end()
        self._put(text[at:])

    def to_text(self) -> str:
        return "\n".join("".join(character for character, _ in line).rstrip() for line in self.lines).rstrip() + "\n"

    def to_ansi(self) -> str:
        """The same without what was erased."""
        lines = ["".join(f"{_to_sequence(style)}{text}" for text, style in _spans(line)) for line in self.lines]
        return "\n".join(line.rstrip() for line in lines).rstrip() + "\x1b[0m\n"

    def _put(self, text: str) -> None:
        for character in text:
            if character == "\n":  # A terminal's driver writes \r\n for it; a file has it alone.
                self._go_to(self.row + 1)
                self.column = 0
            elif character == "\r":
                self.column = 0
            elif character >= " ":
                self._put_character(character)

    def _put_character(self, character: str) -> None:
        if self.column == self.columns:
            self._go_to(self.row + 1)
            self.column = 0
        line = self.lines[self.row]
        line.extend([(" ", Style())] * (self.column + 1 - len(line)))
        line[self.column] = (character, self.style)
        self.column += 1

    def _obey(self, numbers: str, letter: str) -> None:
        count = int(numbers) if numbers.isdigit() else 0
        if letter == "m":
            self.style = _apply(self.style, numbers or "0")
        elif letter == "K":
            del self.lines[self.row][0 if count == 2 else self.column :]
        elif letter == "J":
            del self.lines[self.row][self.column :], self.lines[self.row + 1 :]
        elif letter == "A":
            self._go_to(max(0, self.row - (count or 1)))
        elif letter == "G":
            self.column = max(0, count - 1)
        elif letter == "D":
            self._go_to(self.row + 1)
        elif letter == "7":
            self.kept = (self.row, self.column, self.style)
        elif letter == "8":
            self.row, self.column, self.style = self.kept

    def _go_to(self, row: int) -> None:
        self.row = row
        self.lines.extend([] for _ in range(row + 1 - len(self.lines)))


def _spans(line: Sequence[tuple[str, Style]]) -> Iterator[tuple[str, Style]]:
    for style, characters in itertools.groupby(line, key=lambda each: each[1]):
        yield "".join(character for character, _ in characters), style


def _to_sequence(style: Style) -> str:
    numbers = ["0", *(["1"] if style.bold else []), *(["2"] if style.dim else [])]
    return f"\x1b[{';'.join([*numbers, *([_NUMBERS[style.role]] if style.role else [])])}m"


def _apply(style: Style, numbers: str) -> Style:
    for number in numbers.split(";"):
        if number in ("", "0", "39", "22"):
            style = Style(role="" if number != "22" else style.role)
        elif number in ("1", "2"):
            style = Style(role=style.role, bold=style.bold or number == "1", dim=style.dim or number == "2")
        elif re.fullmatch(r"[39][0-7]", number):
            role = "dim" if number == "90" else _ROLES[number[1]]
            style = Style(role=role, bold=style.bold, dim=style.dim)
    return style


def draw(capture: str, *, theme: str) -> str:
    """A terminal with this text as an SVG; the same text gives the same picture."""
    screen = Screen()
    screen.write(capture)
    words = screen.to_text()
    lines = screen.lines[: words.count("\n")]
    colours = _COLOURS[theme]
    width, height = _MARGIN * 2 + COLUMNS * _CHARACTER, _MARGIN * 2 + len(lines) * _LINE - 4
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
            f'height="{height:g}" role="img" font-family="{_FONT}" font-size="{_SIZE}">',
            f"<title>{escape(words)}</title>",
            f'<rect x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1:g}" rx="6" fill="{colours["back"]}" '
            f'stroke="{colours["edge"]}"/>',
            *(span for row, line in enumerate(lines) for span in _draw_line(line, row, colours)),
            "</svg>",
            "",
        ]
    )


def _draw_line(line: Sequence[tuple[str, Style]], row: int, colours: Mapping[str, str]) -> Iterator[str]:
    start = 0
    for text, style in _spans(line):
        words = text.strip(" ")
        if words:
            at = start + len(text) - len(text.lstrip(" "))
            colour = colours["dim" if style.dim else style.role]
            weight = ' font-weight="600"' if style.bold else ""
            # A width for each piece keeps the columns where the reader's font is wider, or lacks a glyph.
            yield (
                f'<text x="{_MARGIN + at * _CHARACTER:g}" y="{_MARGIN + 12 + row * _LINE}" '
                f'textLength="{len(words) * _CHARACTER:g}" fill="{colour}"{weight} xml:space="preserve">'
                f"{escape(words)}</text>"
            )
        start += len(text)


def pictures() -> dict[Path, str]:
    """Every picture as it should be now."""
    return {
        DOCS / "assets" / f"{path.stem}-{theme}.svg": draw(path.read_text(encoding="utf-8"), theme=theme)
        for path in sorted(CAPTURES.glob("*.ansi"))
        for theme in _COLOURS
    }


def run_really() -> str:
    """What a terminal shows of a real run in a small repository of its own; the home is written as `~`."""
    home = Path(tempfile.mkdtemp(prefix="inspan-picture-")).resolve()
    try:
        folder = home / "shop"
        folder.mkdir()
        for name, text in zip(("basket.py", "test_basket.py"), _PROGRAM, strict=True):
            (folder / name).write_text(text)
        shutil.copy(_SCRIPT, folder / "fix.toml")
        (folder / ".gitignore").write_text("__pycache__/\n")
        _commit(folder)
        printed = _run_in_terminal(COMMAND, folder, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    screen = Screen()
    screen.write(f"\x1b[2m$\x1b[0m {COMMAND}\n{printed.replace(str(home), '~')}")
    return screen.to_ansi()


def _commit(folder: Path) -> None:
    who = ("-c", "user.name=shop", "-c", "user.email=shop@localhost")
    for arguments in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "A basket")):
        subprocess.run(["git", *arguments], cwd=folder, check=True)


def _run_in_terminal(command: str, folder: Path, home: Path) -> str:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, COLUMNS))
    env = {
        **{name: value for name, value in os.environ.items() if name in _KEPT},
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(home),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        # A test, an edit of the same length and a test within one second: a cached .pyc would hide the edit.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    argv = [sys.executable, "-m", *shlex.split(command)]
    with subprocess.Popen(argv, cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        pieces: list[bytes] = []
        try:
            while piece := os.read(ours, 65536):
                pieces.append(piece)
        except OSError:
            pass  # So ends a terminal whose last writer has left.
        finally:
            os.close(ours)
    if process.returncode:
        raise SystemExit(f"the run ended with {process.returncode}:\n{b''.join(pieces).decode()}")
    return b"".join(pieces).decode()


def main() -> int:
    if "--run" in sys.argv:
        (CAPTURES / "run.ansi").write_text(run_really(), encoding="utf-8")
    for path, text in pictures().items():
        path.write_text(text, encoding="utf-8")
        print(f"drawn: {path.relative_to(DOCS.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
