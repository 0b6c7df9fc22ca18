"""Pictures of terminal sessions for the README: real runs on an emulated screen, light and dark. `make pictures` writes
them, and a test compares their words with what the same runs print now."""

import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from pyte.screens import Char

from tests.browser import Browser, find_chromium
from tests.cli_env import CliEnv, short_folder
from tests.emulated_terminal import EmulatedTerminal
from tests.server.server_process import ServerProcess
from tests.web import tour
from tests.web.conftest import WIDE, WebPage

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
COLUMNS = 84
_WIDTH, _HEIGHT, _MARGIN = 8.4, 19, 16


class Theme(NamedTuple):
    """Colours of a terminal; those of the characters by the names that pyte gives them."""

    background: str
    edge: str
    colours: dict[str, str]


THEMES = {
    "light": Theme(
        "#f6f8fa",
        "#d0d7de",
        {"default": "#24292f", "cyan": "#0b6e8a", "red": "#c21f2b", "green": "#17702e", "brown": "#8a5a00"},
    ),
    "dark": Theme(
        "#15181c",
        "#30363d",
        {"default": "#d7dce2", "cyan": "#5cc8e0", "red": "#ff7b72", "green": "#56d364", "brown": "#e3b341"},
    ),
}
_NORMAL = (
    (re.compile(r"\d{8}-\d{9}-\d+"), "RUN-ID"),
    (re.compile(r"\d+m\d\ds|\d+(?:\.\d+)?s\b"), "DURATION"),
    (re.compile(r"\b\d+\.\d+\.\d+\b"), "VERSION"),
    (re.compile(r"run \w{4} \("), "run NAME ("),
    (re.compile(r"of run \w{4} "), "of run NAME "),
    (re.compile(r" {2,}"), "  "),
)

_BASKET = "def total(first, second):\n    return first - second\n"
_TEST = """\
from basket import total

if total(1, 2) != 3:
    raise SystemExit(f"FAILED test_total: total(1, 2) is {total(1, 2)}, not 3")
print("ok: 1 test")
"""
_SLOW_TEST = "until test -e built; do sleep 0.1; done"
_FIX = """
[[call]]
say = "I'll run the tests first."
run = "python3 test_basket.py"

[[call]]
say = "`total` subtracts where it should add. **Fixing it.**"
edit = {path = "basket.py", old = "    return first - second", new = "    return first + second"}

[[call]]
run = "python3 test_basket.py"

[[call]]
say = "Fixed: `total` now adds its two prices, and the test passes."
"""
_LONG = """
[[call]]
say = "I'll run *all* tests before I touch anything."
run = "sh run_tests.sh"

[[call]]
say = "All tests pass."
"""
_FILES = {"basket.py": _BASKET, "test_basket.py": _TEST, "run_tests.sh": _SLOW_TEST}
_OVERLOADED = '[[call]]\nfail = {status = 529}\nrepeat = "always"\n'
_PROMPTS = {"fix": "fix the test", "working": "run all tests", "failure": "explain it", "budget": "fix the test"}
_SCENARIOS = {"fix": _FIX, "working": _LONG, "failure": _OVERLOADED, "budget": _FIX}
_MORE = {"budget": ("--budget", "2calls")}
SESSIONS = tuple(_SCENARIOS)

Row = list[Char]


def record_session(name: str, cli_env: CliEnv) -> list[Row]:
    """The rows of a session as a person sees them, with what was typed above them."""
    home = short_folder(cli_env)  # A long path would be broken at the edge.
    folder = Path(home, "shop")
    folder.mkdir(exist_ok=True)
    for file, text in {**_FILES, f"{name}.toml": _SCENARIOS[name]}.items():
        (folder / file).write_text(text)
    scenario = folder / f"{name}.toml"
    # Without a sandbox, root would see another first line than an ordinary user.
    words = ("run", _PROMPTS[name], "-a", "claude", "--profile", "clean", "--sandbox", "bwrap")
    words += ("--model-from", f"script:{scenario}", *_MORE.get(name, ()))
    env = {**cli_env.env, "HOME": home, "PYTHONDONTWRITEBYTECODE": "1", "INSPAN_SPINNER": "off"}
    terminal = EmulatedTerminal(cli_env.argv(*words), cwd=folder, env=env, columns=COLUMNS, rows=40)
    with terminal:
        if name == "working":
            terminal.wait_for(lambda: re.search("● working · sh .* Ctrl-C stops", terminal.text), "a status line")
        else:
            terminal.wait_for_end()
        more = "".join(f" {word}" for word in _MORE.get(name, ()))
        typed = f'$ inspan "{_PROMPTS[name]}" -a claude{more} --sandbox bwrap --model-from script:{name}.toml'
        rows = [_make_row(typed), *_copy_rows(terminal)]
    (folder / "built").touch()
    return [_replace_path(row, str(folder)) for row in rows]


