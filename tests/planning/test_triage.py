"""What the agent that a watchdog asks is held to."""

import os

import pytest

from inspan.planning.triage import plan_triage
from inspan.protocol.limits import WatchdogLimits
from inspan.protocol.task import Task


@pytest.mark.parametrize(
    ("asked", "sandbox"),
    [
        ({}, ""),
        ({"sandbox": "worktree"}, ""),
        ({"sandbox": "worktree+bwrap"}, "bwrap"),
        ({"sandbox": "bwrap", "net": "allow=example.org"}, "bwrap"),
        ({"net": "gateway"}, "bwrap"),
        ({"sandbox": "podman", "image": "img"}, "podman"),
    ],
)
def test_what_confines_a_run_confines_the_agent_that_is_asked_about_it(asked: dict[str, str], sandbox: str) -> None:
    task = Task(prompt="x", cwd="/", watchdog=WatchdogLimits(triage="codex"), **asked)  # pyright: ignore[reportArgumentType]
    plan = plan_triage(task, os.environ, project="p")
    assert plan
    assert (plan.task.sandbox, plan.task.net, plan.task.image) == (
        sandbox, asked.get("net", ""), asked.get("image", ""),
    )  # fmt: skip
