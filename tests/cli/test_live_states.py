"""`ps` and `show`: what open sessions of real agents are doing, as another process sees it."""

import json
from typing import Any

import pytest

from inspan.protocol.ids import make_short_name
from tests.agents.conversation import WAIT_STEP
from tests.cli_env import CliEnv, wait_until

_AGENTS = pytest.mark.parametrize("agent", ["claude", "codex"])
_SAYS = '[[call]]\nsay = "Good."\nrepeat = "always"\n'
_WRITES = f'[[call]]\nrun = "echo hi > made.txt"\n{_SAYS}'
_WAITS = f"[[call]]\n{WAIT_STEP}\n{_SAYS}"


def _get_state(cli_env: CliEnv, run_id: str) -> dict[str, Any]:
    (run,) = [run for run in json.loads(cli_env.inspan("ps", "--json").stdout)["runs"] if run["run_id"] == run_id]
    assert (run["alive"], run["outcome"]) == (True, "running")
    assert run["state"]["since"] >= run["started_at"]
    assert json.loads(cli_env.inspan("show", run_id, "--json").stdout)["state"]["status"] == run["state"]["status"]
    return run["state"]


def _wait_for(cli_env: CliEnv, run_id: str, kind: str) -> None:
    wait_until(lambda: kind in cli_env.kinds(run_id), kind)


def _list_cells(cli_env: CliEnv) -> list[str]:
    return cli_env.inspan("ps").stdout.splitlines()[1:]


@_AGENTS
def test_a_session_without_a_message_is_idle(cli_env: CliEnv, agent: str) -> None:
    run_id = cli_env.detach(agent, _SAYS, "--open")
    _wait_for(cli_env, run_id, "message_ended")
    assert _get_state(cli_env, run_id)["status"] == "idle"
    (line,) = _list_cells(cli_env)
    assert "· idle (" in line
    assert "· idle (" in cli_env.inspan("show", run_id).stdout
    cli_env.inspan("close", run_id)
    assert _list_cells(cli_env) == []


@_AGENTS
@pytest.mark.parametrize("flags", [("--open",), ()], ids=["session", "single"])
def test_a_run_works_in_a_tool(cli_env: CliEnv, agent: str, flags: tuple[str, ...]) -> None:
    run_id = cli_env.detach(agent, _WAITS, *flags)
    wait_until((cli_env.work / "started").exists, "tool")
    _wait_for(cli_env, run_id, "tool_started")
    state = _get_state(cli_env, run_id)
    assert (state["status"], bool(state["tool"])) == ("working", True)
    assert "touch started" in state["subject"]
    (line,) = _list_cells(cli_env)
    assert "● working: " in line and "touch started" in line
    (cli_env.work / "go").touch()
    cli_env.inspan("close", run_id) if flags else cli_env.inspan("wait", run_id)


@_AGENTS
@pytest.mark.parametrize("flags", [("--open",), ()], ids=["session", "single"])
def test_a_run_that_needs_a_person_comes_first_and_says_how_to_answer(
    cli_env: CliEnv, agent: str, flags: tuple[str, ...]
) -> None:
    run_id = cli_env.detach(agent, _WRITES, "--ask", "*", "--answer-timeout", "10m", *flags)
    _wait_for(cli_env, run_id, "permission_asked")
    newer = cli_env.detach(agent, _SAYS, "--open")
    _wait_for(cli_env, newer, "message_ended")
    state = _get_state(cli_env, run_id)
    assert (state["status"], state["asks_for"]) == ("waiting", "permission")
    assert "echo hi > made.txt" in state["subject"]
    done = cli_env.inspan("ps")
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == [*map(make_short_name, (run_id, newer))]
    assert "▲ needs you: allow " in done.stdout
    assert done.stderr.startswith("inspan: 1 run needs you.\n  → `inspan approvals`")
    (question,) = state["questions"]
    assert f"`inspan approve {question}`" in cli_env.inspan("show", run_id).stdout
    assert cli_env.inspan("approve", question).returncode == 0
    wait_until(lambda: (cli_env.work / "made.txt").exists(), "file")
    assert cli_env.inspan("ps").stderr == ""
    for each in (run_id, newer):
        cli_env.inspan("stop", each)


@_AGENTS
def test_a_session_whose_last_message_failed_says_so(cli_env: CliEnv, agent: str) -> None:
    scenario = f"[[call]]\nsay = 'Morning.'\n[[call]]\nwhen = 'broken'\nfail = {{status = 529}}\n{_SAYS}"
    run_id = cli_env.detach(agent, scenario, "--open")
    _wait_for(cli_env, run_id, "message_ended")
    assert cli_env.inspan("send", run_id, "broken", "-q").returncode == 1
    state = _get_state(cli_env, run_id)
    assert (state["status"], bool(state["error"])) == ("error", True)
    assert "✘ error: " in _list_cells(cli_env)[0]
    cli_env.inspan("close", run_id)
