"""Going on with a blueprint: with one that was lost where it stood, with one that has ended at what failed in it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from inspan.errors import BadInput
from inspan.loop.recover import hold_unclaimed, read_continued
from inspan.protocol.blueprint import Blueprint
from inspan.protocol.budget import Budget
from inspan.protocol.budget import Node as BudgetNode
from inspan.protocol.known_types import know_type
from inspan.protocol.task import Task
from inspan.runs.find import refresh_summary
from inspan.runs.relations import mark_continued
from inspan.stores.run_folder import RunFolder, read_json

from .prepare import PreparedBlueprint, prepare_blueprint
from .process import start_blueprint

NO_BUDGETS: Mapping[BudgetNode, Budget] = {}


def continue_blueprint(described: Mapping[str, Any], task: Task, env: Mapping[str, str]) -> str:
    """Goes on with a lost blueprint in a new one, whose id it gives."""
    prepared = _prepare(described, task, env)
    start_blueprint(prepared)
    return str(prepared.plan.run_id)


def prepare_resumed(
    state: str, folder: RunFolder, *, env: Mapping[str, str], budgets: Mapping[BudgetNode, Budget] = NO_BUDGETS
) -> PreparedBlueprint:
    """A blueprint that goes on with another, whose finished nodes are not run again; `budgets` take the place of what
    it was started with. Raises `BadInput` where there is nothing left to do, and `RunBusy` for one that lives."""
    described = read_json(folder.file("run.json"))
    if described.get("work") != "blueprint":
        step = "`inspan resume` goes on with a run, `inspan recover` with a loop."
        raise BadInput("RUN", folder.run_id, "it is no blueprint.", next_step=step)
    ended = refresh_summary(state, folder).ended
    if ended and ended.reason == "done":
        step = "Start it anew with `inspan blueprint run`."
        raise BadInput("RUN", folder.run_id, "all of its nodes are done.", next_step=step)
    with hold_unclaimed(state, folder):
        described, task = read_continued(folder)
        task = msgspec.structs.replace(task, budgets={**task.budgets, **budgets})
        prepared = _prepare(described, task, env)
        mark_continued(folder, by=str(prepared.plan.run_id))
        return prepared


def _prepare(described: Mapping[str, Any], task: Task, env: Mapping[str, str]) -> PreparedBlueprint:
    return prepare_blueprint(
        msgspec.convert(described["blueprint"], know_type(Blueprint)),
        task,
        inputs=described["inputs"],
        explicit=described.get("explicit") or {},
        jobs=described["jobs"],
        env=env,
    )
