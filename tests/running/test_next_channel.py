"""A channel that the program does not take any more: the next one is tried, and never once anything was done."""

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import inspan
from inspan.protocol.events import (
    ChannelChanged,
    Event,
    MessageSent,
    ModelCallEnded,
    RunEnded,
    TextSaid,
    ThreadStarted,
    TurnFailed,
)
from inspan.running.next_channel import Handshake
from inspan.running.verdict import Verdict
from tests.api.run_env import RunEnv, make_run_env
from tests.cli_env import CliEnv, wait_until

from .open_session import make_puppet

Fake = Callable[[str, str], str]

_SAYS = '[[call]]\nsay = "Good."\nrepeat = "always"\n'
_ADDS = """
    [[call]]
    use = {tool = "add", server = "inspan", input = {a = 2, b = 40}}
    [[call]]
    expect = "42"
    say = "Forty-two."
"""
_ADAPTER = "codex-acp 2.6.0"
# As Codex's adapter says it: what has no id is a warning there.
_ECHO = """
session = {"modes": {"currentModeId": "agent-full-access", "availableModes": [{"id": "agent-full-access"}]}}
def turn(text):
    content = {"type": "text", "text": "got " + text}
    chunk = {"sessionUpdate": "agent_message_chunk", "messageId": text, "content": content}
    put(method="session/update", params={"sessionId": "s", "update": chunk})
"""
# What begins the handshake of Codex's app-server, answered in other ways than it used to be.
_ANSWERS_WITH_AN_ERROR = """
request = json.loads(sys.stdin.readline())
error = {"code": -32601, "message": "no such method any more"}
print(json.dumps({"id": request["id"], "error": error}), flush=True)
sys.stdin.read()
"""
_PRINTS_ITS_HELP = "print('Usage: codex [OPTIONS]'); sys.exit(0 if len(sys.argv) > 99 else 2)\n"


@inspan.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@pytest.fixture
def run_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, binaries: dict[str, str]) -> RunEnv:
    (tmp_path / "house").mkdir()
    made = make_run_env(tmp_path / "house", monkeypatch)
    for name, path in binaries.items():
        monkeypatch.setenv(name, path)
    return made


def _refuse_word(fake: Fake, program: str, word: str) -> str:
    """The real program, but for one word of its command line that it does not know any more."""
    return fake(
        "upgraded",
        "import os, sys\n"
        f"if {word!r} in sys.argv and '--replay-user-messages' not in sys.argv:\n"
        f"    sys.exit('error: unrecognized argument {word}')\n"
        f"os.execv({program!r}, [{program!r}, *sys.argv[1:]])\n",
    )


def _stand_in(fake: Fake, acts: str) -> str:
    """A program in Codex's place."""
    return fake(
        "stand-in",
        f"import json, sys\nif sys.argv[1:] == ['--version']: print('codex-cli 0.163.0'); sys.exit()\n{acts}",
    )


@pytest.mark.parametrize(("agent", "word"), [("claude", "--output-format"), ("codex", "exec")])
def test_a_run_with_tools_goes_by_the_next_channel(
    run_env: RunEnv, fake: Fake, monkeypatch: pytest.MonkeyPatch, agent: str, word: str
) -> None:
    name = f"INSPAN_{agent.upper()}_BIN"
    monkeypatch.setenv(name, _refuse_word(fake, os.environ[name], word))
    scenario = run_env.scenario(_ADDS)
    runner = inspan.create_agent_runner(agent, cwd=run_env.work, profile="clean", model_from=scenario, tools=[add])
    result = asyncio.run(runner.review("add them"))
    assert (result.message, result.reason) == ("Forty-two.", "done"), result.error
    (changed,) = [event for event in run_env.events() if isinstance(event, ChannelChanged)]
    assert (changed.before, changed.after) == ("stream", "rpc")
    assert f"unrecognized argument {word}" in changed.reason
    (folder,) = run_env.folders()
    assert json.loads((folder / "run.json").read_text())["channel"] == "rpc"
    assert f"unrecognized argument {word}" in (folder / "stderr.stream").read_text()
    assert "unrecognized argument" not in (folder / "stderr").read_text()


