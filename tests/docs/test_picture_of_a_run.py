"""The pictures of a terminal: drawn from a capture, and the capture is what a real run shows today."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import pytest

from .pages import ROOT, matches, relative_name

SCRIPT = runpy.run_path(str(ROOT / "docs" / "pictures.py"))
DRAWN = cast(Callable[[], dict[Path, str]], SCRIPT["pictures"])()
draw = cast(Callable[..., str], SCRIPT["draw"])


def read_screen(text: str) -> str:
    """What a terminal shows after this text."""
    screen: Any = SCRIPT["Screen"]()
    screen.write(text)
    return screen.to_text()


@pytest.mark.parametrize("picture", DRAWN, ids=relative_name)
def test_a_picture_is_what_its_capture_makes(picture: Path) -> None:
    assert picture.read_text(encoding="utf-8") == DRAWN[picture], "run `.venv/bin/python docs/pictures.py`"


def test_the_capture_is_what_a_run_shows_today(binaries: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, path in binaries.items():
        monkeypatch.setenv(name, path)
    stored = (ROOT / "docs" / "pictures" / "run.ansi").read_text(encoding="utf-8")
    shown = cast(Callable[[], str], SCRIPT["run_really"])()
    assert matches(read_screen(stored), read_screen(shown)), (
        f"run `.venv/bin/python docs/pictures.py --run`; it is now:\n{read_screen(shown)}"
    )


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("one\ntwo\n", "one\ntwo\n"),
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("working\r\x1b[Kdone\n", "done\n"),
        ("\x1b[?25lworking\x1b[2K\rdone\x1b[?25h\n", "done\n"),
        ("one\ntwo\n\x1b[1A\x1b[2Kthree\n", "one\nthree\n"),
        ("one\ntwo\n\x1b[2A\x1b[Jthree\n", "three\n"),
        ("one\n\x1bD\x1b[A\x1b7\r\nworking\x1b[K\x1b8two\n\x1b[J", "one\ntwo\n"),
        ("\x1b[32mgreen\x1b[0m\x1b]0;title\x07\n", "green\n"),
        ("x" * 101 + "\n", "x" * 100 + "\nx\n"),
    ],
)
def test_a_screen_shows_what_was_not_erased(written: str, shown: str) -> None:
    assert read_screen(written) == shown


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_picture_has_the_words_in_their_places_and_colours(theme: str) -> None:
    root = ElementTree.fromstring(draw("\x1b[32m✔ done\x1b[0m <&>\n\n  last\n", theme=theme))
    pieces = [(each.text, each.get("x"), each.get("y")) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert pieces == [("✔ done", "20", "32"), ("<&>", "74.6", "32"), ("last", "35.6", "72")]
    colours = [each.get("fill") for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert colours[0] != colours[1] == colours[2]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_colour_can_be_read_on_its_ground(theme: str) -> None:
    colours: dict[str, str] = SCRIPT["_COLOURS"][theme]
    words = {name: value for name, value in colours.items() if name not in ("back", "edge")}
    assert [name for name, value in words.items() if compute_contrast(value, colours["back"]) < 4.5] == []


def compute_contrast(one: str, other: str) -> float:
    """As the Web Content Accessibility Guidelines compute it."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
