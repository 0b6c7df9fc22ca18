"""Whoever is killed without a word, the agent, the supervisor or a follower: the log stays whole and never lies."""

import json
import os
import signal

import pytest

from inspan.protocol.events import RunEnded
from tests.cli_env import CliEnv, kill_process, processes_of, wait_until

from .child_processes import agent_pid_of, hanging_scenario, wait_for_children
from .conversation import WAIT_STEP
from .run_checks import CRASHED, DONE, LOST, check_end, check_no_processes
from .styles import CODE_MODE, PER_CALL, Style, each_agent, each_sdk, each_style

HOLD_ON = f"[[call]]\n{WAIT_STEP}\n"


@each_style
def test_an_agent_that_is_killed_has_crashed(cli_env: CliEnv, style: Style) -> None:
    ended = _kill_the_agent(cli_env, style)
    assert ended.exit_code == 128 + signal.SIGKILL


@each_sdk
def test_an_agent_that_is_killed_below_its_sdk_has_crashed(cli_env: CliEnv, style: Style) -> None:
    ended = _kill_the_agent(cli_env, style)
    assert ended.exit_code == 128 + signal.SIGKILL


@each_sdk
def test_a_run_by_an_sdk_whose_supervisor_is_killed_is_lost(cli_env: CliEnv, style: Style) -> None:
    _kill_the_supervisor(cli_env, style)


@each_agent
def test_an_ordinary_users_agent_that_is_killed_has_crashed(user_cli_env: CliEnv, style: Style) -> None:
    _kill_the_agent(user_cli_env, style)


@each_style
def test_a_run_whose_supervisor_is_killed_is_lost(cli_env: CliEnv, style: Style) -> None:
    _kill_the_supervisor(cli_env, style)


@each_agent
def test_an_ordinary_users_run_whose_supervisor_is_killed_is_lost(user_cli_env: CliEnv, style: Style) -> None:
    _kill_the_supervisor(user_cli_env, style)


@pytest.mark.parametrize("way", ["unshare", "reaper"])
def test_other_ways_of_containment_leave_nothing_of_a_killed_agent(cli_env: CliEnv, way: str) -> None:
    # No exit code is asked for: unshare 2.38 cannot pass SIGKILL on, and leaves with 1.
    cli_env.env["INSPAN_CONTAINMENT"] = way
    _kill_the_agent(cli_env, CODE_MODE)
    assert cli_env.events()[0]["containment"] == way


@pytest.mark.parametrize("way", ["unshare", "reaper"])
def test_other_ways_of_containment_leave_nothing_of_a_lost_run(cli_env: CliEnv, way: str) -> None:
    cli_env.env["INSPAN_CONTAINMENT"] = way
    _kill_the_supervisor(cli_env, CODE_MODE)
    assert cli_env.events()[0]["containment"] == way


@pytest.mark.parametrize(
    ("look", "code"),
    [
        (("ps", "-a", "--json"), 0),
        (("show", "--json"), 0),
        (("logs", "-f"), 1),
        (("events", "-f"), 1),
        (("stop",), 0),
        (("reindex",), 0),
    ],
    ids=["ps", "show", "logs", "events", "stop", "reindex"],
)
def test_whoever_looks_first_declares_a_run_lost(cli_env: CliEnv, look: tuple[str, ...], code: int) -> None:
    run_id = cli_env.detach(CODE_MODE.agent, hanging_scenario(cli_env))
    wait_for_children(cli_env)
    kill_process(cli_env.supervisor(run_id))
    check_no_processes(cli_env, run_id)
    named = () if look[0] in ("ps", "reindex") else (run_id,)
    done = cli_env.inspan(*look, *named)
    assert done.returncode == code, done.stderr
    if look[0] == "ps":
        listed = json.loads(done.stdout)["runs"]
        assert [(row["run_id"], row["outcome"], row["alive"]) for row in listed] == [(run_id, "lost", False)]
    assert cli_env.events(run_id)[-1]["reason"] == "supervisor_lost"
    check_end(cli_env, run_id, end=LOST, usage=PER_CALL)


@each_agent
def test_a_follower_outlives_the_supervisor_and_tells_the_loss(cli_env: CliEnv, style: Style) -> None:
    model = cli_env.scenario(hanging_scenario(cli_env))
    follower = cli_env.start("run", "do it", "-a", style.agent, "--profile", "clean", "--model-from", model)
    wait_for_children(cli_env)
    run_id = cli_env.folder().name
    kill_process(cli_env.supervisor(run_id))
    assert follower.wait(timeout=120) == 1
    check_end(cli_env, run_id, end=LOST, usage=PER_CALL)


@each_agent
def test_a_run_goes_on_without_its_follower_and_can_be_followed_again(cli_env: CliEnv, style: Style) -> None:
    model = cli_env.scenario(HOLD_ON + '[[call]]\nsay = "Still here."\n')
    follower = cli_env.start("run", "do it", "-a", style.agent, "--profile", "clean", "--model-from", model)
    wait_until((cli_env.work / "started").exists, "tool")
    run_id = cli_env.folder().name
    kill_process(follower.pid)
    assert follower.wait(timeout=120) == -signal.SIGKILL
    again = cli_env.start("events", "-f", run_id)
    assert processes_of(run_id)
    (cli_env.work / "go").touch()
    told, _ = again.communicate(timeout=120)
    assert again.returncode == 0
    lines = [json.loads(line) for line in told.splitlines()]
    assert [line["event"] for line in lines] == cli_env.events(run_id)
    assert [line["n"] for line in lines] == list(range(1, len(lines) + 1))
    check_end(cli_env, run_id, end=DONE, usage=PER_CALL + PER_CALL)


def _kill_the_agent(cli_env: CliEnv, style: Style) -> RunEnded:
    run_id = cli_env.detach(style.agent, hanging_scenario(cli_env), *style.arguments)
    wait_for_children(cli_env)
    os.kill(agent_pid_of(cli_env, run_id, style.agent), signal.SIGKILL)
    return check_end(cli_env, run_id, end=CRASHED, usage=PER_CALL)


def _kill_the_supervisor(cli_env: CliEnv, style: Style) -> None:
    run_id = cli_env.detach(style.agent, hanging_scenario(cli_env), *style.arguments)
    wait_for_children(cli_env)
    kill_process(cli_env.supervisor(run_id))
    # Containment alone has to do this: nobody has looked at the run yet, so nobody has swept.
    check_no_processes(cli_env, run_id)
    assert cli_env.kinds(run_id)[-1] != "run_ended"
    check_end(cli_env, run_id, end=LOST, usage=PER_CALL)
