"""Ending a run on purpose: everything that it started ends with it, and the log says who wanted it."""

import os
import signal
import subprocess

import pytest

from inspan.protocol.events import EndingBegan
from inspan.stores.log import read_log
from tests.house import House, processes_of, until

from .family import CHILDREN, agent_of, await_family, hanging_family
from .proof import INTERRUPTED, KILLED, STOPPED, End, prove
from .styles import CODE_MODE, PER_CALL, Style, each_agent, each_style

# How long an agent is asked politely before it is killed: `Ending` in inspan.protocol.limits.
POLITE_S = 5.0


@each_style
@pytest.mark.parametrize(("order", "end"), [("stop", STOPPED), ("kill", KILLED)], ids=str)
def test_a_run_ends_with_all_its_children(house: House, style: Style, order: str, end: End) -> None:
    _end_with_children(house, style, order, end)


@each_agent
@pytest.mark.parametrize(("order", "end"), [("stop", STOPPED), ("kill", KILLED)], ids=str)
def test_an_ordinary_users_run_ends_with_all_its_children(
    user_house: House, style: Style, order: str, end: End
) -> None:
    _end_with_children(user_house, style, order, end)


@pytest.mark.parametrize("way", ["unshare", "reaper"])
@pytest.mark.parametrize(("order", "end"), [("stop", STOPPED), ("kill", KILLED)], ids=str)
def test_other_ways_of_containment_leave_no_child(house: House, way: str, order: str, end: End) -> None:
    house.env["INSPAN_CONTAINMENT"] = way
    _end_with_children(house, CODE_MODE, order, end)
    assert house.events()[0]["containment"] == way


@each_agent
def test_one_interrupt_ends_the_run_that_a_command_follows(house: House, style: Style) -> None:
    run_id, follower = _followed_family(house, style)
    follower.send_signal(signal.SIGINT)
    assert follower.wait(timeout=60) == 130
    prove(house, run_id, end=INTERRUPTED, usage=PER_CALL)


@each_agent
def test_a_terminated_follower_stops_its_run(house: House, style: Style) -> None:
    run_id, follower = _followed_family(house, style)
    follower.send_signal(signal.SIGTERM)
    assert follower.wait(timeout=60) == 143
    prove(house, run_id, end=STOPPED, usage=PER_CALL)


@each_agent
def test_an_agent_that_does_not_react_is_killed_in_the_end(house: House, style: Style) -> None:
    run_id, follower = _followed_family(house, style, frozen=True)
    follower.send_signal(signal.SIGINT)
    assert follower.wait(timeout=60) == 130
    prove(house, run_id, end=INTERRUPTED, usage=PER_CALL)
    assert _ending_s(house, run_id) >= POLITE_S


@each_agent
def test_a_second_interrupt_does_not_wait_for_politeness(house: House, style: Style) -> None:
    run_id, follower = _followed_family(house, style, frozen=True)
    follower.send_signal(signal.SIGINT)
    until(lambda: "ending_began" in house.kinds(run_id), "ending")
    follower.send_signal(signal.SIGINT)
    assert follower.wait(timeout=60) == 130
    prove(house, run_id, end=INTERRUPTED, usage=PER_CALL)
    assert _ending_s(house, run_id) < POLITE_S


@each_agent
def test_a_kill_does_not_wait_for_politeness(house: House, style: Style) -> None:
    run_id, _ = _followed_family(house, style, frozen=True)
    assert house.inspan("kill", run_id).returncode == 0
    prove(house, run_id, end=KILLED, usage=PER_CALL)
    assert _ending_s(house, run_id) < POLITE_S


def _end_with_children(house: House, style: Style, order: str, end: End) -> None:
    run_id = house.detach(style.agent, hanging_family(house), *style.arguments)
    await_family(house)
    assert len(processes_of(run_id)) > len(CHILDREN)
    done = house.inspan(order, run_id)
    assert (done.returncode, done.stdout) == (0, f"{run_id} cancelled\n")
    prove(house, run_id, end=end, usage=PER_CALL)


def _followed_family(house: House, style: Style, *, frozen: bool = False) -> tuple[str, subprocess.Popen[bytes]]:
    """A run in the foreground whose tool hangs with its children; a frozen agent hears no signal but the last."""
    model = house.scenario(hanging_family(house))
    follower = house.start("run", "do it", "-a", style.agent, "--profile", "clean", "--model-from", model)
    await_family(house)
    run_id = house.folder().name
    if frozen:
        os.kill(agent_of(house, run_id, style.agent), signal.SIGSTOP)
    return run_id, follower


def _ending_s(house: House, run_id: str) -> float:
    records = read_log(str(house.folder(run_id) / "events.jsonl"))
    began = next(record.at for record in records if isinstance(record.event, EndingBegan))
    return records[-1].at - began
