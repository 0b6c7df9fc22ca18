"""A run whose agent never read its prompt is not completed, whatever the agent says; one that did needs no model."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inspan.api.in_process import run_in_process
from inspan.protocol.task import Task
from inspan.transports.process import spawn, was_read
from tests.api.run_env import descriptors
from tests.cli_env import CliEnv

Fake = Callable[[str, str], str]

# In Codex's clothes, and with all that it says at hand; it has read nothing yet.
STREAM = """
import json, mmap, os, sys
if sys.argv[1:] == ["--version"]:
    print("codex-cli 0.163.0")
    sys.exit()
def put(**frame): print(json.dumps(frame), flush=True)
def work():
    put(type="thread.started", thread_id="thread-1"); put(type="turn.started")
    put(type="item.completed", item={"id": "1", "type": "agent_message", "text": "All done."})
    put(type="turn.completed", usage={"input_tokens": 3, "output_tokens": 4})
"""
# In the words of the protocol: every answer, to questions that may not have been asked.
_CANNED = """
import json, os, sys, time
def put(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def begin():
    put(id=1, result={"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"version": "1.2.3"}})
    put(id=3, result={"sessionId": "s"})
def say():
    told = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "All done."}}
    put(method="session/update", params={"sessionId": "s", "update": told})
def end(): put(id=100, result={"stopReason": "end_turn"})
"""
_UNREAD = ("failed", "crashed", "says that it is done, but never read its prompt")


def _run_to_end(cli_env: CliEnv, agent: str, *more: str, env: dict[str, str] | None = None) -> tuple[str, str, str]:
    cli_env.inspan("run", "do it", "-a", agent, "--profile", "user", *more, env=env or {})
    last = cli_env.events()[-1]
    return last["outcome"], last["reason"], last.get("message", "")


def _codex(cli_env: CliEnv, fake: Fake, acts: str) -> tuple[str, str, str]:
    return _run_to_end(cli_env, "codex", env={"INSPAN_CODEX_BIN": fake("codex", STREAM + acts)})


def test_an_agent_that_says_all_and_read_nothing_did_not_complete(cli_env: CliEnv, fake: Fake) -> None:
    outcome, reason, message = _codex(cli_env, fake, "work()")
    assert (outcome, reason, message) == (*_UNREAD[:2], f"Codex {_UNREAD[2]}")


@pytest.mark.parametrize(
    "reads",
    [
        "sys.stdin.read()",
        "os.read(0, 1)",
        "open('/dev/stdin').read()",
        "os.pread(0, 3, 0)",
        "mmap.mmap(0, 0, prot=mmap.PROT_READ)[:1]",
        "os.system('cat > /dev/null')",
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_however_a_prompt_is_read_the_run_completes_without_any_model(
    cli_env: CliEnv, fake: Fake, reads: str, when: str
) -> None:
    acts = f"{reads}; work()" if when == "before" else f"work(); {reads}"
    assert _codex(cli_env, fake, acts) == ("completed", "done", "")


def test_inside_a_program_it_is_the_same(tmp_path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    before = descriptors()
    reasons: list[str] = []
    for acts in ("work()", "sys.stdin.read(); work()"):
        monkeypatch.setenv("INSPAN_CODEX_BIN", fake("codex", STREAM + acts))
        finished = asyncio.run(run_in_process(Task(prompt="do it", cwd=str(tmp_path), agent="codex")))
        assert finished.summary.ended
        reasons.append(finished.summary.ended.reason)
    assert reasons == ["crashed", "done"]
    assert not descriptors() - before


@pytest.mark.parametrize(
    "acts",
    [
        "begin(); say(); end()",
        "begin(); say(); end(); time.sleep(600)",
        "sys.stdin.readline(); begin(); os.close(0); say(); end()",
    ],
    ids=["leaves", "stays", "hears a part"],
)
def test_answers_to_what_was_never_heard_are_no_completed_conversation(cli_env: CliEnv, fake: Fake, acts: str) -> None:
    outcome, reason, message = _run_to_end(cli_env, f"acp:{fake('canned', _CANNED + acts)}")
    assert (outcome, reason) == _UNREAD[:2]
    assert message.endswith(_UNREAD[2])


def test_an_answer_to_a_prompt_that_was_not_asked_ends_no_turn(cli_env: CliEnv, fake: Fake) -> None:
    outcome, reason, message = _run_to_end(cli_env, f"acp:{fake('canned', _CANNED + 'end()')}")
    assert (outcome, reason) == ("failed", "crashed")
    assert message.endswith("exited without finishing its turn")


@pytest.mark.parametrize("command", ["true", "cat /dev/null", "echo '{}'"])
def test_a_program_that_is_no_agent_completes_nothing(cli_env: CliEnv, command: str) -> None:
    assert _run_to_end(cli_env, f"acp:{command}")[:2] == ("failed", "crashed")


@pytest.mark.parametrize("dialect", ["claude", "codex", "acp"])
def test_a_preset_of_a_program_that_is_no_agent_completes_nothing(cli_env: CliEnv, dialect: str) -> None:
    folder = Path(cli_env.env["HOME"]) / ".config" / "inspan"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f'[agents.mine]\ndialect = "{dialect}"\ncommand = "cat /dev/null"\n')
    env = {"XDG_CONFIG_HOME": str(folder.parent)}
    done = cli_env.inspan("run", "do it", "-a", "mine", "--profile", "user", env=env)
    assert done.returncode != 0
    assert "completed" not in done.stderr


@pytest.mark.parametrize(("given", "told"), [(b"words", False), (b"", None)])
def test_what_was_given_and_not_read_is_told_and_nothing_is_neither(given: bytes, told: Any) -> None:
    assert _was_read(["/bin/true"], given) == told


@pytest.mark.parametrize("argv", [["/bin/cat"], ["/bin/cat", "/dev/stdin"], ["/usr/bin/head", "-c", "1"]])
def test_whoever_reads_anything_of_what_was_given_has_read(argv: list[str]) -> None:
    assert _was_read(argv, b"words") is True


def _was_read(argv: list[str], given: bytes) -> bool | None:
    process = spawn(argv, {}, stdin=given, liveness_pipe=False, watch=True)
    try:
        os.waitpid(process.pid, 0)
        return was_read(process.given)
    finally:
        for fd in (process.given, process.stdout, process.stderr):
            os.close(fd)
