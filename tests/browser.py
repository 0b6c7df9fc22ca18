"""A real Chromium without a window, spoken to over a pipe by its DevTools protocol: no port, no further package."""

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WAIT_S = 120.0
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # As root it does not start with one; it sees nothing but our own pages.
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


_KEYS: dict[str, dict[str, Any]] = {
    "Enter": {"code": "Enter", "windowsVirtualKeyCode": 13},
    "Escape": {"code": "Escape", "windowsVirtualKeyCode": 27},
    "Tab": {"code": "Tab", "windowsVirtualKeyCode": 9},
    "ArrowLeft": {"code": "ArrowLeft", "windowsVirtualKeyCode": 37},
    "ArrowRight": {"code": "ArrowRight", "windowsVirtualKeyCode": 39},
    "Home": {"code": "Home", "windowsVirtualKeyCode": 36},
}


def find_chromium() -> str:
    """The program, or an empty string."""
    names = ("google-chrome", "google-chrome-stable", "chromium", "chromium-browser")
    return next((found for name in names if (found := shutil.which(name))), "")


class Browser:
    """One page that can be sent to addresses, measured and photographed; `close` ends the program."""

    def __init__(self, program: str, folder: Path) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        argv = [program, *_OPTIONS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}', *argv],
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "LANG": "C.UTF-8"},
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        os.set_blocking(self._in, False)
        self._rest = b""
        self._number = 0
        self._session = ""
        self.requests: list[str] = []
        """Every address that was asked for."""
        self.problems: list[str] = []
        """What pages complained of: errors that nobody caught, and what a policy forbade."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Network.enable")
        self.call("Runtime.enable")
        self.call("Log.enable")
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)  # As if its window were the one in front.

    def resize(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme: str) -> None:
        """Asks pages for a light or a dark look."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, address: str) -> None:
        """Goes there and waits until everything on the page has been loaded."""
        asked = self._send("Page.navigate", {"url": address})
        loader: list[str] = []

        def is_loaded(message: dict[str, Any]) -> bool:
            if message.get("id") == asked:
                assert not message["result"].get("errorText"), message
                loader.append(message["result"]["loaderId"])
            return message.get("method") == "Page.loadEventFired" and bool(loader)

        self._read_until(is_loaded)

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression on the page."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def wait_for(self, script: str) -> None:
        """Waits until an expression is true."""
        deadline = time.monotonic() + WAIT_S
        while not self.evaluate(f"!!({script})"):
            assert time.monotonic() < deadline, f"never true: {script}\n{self.evaluate('document.body.innerText')}"
            time.sleep(0.02)

    def press(self, key: str, *, modifiers: int = 0, repeats: int = 0) -> None:
        """A key, by its name or as the character that it types; held down until it has repeated itself that often."""
        text = {"Enter": "\r", "Space": " "}.get(key, key if len(key) == 1 else "")
        named = {"key": " " if key == "Space" else key, "modifiers": modifiers, **_KEYS.get(key, {})}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **named)
        for _ in range(repeats):
            self.call("Input.dispatchKeyEvent", type="keyDown", text=text, autoRepeat=True, **named)
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def type(self, text: str) -> None:
        """Text into the field that has the focus, once one has it: before that, Chromium drops text in silence."""
        field = "document.activeElement"
        self.wait_for(f"document.hasFocus() && {field}.matches('input,textarea')")
        self.call("Input.insertText", text=text)
        self.wait_for(f"{field}.value.includes({json.dumps(text)})")

    def photograph(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        asked = self._send(method, arguments)
        answer = self._read_until(lambda message: message.get("id") == asked)
        assert "result" in answer, answer
        return answer["result"]

    def close(self) -> None:
        os.close(self._out)  # It ends when its pipe does.
        try:
            self._process.wait(timeout=WAIT_S)
        finally:
            self._process.kill()
            self._process.wait(timeout=WAIT_S)
            os.close(self._in)

    def _send(self, method: str, arguments: dict[str, Any]) -> int:
        self._number += 1
        where = {"sessionId": self._session} if self._session else {}
        message = {"id": self._number, "method": method, "params": arguments, **where}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        return self._number

    def _read_until(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            message = self._read_message()
            if message is None:
                assert self._process.poll() is None, f"Chromium ended with {self._process.returncode}"
                time.sleep(0.005)
                continue
            if message.get("method") == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
            elif problem := _find_problem(message):
                self.problems.append(problem)
            if is_it(message):
                return message
        raise AssertionError("Chromium did not answer")

    def _read_message(self) -> dict[str, Any] | None:
        """The next message, or nothing if there is none yet."""
        if b"\0" not in self._rest:
            try:
                self._rest += os.read(self._in, 1 << 20)
            except BlockingIOError:
                return None
        text, found, rest = self._rest.partition(b"\0")
        if not found:
            return None
        self._rest = rest
        return json.loads(text)


def _find_problem(message: dict[str, Any]) -> str:
    params = message.get("params", {})
    if message.get("method") == "Runtime.exceptionThrown":
        return json.dumps(params["exceptionDetails"])
    if message.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
        entry = params["entry"]
        # A connection that breaks is told, too; that is what some tests are about.
        return "" if entry["source"] == "network" else f"{entry['source']}: {entry['text']}"
    return ""
