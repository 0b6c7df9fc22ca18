"""What is done to a worktree, killed at every step: nothing is lost, and the next one completes it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak import SCALE

ROOT = Path(__file__).parents[2]
# Of the steps, each so-manieth is killed in `make test`, from another one on for each case.
_SHARE = 1 if SCALE else 12


@pytest.mark.parametrize("first", range(3))
@pytest.mark.parametrize(("act", "least"), [("make", 15), ("remove", 100), ("restore", 15), ("test", 20)])
def test_after_a_kill_at_any_step_nothing_is_lost_and_the_next_one_completes_it(
    tmp_path: Path, act: str, least: int, first: int
) -> None:
    (tmp_path / "home").mkdir()
    share = _SHARE * 3
    argv = [sys.executable, "-m", "tests.stores.worktree_kills", str(tmp_path), act, str(first * _SHARE), str(share)]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=1200, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    kills = [json.loads(line) for line in done.stdout.splitlines()]
    assert [kill for kill in kills if kill["problems"]] == []
    assert len(kills) >= (least - first * _SHARE) // share
    assert kills or first * _SHARE > least
