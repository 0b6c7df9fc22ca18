"""Killed at every event and at any moment: nothing is lost, nothing is done twice, nothing stays behind."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.soak import SCALE, rounds

from .scenarios import SCENARIOS

ROOT = Path(__file__).parents[2]
# Of the events of a scenario, each so-manieth is killed at in `make test`, from another one on for each victim.
_SHARE = 1 if SCALE else 14
# The same for the real agents, whose runs take longer.
_SHARE_OF_AGENTS = 1 if SCALE else 40
_FEW = 4

OUR_OWN = [(name, victim) for name, each in SCENARIOS.items() if each.agent == "scripted" for victim in each.victims]
AGENTS = [(name, victim) for name, each in SCENARIOS.items() if each.agent != "scripted" for victim in each.victims]


def run_rounds(root: Path, binaries: dict[str, str], *words: object) -> list[dict[str, Any]]:
    """Does rounds in a process of their own, and gives what came of each."""
    argv = [sys.executable, "-m", "tests.recovery.rounds", str(root), *map(str, words)]
    env = {**binaries, "PATH": os.environ["PATH"]}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=7200, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("name", "victim"), OUR_OWN)
def test_a_kill_at_any_event_loses_nothing(tmp_path: Path, binaries: dict[str, str], name: str, victim: str) -> None:
    first = 1 if SCALE else 2 + 3 * SCENARIOS[name].victims.index(victim)
    done = run_rounds(tmp_path, binaries, name, victim, first, _SHARE)
    assert [each for each in done if each["problems"]] == []
    assert len(done) >= SCENARIOS[name].least_events // _SHARE


@pytest.mark.sample(2)
@pytest.mark.parametrize(("name", "victim"), AGENTS)
def test_a_kill_while_a_real_agent_works_loses_nothing(
    tmp_path: Path, binaries: dict[str, str], name: str, victim: str
) -> None:
    done = run_rounds(tmp_path, binaries, name, victim, 1 if SCALE else 6, _SHARE_OF_AGENTS)
    assert [each for each in done if each["problems"]] == []
    assert done


@pytest.mark.parametrize("name", [name for name, each in SCENARIOS.items() if each.agent == "scripted"])
def test_kills_at_random_moments_lose_nothing(tmp_path: Path, binaries: dict[str, str], name: str) -> None:
    done = run_rounds(tmp_path, binaries, "random", name, 1, rounds(_FEW) * (10 if SCALE else 1))
    assert [each for each in done if each["problems"]] == []
    # On a busy machine, each of a few moments may come before there is anybody to kill; of many, some do not.
    assert not SCALE or any(each.get("said") for each in done)
