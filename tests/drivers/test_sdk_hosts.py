"""The processes that hold a vendor's SDK, each with a small program in the agent's place."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import inspan
from tests.cli_env import wait_until

_DRIVERS = Path(inspan.__file__).parent / "drivers"
_PACKAGES = str(Path(pytest.__file__).parent.parent)
_LARGE = 3_000_000
# What both programs do for a prompt, by the word that it begins with.
_PROGRAM = f"""\
#!{sys.executable} -I
import json, os, signal, sys, time
def say(message): print(json.dumps(message), flush=True)
def act(word):
    if word == "junk":
        print("[debug] not for anybody", flush=True)
        print("a complaint", file=sys.stderr, flush=True)
        say({{**UNKNOWN, "large": "x" * {_LARGE}}})
    elif word == "exit":
        sys.exit(7)
    elif word == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
open("pid", "w").write(str(os.getpid()))
"""
_CLAUDE = (
    _PROGRAM
    + """
UNKNOWN = {"type": "telepathy", "session_id": "S"}
for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] == "control_request":
        kind = frame["request"]["subtype"]
        how = {"subtype": "error", "error": "no such model"} if kind == "set_model" else {"subtype": "success"}
        say({"type": "control_response", "response": {**how, "request_id": frame["request_id"], "response": {}}})
    else:
        act(frame["message"]["content"])
"""
)
_CODEX = (
    _PROGRAM
    + """
UNKNOWN = {"method": "telepathy", "params": {"threadId": "T"}}
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        say({"id": message["id"], "result": {"userAgent": "codex/0.163.0"}})
    elif message.get("method") == "thread/settings/update":
        say({"id": message["id"], "error": {"code": -32602, "message": "no such model"}})
    elif "id" in message:
        act(message["params"]["word"])
        say({"id": message["id"], "result": {"done": True}})
"""
)


class Process:
    """A host with its program, and what it has written so far."""

    def __init__(self, folder: Path, agent: str) -> None:
        self.agent = agent
        self._folder = folder
        program = folder / "program"
        program.write_text(textwrap.dedent({"claude": _CLAUDE, "codex": _CODEX}[agent]))
        program.chmod(0o755)
        self._program = str(program)
        argv = [sys.executable, "-I", str(_DRIVERS / agent / "sdk_host.py"), _PACKAGES]
        argv += [self._program] if agent == "codex" else []
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            self.child = subprocess.Popen(argv, cwd=folder, stdin=subprocess.PIPE, stdout=out, stderr=err)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Every whole line of stdout, each of which is one message."""
        *lines, _ = (self._folder / "out").read_text().split("\n")
        return [json.loads(line) for line in lines]

    @property
    def complaints(self) -> str:
        return (self._folder / "err").read_text()

    @property
    def program_pid(self) -> int:
        return int((self._folder / "pid").read_text())

    def start(self) -> None:
        """Has the SDK start the program."""
        request: dict[str, Any] = {"subtype": "initialize", "hooks": None, "asks": False}
        request["options"] = {"cli_path": self._program}
        name = {"name": "inspan", "title": "inspan", "version": "1"}
        self.send(
            {"type": "control_request", "request_id": "1", "request": request}
            if self.agent == "claude"
            else {"id": 1, "method": "initialize", "params": {"clientInfo": name}}
        )
        wait_until(lambda: len(self.messages) == 1, "answer")

    def prompt(self, word: str) -> None:
        self.send(
            {"type": "user", "message": {"role": "user", "content": word}}
            if self.agent == "claude"
            else {"id": 2, "method": "say", "params": {"word": word}}
        )

    def set_model(self) -> None:
        self.send(
            {"type": "control_request", "request_id": "3", "request": {"subtype": "set_model", "model": "m"}}
            if self.agent == "claude"
            else {"id": 3, "method": "thread/settings/update", "params": {"model": "m"}}
        )

    def send(self, message: dict[str, Any]) -> None:
        assert self.child.stdin
        self.child.stdin.write(json.dumps(message).encode() + b"\n")
        self.child.stdin.flush()

    def close(self) -> None:
        assert self.child.stdin
        self.child.stdin.close()

    def has_program(self) -> bool:
        return os.path.exists(f"/proc/{self.program_pid}")


@pytest.fixture(params=["claude", "codex"])
def process(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Process]:
    made = Process(tmp_path, request.param)
    try:
        yield made
    finally:
        if made.child.poll() is None:
            made.child.kill()
        made.child.wait()
        made.close()


def test_what_the_program_says_leaves_as_it_is_and_nothing_else(process: Process) -> None:
    process.start()
    process.prompt("junk")
    own: list[dict[str, Any]] = [{"type": "telepathy", "session_id": "S", "large": "x" * _LARGE}]
    if process.agent == "codex":
        head = {"jsonrpc": "2.0"}
        said = {**head, "method": "telepathy", "params": {"threadId": "T"}, "large": "x" * _LARGE}
        own = [said, {**head, "id": 2, "result": {"done": True}}]
    wait_until(lambda: len(process.messages) > len(own), "messages")
    assert process.messages[1:] == own
    assert "a complaint" in process.complaints


def test_a_refusal_is_the_answer_to_what_was_asked(process: Process) -> None:
    process.start()
    process.set_model()
    wait_until(lambda: len(process.messages) == 2, "answer")
    told = process.messages[1]
    assert "no such model" in json.dumps(told)
    assert (told["response"]["request_id"] if process.agent == "claude" else str(told["id"])) == "3"


@pytest.mark.parametrize(("word", "code"), [("exit", 7), ("killed", 128 + signal.SIGKILL)])
def test_it_ends_as_the_program_does(process: Process, word: str, code: int) -> None:
    process.start()
    process.prompt(word)
    assert process.child.wait(30) == code


@pytest.mark.parametrize("way", ["stdin", "SIGTERM", "SIGINT"])
def test_the_program_ends_with_it(process: Process, way: str) -> None:
    process.start()
    if way == "stdin":
        process.close()
    else:
        process.child.send_signal(signal.Signals[way])
    process.child.wait(30)
    wait_until(lambda: not process.has_program(), "end")
    assert "Traceback" not in process.complaints


def test_without_a_first_line_it_leaves(process: Process) -> None:
    process.close()
    assert process.child.wait(30) == 0
    assert process.messages == []
