"""Whoever is killed without a word, the agent, the supervisor or a follower: the log stays whole and never lies."""

import json
import os
import signal

import pytest

from inspan.protocol.events import RunEnded
from tests.house import House, end, processes_of, until

from .family import agent_of, await_family, hanging_family
from .proof import CRASHED, DONE, LOST, prove, prove_nothing_lives
from .styles import CODE_MODE, PER_CALL, Style, each_agent, each_style

HOLD_ON = "[[call]]\nrun = 'touch started; until test -e go; do python3 -c \"import time; time.sleep(0.05)\"; done'\n"


@each_style
def test_an_agent_that_is_killed_has_crashed(house: House, style: Style) -> None:
    ended = _kill_the_agent(house, style)
    assert ended.exit_code == 128 + signal.SIGKILL


@each_agent
def test_an_ordinary_users_agent_that_is_killed_has_crashed(user_house: House, style: Style) -> None:
    _kill_the_agent(user_house, style)


@each_style
def test_a_run_whose_supervisor_is_killed_is_lost(house: House, style: Style) -> None:
    _kill_the_supervisor(house, style)


@each_agent
def test_an_ordinary_users_run_whose_supervisor_is_killed_is_lost(user_house: House, style: Style) -> None:
    _kill_the_supervisor(user_house, style)


@pytest.mark.parametrize("way", ["unshare", "reaper"])
def test_other_ways_of_containment_leave_nothing_of_a_killed_agent(house: House, way: str) -> None:
    # No exit code is asked for: unshare 2.38 cannot pass SIGKILL on, and leaves with 1.
    house.env["INSPAN_CONTAINMENT"] = way
    _kill_the_agent(house, CODE_MODE)
    assert house.events()[0]["containment"] == way


@pytest.mark.parametrize("way", ["unshare", "reaper"])
def test_other_ways_of_containment_leave_nothing_of_a_lost_run(house: House, way: str) -> None:
    house.env["INSPAN_CONTAINMENT"] = way
    _kill_the_supervisor(house, CODE_MODE)
    assert house.events()[0]["containment"] == way


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
def test_whoever_looks_first_declares_a_run_lost(house: House, look: tuple[str, ...], code: int) -> None:
    run_id = house.detach(CODE_MODE.agent, hanging_family(house))
    await_family(house)
    end(house.supervisor(run_id))
    prove_nothing_lives(house, run_id)
    named = () if look[0] in ("ps", "reindex") else (run_id,)
    done = house.inspan(*look, *named)
    assert done.returncode == code, done.stderr
    if look[0] == "ps":
        listed = json.loads(done.stdout)["runs"]
        assert [(row["run_id"], row["outcome"], row["alive"]) for row in listed] == [(run_id, "lost", False)]
    assert house.events(run_id)[-1]["reason"] == "supervisor_lost"
    prove(house, run_id, end=LOST, usage=PER_CALL)


@each_agent
def test_a_follower_outlives_the_supervisor_and_tells_the_loss(house: House, style: Style) -> None:
    model = house.scenario(hanging_family(house))
    follower = house.start("run", "do it", "-a", style.agent, "--profile", "clean", "--model-from", model)
    await_family(house)
    run_id = house.folder().name
    end(house.supervisor(run_id))
    assert follower.wait(timeout=60) == 1
    prove(house, run_id, end=LOST, usage=PER_CALL)


@each_agent
def test_a_run_goes_on_without_its_follower_and_can_be_followed_again(house: House, style: Style) -> None:
    model = house.scenario(HOLD_ON + '[[call]]\nsay = "Still here."\n')
    follower = house.start("run", "do it", "-a", style.agent, "--profile", "clean", "--model-from", model)
    until((house.work / "started").exists, "tool")
    run_id = house.folder().name
    end(follower.pid)
    assert follower.wait(timeout=60) == -signal.SIGKILL
    again = house.start("events", "-f", run_id)
    assert processes_of(run_id)
    (house.work / "go").touch()
    told, _ = again.communicate(timeout=60)
    assert again.returncode == 0
    lines = [json.loads(line) for line in told.splitlines()]
    assert [line["event"] for line in lines] == house.events(run_id)
    assert [line["n"] for line in lines] == list(range(1, len(lines) + 1))
    prove(house, run_id, end=DONE, usage=PER_CALL + PER_CALL)


def _kill_the_agent(house: House, style: Style) -> RunEnded:
    run_id = house.detach(style.agent, hanging_family(house), *style.arguments)
    await_family(house)
    os.kill(agent_of(house, run_id, style.agent), signal.SIGKILL)
    return prove(house, run_id, end=CRASHED, usage=PER_CALL)


def _kill_the_supervisor(house: House, style: Style) -> None:
    run_id = house.detach(style.agent, hanging_family(house), *style.arguments)
    await_family(house)
    end(house.supervisor(run_id))
    # Containment alone has to do this: nobody has looked at the run yet, so nobody has swept.
    prove_nothing_lives(house, run_id)
    assert house.kinds(run_id)[-1] != "run_ended"
    prove(house, run_id, end=LOST, usage=PER_CALL)
