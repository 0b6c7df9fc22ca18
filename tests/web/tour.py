"""A tour of the page as pictures for the documents: real runs of real agents, of which one needs its person.

`make pictures` writes them; each picture holds the words that were on the screen, and a test compares these with what
the same places say now.
"""

import re
import struct
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.cli_env import CliEnv

from .conftest import PHONE, WIDE, WebPage

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
SCHEMES = ("light", "dark")
_BASKET = "def total(first, second):\n    return first - second\n"
_TEST = "from basket import total\n\nassert total(1, 2) == 3, total(1, 2)\nprint('ok: 1 test')\n"
_FIX = """
[[call]]
say = "I'll run the tests first."
run = "python3 test_basket.py 2>&1 | tail -n 1"
[[call]]
say = "`total` subtracts where it should add. **Fixing it.**"
edit = {path = "basket.py", old = "    return first - second", new = "    return first + second"}
[[call]]
run = "python3 test_basket.py"
[[call]]
say = "Fixed: `total` now adds its two prices, and the test passes."
"""
_ASK = """
[[call]]
say = "The tests pass. I would push this now."
run = "git push origin main"
[[call]]
say = "ok"
"""
_LONG = """
[[call]]
say = "Running the whole suite; this takes a while."
run = "touch started; sleep 600"
"""
_MARK = b"inspan words\0"
# What differs between two tours of the same places.
_NORMAL = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b"), "SESSION"),
    # Codex takes the shell of its user.
    (re.compile(r"/\S*/(?:ba|z|da|)sh -lc\b"), "SHELL"),
    (re.compile(r"/\S*/shop\b"), "/shop"),
    (re.compile(r"/\S+\.toml"), "/scenario.toml"),
    (re.compile(r"\b[b-df-hjkmnp-tv-z][b-df-hjkmnp-tv-z2-9]{3}\b"), "NAME"),
    (re.compile(r"\S*…\S*"), "…"),
    # What took no time at all is not shown.
    (re.compile(r"\b(the model|tools|you|limits)\s+[\d.]+\s(ms|s)\b"), ""),
    (re.compile(r"\b(now|ago)\b"), "…"),
    (re.compile(r"[\d.,:/]*\d(\s?(ms|s|m|h|min|k)\b)?"), "0"),
    (re.compile(r"(0\s*)+"), "0 "),
)


class Scene(NamedTuple):
    """The runs of a tour."""

    fixed: str
    other: str
    asks: str
    works: str


class Stop(NamedTuple):
    """A place of the tour: its address, what has to be on the screen, how large that is."""

    path: str
    words: tuple[str, ...]
    size: tuple[int, int] = WIDE


STOPS: dict[str, Stop] = {
    "page-runs": Stop("/", ("Needs you", "git push origin main", "working", "completed")),
    "page-run": Stop("/runs/{fixed}", ("Fixing it.", "the test passes", "completed")),
    "page-compare": Stop("/compare?a={fixed}&b={other}", ("claude", "codex", "basket.py")),
    "page-phone": Stop("/runs/{asks}", ("wants to use", "Approve", "Deny"), PHONE),
}


def set_scene(cli_env: CliEnv) -> Scene:
    """Two agents that fixed the same test, one that asks, and one that works; in a repository named shop."""
    shop = cli_env.work / "shop"
    shop.mkdir()
    for name, text in (("basket.py", _BASKET), ("test_basket.py", _TEST)):
        (shop / name).write_text(text)
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "first")):
        subprocess.run(["git", *identity, *words], cwd=shop, env=cli_env.env, check=True)

    def start(prompt: str, agent: str, scenario: str, *more: str) -> str:
        model = cli_env.scenario(scenario, name=f"{agent}-{len(prompt)}")
        # Without a sandbox, root would see other facts than an ordinary user.
        words = ("run", prompt, "-d", "-a", agent, "--profile", "clean", "--sandbox", "bwrap", "--model-from", model)
        done = cli_env.inspan(*words, *more, cwd=shop, env={"PYTHONDONTWRITEBYTECODE": "1"})
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def fix(agent: str) -> str:
        run = start("fix the failing test", agent, _FIX)
        cli_env.wait_for_end(run)
        return run

    fixed = fix("claude")
    (shop / "basket.py").write_text(_BASKET)
    other = fix("codex")
    works = start("run the whole suite", "codex", _LONG)
    cli_env.wait_for_events(works, "tool_started")
    asks = start("push the release", "claude", _ASK, "--ask", "*", "--open")
    cli_env.wait_for_events(asks, "permission_asked")
    return Scene(fixed, other, asks, works)


def end_scene(cli_env: CliEnv, scene: Scene) -> None:
    """Ends the runs that live."""
    cli_env.inspan("kill", scene.works, scene.asks)


def go_to(page: WebPage, scene: Scene, name: str) -> str:
    """Goes to a place and gives the words there, without what differs each time."""
    stop = STOPS[name]
    page.browser.resize(*stop.size)
    page.open(stop.path.format(**scene._asdict()))
    page.see(*stop.words)
    page.browser.wait_for("!document.querySelector('.button[aria-disabled=true]')")
    # What is drawn has settled once two looks see the same.
    page.browser.evaluate("document.fonts.ready.then(() => new Promise(done => setTimeout(done, 500)))")
    return normalize(page.words)


def normalize(words: str) -> str:
    """Words without what differs between two tours."""
    for pattern, name in _NORMAL:
        words = pattern.sub(name, words)
    return " ".join(words.split())


def picture_path(name: str, scheme: str) -> Path:
    return FOLDER / f"{name}-{scheme}.png"


def write_pictures(page: WebPage, scene: Scene) -> None:
    """All places, light and dark."""
    for name in STOPS:
        for scheme in SCHEMES:
            page.browser.prefer(scheme)
            words = go_to(page, scene, name)
            path = picture_path(name, scheme)
            page.browser.photograph(path)
            path.write_bytes(_add_words(path.read_bytes(), words))


def read_words(path: Path) -> str:
    """The words that were on the screen when a picture was made."""
    for kind, body in _list_chunks(path.read_bytes()):
        if kind == b"iTXt" and body.startswith(_MARK):
            return body.rpartition(b"\0")[2].decode()
    raise AssertionError(f"{path} has no words")


def _add_words(data: bytes, words: str) -> bytes:
    """The picture with a text in it: keyword, no compression, no language, the text."""
    body = _MARK + b"\0\0\0\0" + words.encode()
    chunk = struct.pack(">I", len(body)) + b"iTXt" + body + struct.pack(">I", zlib.crc32(b"iTXt" + body))
    end = data.rindex(b"IEND") - 4
    return data[:end] + chunk + data[end:]


def _list_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 8
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        at += 12 + size
