"""The pictures of the page in the documents show what the same places look like now."""

import struct
import time
from collections.abc import Iterator

import pytest

from tests.browser import Browser
from tests.cli_env import CliEnv
from tests.server.server_process import ServerProcess

from .conftest import WIDE, WebPage
from .tour import SCHEMES, STOPS, Scene, end_scene, go_to, normalize, picture_path, read_words, set_scene

SETTLE_S = 30.0


@pytest.fixture
def scene(cli_env: CliEnv) -> Iterator[Scene]:
    made = set_scene(cli_env)
    yield made
    end_scene(cli_env, made)


def test_pictures_have_the_words_of_their_places(browser: Browser, server: ServerProcess, scene: Scene) -> None:
    page = WebPage(browser, server)
    page.log_in()
    for name in STOPS:
        words, deadline = go_to(page, scene, name), time.monotonic() + SETTLE_S
        shown = {scheme: read_words(picture_path(name, scheme)) for scheme in SCHEMES}
        while {*shown.values()} != {words} and time.monotonic() < deadline:
            time.sleep(0.2)  # Some of it may still be on its way from the server.
            words = normalize(page.words)
        for scheme in SCHEMES:
            assert shown[scheme] == words, f"{name}: `make pictures` writes them anew"
    browser.resize(*WIDE)
    browser.open("about:blank")


@pytest.mark.parametrize("name", STOPS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_picture_is_small_and_has_the_size_of_its_screen(name: str, scheme: str) -> None:
    data = picture_path(name, scheme).read_bytes()
    assert struct.unpack(">II", data[16:24]) == STOPS[name].size
    assert len(data) < 200_000
