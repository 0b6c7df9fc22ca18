"""Loops and blueprints for programs: started in processes of their own, followed to their ends."""

import asyncio
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from inspan.blueprints.files import read_blueprint
from inspan.blueprints.follow import follow_blueprint
from inspan.blueprints.prepare import prepare_blueprint
from inspan.blueprints.process import start_blueprint
from inspan.blueprints.report import BlueprintReport, load_report
from inspan.loop.prepare import prepare_loop
from inspan.loop.results import LoopResult, follow_loop
from inspan.loop.start import Children, start_loop
from inspan.planning.settings import collect_explicit
from inspan.protocol.blueprint import Blueprint
from inspan.protocol.commands import Cancel
from inspan.protocol.loop import LoopPolicy
from inspan.protocol.task import Task
from inspan.reporters.safe_reporter import SafeReporter
from inspan.runs.find import stop
from inspan.stores.run_folder import RunFolder

from .in_process import require_loop
from .options import normalize_task

if TYPE_CHECKING:
    from inspan.contracts.reporter import Reporter

_POLL_S = 1.0
_JOBS = 4


async def run_loop(task: Task, policy: LoopPolicy | None = None) -> LoopResult:
    """Runs a task again and again until it is done by the policy's rules; raises `InspanError` for what cannot be
    started. The loop has a process of its own; cancelling the call ends it, the death of this program does not."""
    require_loop("inspan.run_loop")
    task = normalize_task(task)
    # As at the command line: a budget without a name is for all runs of the loop together.
    task = msgspec.structs.replace(task, budgets={"task" if n == "run" else n: b for n, b in task.budgets.items()})
    policy = policy or LoopPolicy()
    children, env = Children(), dict(os.environ)
    prepared = await asyncio.to_thread(partial(prepare_loop, task, policy, explicit=collect_explicit(task), env=env))
    children.add(start_loop(prepared))
    with _stop_if_cancelled(prepared.folder):
        return await follow_loop(prepared.plan.state, prepared.folder, poll_s=_POLL_S)


async def run_blueprint(
    blueprint: Blueprint | str,
    *,
    task: Task | None = None,
    inputs: Mapping[str, str] | None = None,
    jobs: int = _JOBS,
    reporter: "Reporter | None" = None,
) -> BlueprintReport:
    """Runs a blueprint, given itself, the path of its file or the name of one that comes with inspan.

    `task` says what all its agents have in common: folder, sandbox, budget, profile. At most `jobs` nodes run at a
    time. `reporter` is told of every node; what it raises ends its telling. Raises `InspanError` for what cannot be
    started; a node that fails is a part of the report. Cancelling the call ends the blueprint.
    """
    require_loop("inspan.run_blueprint")
    task = normalize_task(msgspec.structs.replace(task or Task(prompt="", cwd=""), prompt="blueprint"))
    chosen = read_blueprint(blueprint) if isinstance(blueprint, str) else blueprint
    chosen = msgspec.structs.replace(chosen, name=chosen.name or "blueprint")
    prepare = partial(
        prepare_blueprint,
        chosen,
        task,
        inputs=inputs or {},
        explicit=collect_explicit(task),
        jobs=jobs,
        env=dict(os.environ),
    )
    children, prepared = Children(), await asyncio.to_thread(prepare)
    children.add(start_blueprint(prepared))
    state, folder = prepared.plan.state, prepared.folder
    with _stop_if_cancelled(folder):
        await follow_blueprint(state, folder, SafeReporter(reporter) if reporter else None)
    report, _, _ = await asyncio.to_thread(load_report, state, folder)
    return report


@contextmanager
def _stop_if_cancelled(folder: RunFolder) -> Generator[None]:
    try:
        yield
    except asyncio.CancelledError:
        stop(folder, command=Cancel(by="interrupted"))
        raise
