"""The page of a real server in a real Chromium."""

import json
import time
from collections.abc import Iterator

import pytest

from tests.browser import WAIT_S, Browser
from tests.cli_env import CliEnv
from tests.server.server_process import ServerProcess

WIDE, PHONE = (1280, 800), (390, 844)


class WebPage:
    """What somebody sees and does there. Words are those on the screen, as they are read."""

    def __init__(self, browser: Browser, server: ServerProcess) -> None:
        """At a desk and by day, whatever the test before has left of the browser that all share."""
        self.browser = browser
        self.server = server
        browser.resize(*WIDE)
        browser.prefer("light")

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def log_in(self) -> None:
        """By the link that the server prints; ends on the list of runs."""
        self.browser.open("about:blank")
        self.browser.open(f"{self.origin}/#token={self.server.token}")
        self.browser.wait_for("document.querySelector('main h1, main h2, [role=search]')")

    def open(self, path: str) -> None:
        self.browser.open("about:blank")
        self.browser.open(f"{self.origin}{path}")

    @property
    def words(self) -> str:
        return self.browser.evaluate("document.body.innerText")

    def see(self, *texts: str) -> None:
        """Waits until all of these are on the screen."""
        for text in texts:
            self.browser.wait_for(f"document.body.innerText.includes({json.dumps(text)})")

    def miss(self, text: str) -> None:
        """Waits until this is on the screen no more."""
        self.browser.wait_for(f"!document.body.innerText.includes({json.dumps(text)})")

    def click(self, name: str) -> None:
        """A button or a link, by its label or its words."""
        self.browser.wait_for(f"({_FIND})({json.dumps(name)})")
        self.browser.evaluate(f"({_FIND})({json.dumps(name)}).click()")

    def press_until(self, keys: str, condition: str) -> None:
        """Keys as often as it takes: a page that was only just drawn does not hear them yet, and those of a sequence
        come too far apart where the machine is busy."""
        deadline = time.monotonic() + WAIT_S
        while not self.browser.evaluate(f"!!({condition})"):
            assert time.monotonic() < deadline, f"{keys} does not lead to {condition}"
            for key in keys.split():
                self.browser.press(key)
            time.sleep(0.3)

    def fill(self, label: str, text: str) -> None:
        """A field by its label."""
        self.browser.wait_for("document.querySelector('form')")
        self.browser.evaluate(f"({_FOCUS})({json.dumps(label)})")
        self.browser.type(text)


_FIND = """name => [...document.querySelectorAll('button,a,[role=button],[role=tab],summary')].find(each =>
    each.checkVisibility() && each.ariaDisabled !== 'true' &&
    (each.getAttribute('aria-label') === name || each.innerText.trim().split('\\n')[0] === name))"""
_FOCUS = """name => {
    const label = [...document.querySelectorAll('label')].find(each => each.innerText.includes(name));
    const field = label.control ?? label.querySelector('input,textarea');
    field.focus();
    field.select();
}"""


@pytest.fixture
def server(cli_env: CliEnv) -> Iterator[ServerProcess]:
    made = ServerProcess(cli_env)
    yield made
    made.close()


@pytest.fixture
def page(browser: Browser, server: ServerProcess) -> Iterator[WebPage]:
    """Logged in; nothing that a page complains of is let pass."""
    browser.problems.clear()
    made = WebPage(browser, server)
    made.log_in()
    yield made
    browser.open("about:blank")
    assert browser.problems == []
