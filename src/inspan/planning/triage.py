"""The helper that says what is to be done about a silent run: what the run's plan needs to know of it."""

import marshal
import os
import sys
from collections.abc import Mapping

from inspan.protocol.budget import Budget
from inspan.protocol.limits import Limits, WatchdogLimits
from inspan.protocol.plan import TriagePlan
from inspan.protocol.task import Task

from .boundary import find_asked_boundary
from .places import find_origin

TIMEOUT_S = 60.0
_MOST_CALLS = 5
# A cassette has no place for the calls of another agent.
_NOT_FROM = ("record:", "replay:")


def plan_triage(task: Task, env: Mapping[str, str], *, project: str) -> TriagePlan | None:
    """How to ask, where the task wants it: an agent that sees a summary, has no tools and answers once.

    What confines the run confines it, too: it reads what the run's agent has written.
    """
    if not task.watchdog or not task.watchdog.triage or not task.watchdog.has_limit:
        return None
    if task.model_from.startswith(_NOT_FROM):
        return None
    asked = Task(
        prompt="",
        cwd=find_origin(task.cwd, env),
        agent=task.watchdog.triage,
        mode="complete",
        project=project,
        task=task.task,
        profile=task.profile,
        sandbox=find_asked_boundary(task),
        net=task.net,
        image=task.image,
        model_from=task.model_from if task.model_from.startswith("script:") else "",
        budgets={"run": Budget(calls=_MOST_CALLS)},
        limits=Limits(timeout_s=TIMEOUT_S, answer_timeout_s=0.0),
        watchdog=WatchdogLimits(model_s=None, tool_s=None),
        parent=task.parent,
    )
    script = os.path.join(os.path.dirname(__file__), "triage_run.py")
    return TriagePlan(argv=[sys.executable, "-I", "-S", script], task=asked, env=marshal.dumps(dict(env)))