def _list(events: Sequence[Event], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.parametrize("broken", ["refused", "error", "help"])
def test_a_session_goes_by_the_next_channel(
    run_env: RunEnv, fake: Fake, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    program = {
        "refused": lambda: _refuse_word(fake, os.environ["INSPAN_CODEX_BIN"], "app-server"),
        "error": lambda: _stand_in(fake, _ANSWERS_WITH_AN_ERROR),
        "help": lambda: _stand_in(fake, _PRINTS_ITS_HELP),
    }[broken]()
    monkeypatch.setenv("INSPAN_CODEX_BIN", program)
    monkeypatch.setenv("INSPAN_CODEX_ACP_BIN", make_puppet(fake, _ECHO, version=_ADAPTER))

    async def scene() -> list[str]:
        session = inspan.open_session("codex", cwd=run_env.work, profile="clean", model_from=run_env.scenario(_SAYS))
        async with session:
            return [(await session.send_message(text)).message for text in ("one", "two")]

    assert asyncio.run(scene()) == ["got one", "got two"]
    events = run_env.events()
    (changed,) = _list(events, ChannelChanged)
    assert (changed.before, changed.after, bool(changed.reason)) == ("rpc", "acp", True)
    assert [event.text for event in _list(events, MessageSent)] == ["one", "two"]
    assert _list(events, TurnFailed) == []
    (ended,) = _list(events, RunEnded)
    assert (ended.outcome, ended.reason) == ("completed", "done")


def test_the_first_message_is_sent_again_by_a_supervisor(cli_env: CliEnv, fake: Fake, binaries: dict[str, str]) -> None:
    cli_env.env["INSPAN_CODEX_BIN"] = _refuse_word(fake, binaries["INSPAN_CODEX_BIN"], "app-server")
    cli_env.env["INSPAN_CODEX_ACP_BIN"] = make_puppet(fake, _ECHO, version=_ADAPTER)
    run_id = cli_env.detach("codex", _SAYS, "--open")
    wait_until(lambda: "message_ended" in cli_env.kinds(run_id), "answer")
    kinds = cli_env.kinds(run_id)
    assert kinds.count("channel_changed") == kinds.count("message_sent") == 1
    assert [event["text"] for event in cli_env.events(run_id) if event["kind"] == "text_said"] == ["got do it"]
    sent = cli_env.inspan("send", run_id, "more")
    assert (sent.returncode, sent.stdout) == (0, "got more\n"), sent.stderr
    assert "! channel rpc cannot be used, acp is: " in cli_env.inspan("logs", run_id).stdout
    assert cli_env.inspan("close", run_id).stdout == f"{run_id} completed\n"


def test_where_none_is_left_the_first_failure_is_told(cli_env: CliEnv, fake: Fake, binaries: dict[str, str]) -> None:
    cli_env.env["INSPAN_CODEX_BIN"] = _refuse_word(fake, binaries["INSPAN_CODEX_BIN"], "app-server")
    cli_env.env["INSPAN_CODEX_ACP_BIN"] = make_puppet(fake, "sys.exit('nor does the adapter')", version=_ADAPTER)
    run = cli_env.run("codex", _SAYS, "--open")
    assert run.verdict == ("failed", "crashed", 1)
    assert "unrecognized argument app-server" in run.ended["message"]
    assert [event["after"] for event in run.select_events("channel_changed")] == ["acp", "sdk"]
    (ended,) = run.select_events("message_ended")
    assert ended["message"] == run.ended["message"]


def test_no_other_channel_is_tried_where_one_was_named(cli_env: CliEnv, fake: Fake, binaries: dict[str, str]) -> None:
    cli_env.env["INSPAN_CODEX_BIN"] = _refuse_word(fake, binaries["INSPAN_CODEX_BIN"], "app-server")
    cli_env.env["INSPAN_CODEX_ACP_BIN"] = make_puppet(fake, _ECHO, version=_ADAPTER)
    run = cli_env.run("codex", _SAYS, "--open", "--channel", "rpc")
    assert run.verdict == ("failed", "crashed", 1)
    assert "unrecognized argument app-server" in run.ended["message"]
    assert run.select_events("channel_changed") == []


def test_a_model_that_fails_is_not_the_channels_fault(cli_env: CliEnv, fake: Fake) -> None:
    cli_env.env["INSPAN_CODEX_ACP_BIN"] = make_puppet(fake, _ECHO, version=_ADAPTER)
    run_id = cli_env.detach("codex", "[[call]]\nfail = {status = 529}\nrepeat = 'always'\n", "--open")
    wait_until(lambda: "message_ended" in cli_env.kinds(run_id), "end")
    assert "channel_changed" not in cli_env.kinds(run_id)
    cli_env.inspan("close", run_id)


_CRASHED = TurnFailed(failure="crashed", message="it broke")


@pytest.mark.parametrize(
    ("events", "has_calls", "blamed"),
    [
        ([ThreadStarted(session_id="s"), _CRASHED], False, True),
        ([_CRASHED], True, False),
        ([ModelCallEnded(call=1, wire="x"), _CRASHED], False, False),
        ([TextSaid(text="hi"), _CRASHED], False, False),
        ([TurnFailed(failure="authentication", message="no key")], False, False),
    ],
)
def test_only_a_failure_before_any_work_is_the_channels(events: list[Event], has_calls: bool, blamed: bool) -> None:
    handshake = Handshake([])
    kept = handshake.filter_events(events, has_calls=has_calls)
    assert (handshake.problem is not None) == blamed
    assert kept == (events[:-1] if blamed else events)


def test_a_login_that_is_missing_is_the_same_by_every_channel() -> None:
    assert not Handshake([]).blame(Verdict(reason="authentication", message="no key"))
    assert Handshake([]).blame(Verdict(reason="crashed", message="exit code 2"))
