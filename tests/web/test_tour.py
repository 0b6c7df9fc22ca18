"""The pictures of the page in the documents show what the same places look like now."""

import struct
from collections.abc import Iterator

import pytest

from tests.browser import Browser
from tests.cli_env import CliEnv
from tests.server.server_process import ServerProcess

from .conftest import WIDE, WebPage
from .tour import SCHEMES, STOPS, Scene, end_scene, go_to, picture_path, read_words, set_scene


@pytest.fixture
def scene(cli_env: CliEnv) -> Iterator[Scene]:
    made = set_scene(cli_env)
    yield made
    end_scene(cli_env, made)


def test_pictures_have_the_words_of_their_places(browser: Browser, server: ServerProcess, scene: Scene) -> None:
    page = WebPage(browser, server)
    browser.resize(*WIDE)
    browser.prefer("light")
    page.log_in()
    for name in STOPS:
        words = go_to(page, scene, name)
        for scheme in SCHEMES:
            assert read_words(picture_path(name, scheme)) == words, f"{name}: `make pictures` writes them anew"
    browser.resize(*WIDE)
    browser.open("about:blank")


@pytest.mark.parametrize("name", STOPS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_picture_is_small_and_has_the_size_of_its_screen(name: str, scheme: str) -> None:
    data = picture_path(name, scheme).read_bytes()
    assert struct.unpack(">II", data[16:24]) == STOPS[name].size
    assert len(data) < 200_000