def _make_row(text: str) -> Row:
    return [Char(letter) for letter in text]


def _copy_rows(terminal: EmulatedTerminal) -> Iterator[Row]:
    screen = terminal.screen
    for number in range(len(terminal.lines)):
        row = [screen.buffer[number][column] for column in range(screen.columns)]
        while row and row[-1].data == " ":
            row.pop()
        yield row


def _replace_path(row: Row, path: str) -> Row:
    """A path of this machine says nothing to a reader."""
    at = "".join(char.data for char in row).find(f"{path}/")
    return row if at < 0 else [*row[:at], *row[at + len(path) + 1 :]]


def read_words(rows: Sequence[str]) -> list[str]:
    """Rows without what differs between two runs."""
    text = "\n".join(row.rstrip() for row in rows)
    for pattern, name in _NORMAL:
        text = pattern.sub(name, text)
    return text.split("\n")


def draw_picture(rows: Sequence[Row], theme: Theme) -> str:
    """An SVG in which every row is a text, so that it can be searched, read aloud and compared."""
    width, height = COLUMNS * _WIDTH + 2 * _MARGIN, len(rows) * _HEIGHT + 2 * _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" role="img">',
        f'<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1}" rx="8" fill="{theme.background}"'
        f' stroke="{theme.edge}"/>',
        # Spaces count: for Chromium by the style, which the attribute above a text does not change, for others by that.
        "<style>text, tspan { white-space: pre }</style>",
        '<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" xml:space="preserve">',
    ]
    for number, row in enumerate(rows):
        y = _MARGIN + (number + 0.75) * _HEIGHT
        lines.append(f'<text y="{y:.1f}">{"".join(_draw_runs(row, theme))}</text>')
    return "\n".join([*lines, "</g>", "</svg>", ""])


def _draw_runs(row: Row, theme: Theme) -> Iterator[str]:
    column = 0
    for (colour, bold), run in groupby(row, key=lambda char: (char.fg, char.bold)):
        text = "".join(char.data for char in run)
        weight = ' font-weight="bold"' if bold else ""
        fill = theme.colours.get(colour, theme.colours["default"])
        yield f'<tspan x="{_MARGIN + column * _WIDTH:.1f}" fill="{fill}"{weight}>{escape(text)}</tspan>'
        column += len(text)


def read_picture(path: Path) -> list[str]:
    """The rows of a picture."""
    texts = ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(text.itertext()) for text in texts]


def picture_path(name: str, theme: str) -> Path:
    return FOLDER / f"{name}-{theme}.svg"


def write_pictures(make_env: Callable[[Path], CliEnv]) -> None:
    """All sessions, in all themes."""
    FOLDER.mkdir(exist_ok=True)
    for name in SESSIONS:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # What was killed may still write.
            cli_env = make_env(Path(folder) / "house")
            rows = record_session(name, cli_env)
            cli_env.close()
        for theme, colours in THEMES.items():
            picture_path(name, theme).write_text(draw_picture(rows, colours), encoding="utf-8")


def write_page_pictures(make_env: Callable[[Path], CliEnv]) -> None:
    """The tour of the page."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        cli_env = make_env(Path(folder) / "house")
        server = ServerProcess(cli_env)
        scene = tour.set_scene(cli_env)
        browser = Browser(find_chromium(), Path(folder))
        page = WebPage(browser, server)
        browser.resize(*WIDE)
        page.log_in()
        tour.write_pictures(page, scene)
        browser.close()
        tour.end_scene(cli_env, scene)
        server.close()
        cli_env.close()


def _make_env(root: Path) -> CliEnv:
    root.mkdir()
    return CliEnv(root)


if __name__ == "__main__":
    write_pictures(_make_env)
    write_page_pictures(_make_env)
    made = len(SESSIONS) * len(THEMES) + len(tour.STOPS) * len(tour.SCHEMES)
    sys.stdout.write(f"written: {made} pictures\n")
