"""`inspan transcript`: what the agent itself has kept of a session, read back, and every reason why it cannot be."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli_env import CliEnv

from .refusal import expect_refusal
from .scenarios import SAYS_HELLO

_SECRET = "sk-ant-0123456789abcdefghij"
_SAYS_SECRET = f'[[call]]\nsay = "It is {_SECRET}."\n'


@pytest.fixture(params=["claude", "codex"])
def transcript_runs(request: pytest.FixtureRequest, cli_env: CliEnv) -> Iterator[tuple[CliEnv, str, str]]:
    """A house in which an agent has said hello, and another time again in the same session."""
    first = cli_env.run(request.param, SAYS_HELLO)
    assert first.code == 0, first.stderr
    again = cli_env.scenario('[[call]]\nsay = "again"\n')
    done = cli_env.inspan("run", "more", "--resume", first.run_id, "--model-from", again, "-d")
    second = done.stdout.strip()
    assert cli_env.inspan("wait", second).returncode == 0
    yield cli_env, first.run_id, second


def _events(cli_env: CliEnv, run_id: str, env: dict[str, str] | None = None) -> list[dict[str, Any]]:
    done = cli_env.inspan("transcript", run_id, "--json", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["schema"], line["transcript"], line["n"]) for line in lines] == [
        (1, True, number) for number in range(1, len(lines) + 1)
    ]
    return [line["event"] for line in lines]


def test_a_session_is_read_back_whole_by_any_of_its_runs(transcript_runs: tuple[CliEnv, str, str]) -> None:
    cli_env, first, second = transcript_runs
    events = _events(cli_env, first)
    assert events == _events(cli_env, second)
    assert [event.get("text") for event in events if event["kind"] == "text_said"] == ["hello", "again"]
    live = [
        event["usage"] for run in (first, second) for event in cli_env.events(run) if event["kind"] == "turn_completed"
    ]
    assert [event["usage"] for event in events if event["kind"] == "turn_completed"] == live
    shown = cli_env.inspan("transcript", first).stdout
    head, *lines = shown.splitlines()
    session = cli_env.events(first)[-1]["session_id"]
    assert head.startswith(f"▶ {cli_env.events(first)[0]['agent']} session {session} · {cli_env.state}/sessions/")
    assert [line for line in lines if line in ("hello", "again")] == ["hello", "again"]
    assert lines[-1].startswith("  tokens: ")


def test_a_session_of_the_users_own_is_found_where_its_agent_keeps_it(cli_env: CliEnv) -> None:
    """The profile `user`: first where the agent keeps its sessions usually, then where its variable says."""
    for env in ({}, {"CODEX_HOME": str(cli_env.root / "home" / "elsewhere")}):
        Path(env.get("CODEX_HOME", cli_env.root / "home" / ".codex")).mkdir()
        model = cli_env.scenario(SAYS_HELLO)
        words = ("run", "do it", "-a", "codex", "--profile", "user", "--model-from", model, "-d")
        done = cli_env.inspan(*words, env=env)
        run_id = done.stdout.strip()
        assert cli_env.inspan("wait", run_id).returncode == 0, done.stderr
        texts = [event["text"] for event in _events(cli_env, run_id, env) if event["kind"] == "text_said"]
        assert texts == ["hello"]


def test_a_secret_that_the_agent_has_kept_is_not_shown(cli_env: CliEnv) -> None:
    env = {"ANTHROPIC_API_KEY": _SECRET}
    run_id = cli_env.run("claude", _SAYS_SECRET).run_id
    said = [event["text"] for event in _events(cli_env, run_id, env) if event["kind"] == "text_said"]
    assert said == ["It is [REDACTED:ANTHROPIC_API_KEY]."]
    assert _SECRET not in cli_env.inspan("transcript", run_id, env=env).stdout


def test_an_agent_whose_sessions_cannot_be_read_is_named(cli_env: CliEnv) -> None:
    run_id = cli_env.run("scripted", SAYS_HELLO).run_id
    refusal = expect_refusal(cli_env, "transcript", run_id)
    assert (refusal.exit_code, refusal.code) == (2, "unsupported")
    assert "inspan cannot read what Built-in scripted agent keeps." in refusal.message
    assert refusal.next == f"`inspan logs {run_id}` has the run's own log."


def _files(cli_env: CliEnv) -> list[Path]:
    return list(cli_env.state.glob("sessions/*/config/sessions/*/*/*/rollout-*.jsonl"))


def test_a_session_that_its_agent_has_deleted_is_told_with_the_place(cli_env: CliEnv) -> None:
    run_id = cli_env.run("codex", SAYS_HELLO).run_id
    (path,) = _files(cli_env)
    path.unlink()
    refusal = expect_refusal(cli_env, "transcript", run_id)
    assert (refusal.exit_code, refusal.code) == (2, "session_not_found")
    session = cli_env.events(run_id)[-1]["session_id"]
    assert refusal.message.startswith(f"Codex has kept nothing of session {session}: there is no file ")


def test_a_session_of_a_shape_that_nobody_knows_is_told_in_a_sentence(cli_env: CliEnv) -> None:
    run_id = cli_env.run("codex", SAYS_HELLO).run_id
    (path,) = _files(cli_env)
    item = {"type": "CommandExecution", "command": 3}
    path.write_text(json.dumps({"type": "event_msg", "payload": {"type": "item_completed", "item": item}}))
    refusal = expect_refusal(cli_env, "transcript", run_id)
    assert (refusal.exit_code, refusal.code) == (2, "unsupported")
    assert "what Codex has kept cannot be read" in refusal.message


def test_a_run_that_opened_no_session_has_no_transcript(cli_env: CliEnv) -> None:
    env = {"INSPAN_CODEX_BIN": str(cli_env.root / "codex")}
    (cli_env.root / "codex").write_text('#!/bin/sh\n[ "$1" = --version ] && echo codex-cli 0.163.0\nexit 1\n')
    (cli_env.root / "codex").chmod(0o755)
    run_id = cli_env.run("codex", SAYS_HELLO, env=env).run_id
    refusal = expect_refusal(cli_env, "transcript", run_id)
    assert (refusal.exit_code, refusal.code) == (2, "session_not_found")
    assert refusal.message == f"Run {run_id} opened no session."


def test_a_run_that_there_is_not_is_refused(cli_env: CliEnv) -> None:
    refusal = expect_refusal(cli_env, "transcript", "20990101")
    assert (refusal.exit_code, refusal.code) == (2, "run_not_found")
