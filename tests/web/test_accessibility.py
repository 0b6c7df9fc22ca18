"""The page for those who use it otherwise: what axe, the usual checker, finds in every place of it."""

import json
from collections.abc import Iterator

import pytest

from tests.cli_env import CliEnv

from .conftest import PHONE, WIDE, WebPage
from .packages import install_packages
from .tour import Scene, end_scene, set_scene

PLACES = (
    "/",
    "/cost",
    "/start",
    "/runs/{fixed}",
    "/runs/{fixed}/diff",
    "/runs/{fixed}/cost",
    "/runs/{works}",
    "/runs/{asks}",
    "/compare?a={fixed}&b={other}",
    "/nowhere",
)
_FIND = """axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations.map(
    each => `${each.id}: ${each.nodes.map(node => node.html.slice(0, 200)).join(" | ")}`))"""


@pytest.fixture
def scene(cli_env: CliEnv) -> Iterator[Scene]:
    made = set_scene(cli_env)
    yield made
    end_scene(cli_env, made)


@pytest.fixture(scope="session")
def axe() -> str:
    return (install_packages() / "axe-core" / "axe.min.js").read_text()


@pytest.mark.parametrize(("scheme", "size"), [("light", WIDE), ("dark", WIDE), ("light", PHONE)])
def test_axe_finds_nothing_anywhere(page: WebPage, scene: Scene, axe: str, scheme: str, size: tuple[int, int]) -> None:
    page.browser.prefer(scheme)
    page.browser.resize(*size)
    found: dict[str, list[str]] = {}
    for path in PLACES:
        page.open(path.format(**scene._asdict()))
        page.browser.wait_for("document.querySelector('main')?.innerText.length > 20 && document.querySelector('h1')")
        page.browser.evaluate("new Promise(done => setTimeout(done, 500))")
        page.browser.evaluate(f"{axe}; 0")
        found[path] = page.browser.evaluate(_FIND)
    page.browser.resize(*WIDE)
    assert {path: each for path, each in found.items() if each} == {}


def test_axe_would_find_something(page: WebPage, axe: str) -> None:
    page.browser.evaluate(f"document.body.append(document.createElement('img')); {axe}; 0")
    assert any("image-alt" in each for each in page.browser.evaluate(_FIND))


def test_every_control_can_be_reached_by_tab(page: WebPage) -> None:
    page.open("/start")
    page.browser.wait_for("document.querySelector('form')")
    page.browser.evaluate("new Promise(done => setTimeout(done, 500))")
    reached: set[str] = set()
    for _ in range(60):
        page.browser.press("Tab")
        reached.add(page.browser.evaluate("document.activeElement.tagName + document.activeElement.id"))
    wanted = "[...document.querySelectorAll('form input, form textarea, form select')]"
    shown = f"{wanted}.filter(each => each.checkVisibility()).map(each => each.tagName + each.id)"
    fields = json.loads(page.browser.evaluate(f"JSON.stringify({shown})"))
    assert fields and set(fields) <= reached
