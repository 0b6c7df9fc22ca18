"""A run whose supervisor dies before its first record: it is found, has a name, and goes on as any other does."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli_env import wait_until

from . import kill_points
from .house import House
from .scenarios import SCRIPT

AGENTS = ["claude", "codex"]


@pytest.fixture
def house(tmp_path: Path, binaries: dict[str, str]) -> Iterator[House]:
    made = House(tmp_path / "house", {**binaries, "PATH": os.environ["PATH"]}, forks=False)
    yield made
    made.close()


def run_and_die(house: House, agent: str) -> str:
    """A run of which the log has what its creator wrote, and nothing else."""
    # Quiet: else the command itself looks for the dead, and may find this one.
    words = ("run", "count", "-d", "-q", "--name", "early", "-a", agent, "--profile", "clean")
    watched = {kill_points.AT: "1", kill_points.VICTIM: "supervisor", kill_points.STAGE: "0"}
    assert house.run(*words, "--model-from", house.write_script(SCRIPT), watched=watched) == 0
    wait_until(lambda: (house.root / "killed-0").exists(), "kill")
    wait_until(lambda: not house.find_processes(), "empty house")
    (run,) = house.runs
    assert [event["kind"] for event in house.read_events(run)] == ["run_started"]
    return run


@pytest.mark.parametrize("agent", AGENTS)
def test_it_is_found_and_named(house: House, agent: str) -> None:
    run = run_and_die(house, agent)
    assert house.run("ps", "-a") == 0
    listed = house.read_output("stdout")
    assert "early" in listed and "lost" in listed
    assert house.read_end(run) == ("lost", "supervisor_lost")
    assert house.run("show", "early") in (0, 1)
    assert "inspan recover" in house.read_output("stdout")


@pytest.mark.parametrize("agent", AGENTS)
def test_it_can_be_resumed(house: House, agent: str) -> None:
    lost = run_and_die(house, agent)
    words = ("resume", "early", "and be quick", "--profile", "clean", "--model-from", house.write_script(SCRIPT))
    assert house.run(*words) == 0, house.read_output("stderr")
    (new,) = set(house.runs) - {lost}
    assert (house.read_end(new), dict(house.count_effects())) == (("completed", "done"), {new: 1})
    # Its agent never heard what it was asked for.
    assert house.runs[new]["task"]["prompt"] == "count\n\nand be quick"
    assert house.run("recover", "--yes") == 0
    assert "nothing was lost here" in house.read_output("stderr")


@pytest.mark.parametrize("agent", AGENTS)
def test_it_can_be_recovered(house: House, agent: str) -> None:
    lost = run_and_die(house, agent)
    assert house.run("recover", "--yes", "--json") == 0
    (new,) = json.loads(house.read_output("stdout"))["continued"].values()
    wait_until(lambda: house.read_end(new)[0], "end")
    assert (house.read_end(new), dict(house.count_effects())) == (("completed", "done"), {new: 1})
    assert (house.runs[new]["task"]["prompt"], house.runs[new]["task"]["continues"]) == ("count", lost)
