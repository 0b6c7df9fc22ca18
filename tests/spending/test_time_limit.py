"""Run time is watched, and used up by several runs at once."""

import asyncio
import time
from pathlib import Path

import pytest

from inspan.protocol.amounts import Denial
from inspan.spending.time_limit import next_poll_s, watch_run_time
from inspan.stores.ledger import TimeLeft
from tests.stores.accounts import parse_budgets

from .spending_run import SpendingRun

WAIT_S = 60.0


@pytest.mark.parametrize(
    ("left_s", "living", "look_s"), [(100.0, 1, 2.0), (1.5, 1, 1.5), (1.5, 3, 0.5), (0.0001, 1, 0.02), (1.0, 0, 1.0)]
)
def test_the_next_look_is_when_the_time_can_be_used_up(left_s: float, living: int, look_s: float) -> None:
    assert next_poll_s(TimeLeft(left_s, living, None)) == look_s


def test_without_a_limit_there_is_nothing_to_watch(tmp_path: Path) -> None:
    async def act() -> None:
        scene = SpendingRun(tmp_path, budgets=parse_budgets(run="1usd"))
        await scene.open()
        ends: list[Denial] = []
        await asyncio.wait_for(watch_run_time(scene.books, "r1", on_end=ends.append), WAIT_S)
        await scene.close()
        assert ends == []

    asyncio.run(act())


def test_two_runs_use_up_their_projects_time_twice_as_fast(tmp_path: Path) -> None:
    async def act() -> tuple[list[Denial], float]:
        began = time.monotonic()
        scenes = [SpendingRun(tmp_path, name, budgets=parse_budgets(project="1.6s")) for name in ("r1", "r2")]
        ends: list[Denial] = []
        for scene in scenes:
            await scene.open()
        watches = [watch_run_time(scene.books, scene.spender.run_id, on_end=ends.append) for scene in scenes]
        await asyncio.wait_for(asyncio.gather(*watches), WAIT_S)
        took_s = time.monotonic() - began
        for scene in scenes:
            await scene.close()
        return ends, took_s

    ends, took_s = asyncio.run(act())
    assert [(denial.node_label, denial.limit) for denial in ends] == [("project web-1a2b", "seconds")] * 2
    assert 0.5 < took_s < WAIT_S
