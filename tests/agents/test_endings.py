"""Ending a run on purpose: everything that it started ends with it, and the log says who wanted it."""

import os
import signal
import subprocess

import pytest

from inspan.protocol.events import EndingBegan
from inspan.stores.event_log import read_log
from tests.cli_env import CliEnv, processes_of, wait_until

from .child_processes import CHILDREN, agent_pid_of, hanging_scenario, wait_for_children
from .run_checks import INTERRUPTED, KILLED, STOPPED, End, check_end
from .styles import CODE_MODE, PER_CALL, Style, each_agent, each_style

# How long an agent is asked politely before it is killed: `Ending` in inspan.protocol.limits.
POLITE_S = 5.0


@each_style
@pytest.mark.parametrize(("order", "end"), [("stop", STOPPED), ("kill", KILLED)], ids=str)
def test_a_run_ends_with_all_its_children(cli_env: CliEnv, style: Style, order: str, end: End) -> None:
    _end_with_children(cli_env, style, order, end)


@each_agent
@pytest.mark.parametrize(("order", "end"), [("stop", STOPPED), ("kill", KILLED)], ids=str)
def test_an_ordinary_users_run_ends_with_all_its_children(
    user_cli_env: CliEnv, style: Style, order: str, end: End
) -> None:
    _end_with_children(user_cli_env, style, order, end)


@pytest.mark.parametrize("way", ["unshare", "reaper"])
@pytest.mark.parametrize(("order", "end"), [("stop", STOPPED), ("kill", KILLED)], ids=str)
def test_other_ways_of_containment_leave_no_child(cli_env: CliEnv, way: str, order: str, end: End) -> None:
    cli_env.env["INSPAN_CONTAINMENT"] = way
    _end_with_children(cli_env, CODE_MODE, order, end)
    assert cli_env.events()[0]["containment"] == way


@each_agent
def test_one_interrupt_ends_the_run_that_a_command_follows(cli_env: CliEnv, style: Style) -> None:
    run_id, follower = _start_followed(cli_env, style)
    follower.send_signal(signal.SIGINT)
    assert follower.wait(timeout=120) == 130
    check_end(cli_env, run_id, end=INTERRUPTED, usage=PER_CALL)


@each_agent
def test_a_terminated_follower_stops_its_run(cli_env: CliEnv, style: Style) -> None:
    run_id, follower = _start_followed(cli_env, style)
    follower.send_signal(signal.SIGTERM)
    assert follower.wait(timeout=120) == 143
    check_end(cli_env, run_id, end=STOPPED, usage=PER_CALL)


@each_agent
def test_an_agent_that_does_not_react_is_killed_in_the_end(cli_env: CliEnv, style: Style) -> None:
    run_id, follower = _start_followed(cli_env, style, frozen=True)
    follower.send_signal(signal.SIGINT)
    assert follower.wait(timeout=120) == 130
    check_end(cli_env, run_id, end=INTERRUPTED, usage=PER_CALL)
    assert _measure_ending_s(cli_env, run_id) >= POLITE_S


@each_agent
def test_a_second_interrupt_does_not_wait_for_politeness(cli_env: CliEnv, style: Style) -> None:
    run_id, follower = _start_followed(cli_env, style, frozen=True)
    follower.send_signal(signal.SIGINT)
    wait_until(lambda: "ending_began" in cli_env.kinds(run_id), "ending")
    follower.send_signal(signal.SIGINT)
    assert follower.wait(timeout=120) == 130
    check_end(cli_env, run_id, end=INTERRUPTED, usage=PER_CALL)
    assert _measure_ending_s(cli_env, run_id) < POLITE_S


@each_agent
def test_a_kill_does_not_wait_for_politeness(cli_env: CliEnv, style: Style) -> None:
    run_id, _ = _start_followed(cli_env, style, frozen=True)
    assert cli_env.inspan("kill", run_id).returncode == 0
    check_end(cli_env, run_id, end=KILLED, usage=PER_CALL)
    assert _measure_ending_s(cli_env, run_id) < POLITE_S


def _end_with_children(cli_env: CliEnv, style: Style, order: str, end: End) -> None:
    run_id = cli_env.detach(style.agent, hanging_scenario(cli_env), *style.arguments)
    wait_for_children(cli_env)
    assert len(processes_of(run_id)) > len(CHILDREN)
    done = cli_env.inspan(order, run_id)
    assert (done.returncode, done.stdout) == (0, f"{run_id} cancelled\n")
    check_end(cli_env, run_id, end=end, usage=PER_CALL)


def _start_followed(cli_env: CliEnv, style: Style, *, frozen: bool = False) -> tuple[str, subprocess.Popen[bytes]]:
    """A run in the foreground whose tool hangs with its children; a frozen agent hears no signal but the last."""
    model = cli_env.scenario(hanging_scenario(cli_env))
    follower = cli_env.start("run", "do it", "-a", style.agent, "--profile", "clean", "--model-from", model)
    wait_for_children(cli_env)
    run_id = cli_env.folder().name
    if frozen:
        os.kill(agent_pid_of(cli_env, run_id, style.agent), signal.SIGSTOP)
    return run_id, follower


def _measure_ending_s(cli_env: CliEnv, run_id: str) -> float:
    records = read_log(str(cli_env.folder(run_id) / "events.jsonl"))
    began = next(record.at for record in records if isinstance(record.event, EndingBegan))
    return records[-1].at - began
