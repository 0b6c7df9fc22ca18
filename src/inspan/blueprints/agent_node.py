"""An agent of a blueprint: a loop, which runs in the blueprint's process, or is gone on with where another began it.

Its runs have supervisors of their own, which live on where this process dies.
"""

import asyncio
import os
from functools import partial
from typing import Any

import msgspec

from inspan.contracts.places import AUTO
from inspan.errors import InspanError, RunNotFound
from inspan.loop.checks import fill_confinement
from inspan.loop.prepare import PreparedLoop, prepare_loop
from inspan.loop.process import run_inside
from inspan.loop.prompts import cut_middle
from inspan.loop.recover import continue_loop
from inspan.loop.results import LoopResult, follow_loop, read_answer
from inspan.planning.boundary import drop_place
from inspan.protocol.blueprint import AgentNode
from inspan.protocol.commands import Cancel
from inspan.protocol.events import NodeEnded, NodeOutput, NodeStarted
from inspan.runs.find import find_run_folder, refresh_summary
from inspan.runs.force import end_run
from inspan.stores.git import SnapshotError
from inspan.stores.run_folder import RunFolder, is_locked
from inspan.stores.snapshot import patch_between

from .decide import StartNode
from .graph import list_outputs
from .node_context import NodeContext
from .prepare import build_agent, fill_model_from

_POLL_S = 1.0
_MOST_PATCH = 200_000
_MOST_SHOWN = 50_000


async def run_agent_node(node: AgentNode, context: NodeContext, step: StartNode) -> NodeEnded:
    """Waits for the node's loop, which is ended where the blueprint is."""
    known = await asyncio.to_thread(_find_known, context, step.run_id) if step.run_id else None
    result = await (_follow_known(context, step, known) if known else _run_loop(node, context, step))
    outputs = await asyncio.to_thread(_read_outputs, node, context, step, result)
    if answer := outputs.get("answer"):
        context.record(NodeOutput(node=step.node, text=cut_middle(answer, most=_MOST_SHOWN)))
    ended = result.ended
    success = ended.reason == "done"
    return NodeEnded(
        node=step.node,
        type="agent",
        round=step.round,
        status="success" if success else "failed",
        error="" if success else ended.message or f"It ended early ({ended.reason}).",
        reason=ended.reason,
        outputs={name: outputs[source] for name, source in list_outputs(step.node, node).items()},
        runs=list(result.runs),
        files_changed=ended.files_changed,
        files_unknown=ended.files_unknown,
        usage=ended.usage,
        cost=result.cost,
        model_calls=ended.model_calls,
    )


async def _run_loop(node: AgentNode, context: NodeContext, step: StartNode) -> LoopResult:
    prepared = await asyncio.to_thread(_prepare, node, context, step)
    _record_start(context, step, prepared.folder)
    running = asyncio.create_task(run_inside(prepared))
    try:
        result = await _follow(context, prepared.folder)
        await running
        return result
    finally:
        running.cancel()


async def _follow_known(context: NodeContext, step: StartNode, folder: RunFolder) -> LoopResult:
    if folder.run_id != step.run_id:
        _record_start(context, step, folder)
    return await _follow(context, folder)


def _record_start(context: NodeContext, step: StartNode, folder: RunFolder) -> None:
    """Before the loop is started: whoever goes on with this blueprint looks what became of it."""
    context.record(NodeStarted(node=step.node, type="agent", round=step.round, run_id=str(folder.run_id)))


def _find_known(context: NodeContext, run_id: str) -> RunFolder | None:
    """The loop that was begun for this node: living, ended, or gone on with if it was lost."""
    state = context.plan.state
    try:
        folder = find_run_folder(state, run_id)
        ended = refresh_summary(state, folder).ended
        if ended is None or is_locked(folder) or ended.outcome != "lost":
            return folder
        return find_run_folder(state, continue_loop(state, folder, env=context.plan.env))
    except RunNotFound:
        return None  # It was deleted since: the node is begun anew.


def _prepare(node: AgentNode, context: NodeContext, step: StartNode) -> PreparedLoop:
    plan, field = context.plan, f"nodes.{step.node}"
    task, policy, said = build_agent(step.node, context.graph, plan.task, plan.explicit, env=plan.env)
    where = node.where or node.resume
    cwd = context.open_cwd(where) if where else task.cwd
    moved: dict[str, Any] = {}
    if cwd != task.cwd:  # The place may be one that the configuration says.
        sandbox = fill_confinement(task, env=plan.env).sandbox
        moved = {"cwd": cwd, "sandbox": drop_place(sandbox) or AUTO, "start": ""}
    task = msgspec.structs.replace(
        task,
        prompt=context.fill(node.prompt, field=f"{field}.prompt"),
        resume=context.find_last_run(node.resume) if node.resume else "",
        model_from=fill_model_from(task.model_from, step.node, round=step.round),
        parent=plan.run_id,
        continues="",
        **moved,
    )
    return prepare_loop(task, policy, explicit={**said, **moved}, env=plan.env)


async def _follow(context: NodeContext, folder: RunFolder) -> LoopResult:
    stopping = asyncio.create_task(_stop_at_end(context, folder))
    try:
        return await follow_loop(context.plan.state, folder, poll_s=_POLL_S)
    finally:
        stopping.cancel()
        await asyncio.wait({stopping})


async def _stop_at_end(context: NodeContext, folder: RunFolder) -> None:
    end = await asyncio.shield(context.ending)
    by = end.reason if end.reason in ("interrupted", "stopped", "killed") else "stopped"
    await asyncio.to_thread(partial(end_run, context.plan.state, folder, command=Cancel(by=by, now=by == "killed")))


def _read_outputs(node: AgentNode, context: NodeContext, step: StartNode, result: LoopResult) -> dict[str, str]:
    """What the agent gave, by the names of sources; a patch only where somebody wants it."""
    state, last = context.plan.state, result.runs[-1] if result.runs else ""
    wants_patch = "diff" in list_outputs(step.node, node).values()
    return {
        "answer": read_answer(state, last) if last else "",
        "diff": _read_patches(state, result.runs) if wants_patch else "",
        "files": msgspec.json.encode(result.ended.files_changed).decode(),
        "run": last,
    }


def _read_patches(state: str, runs: tuple[str, ...]) -> str:
    patches: list[str] = []
    for run in runs:
        try:
            folder = find_run_folder(state, run)
            patches.append(b"".join(patch_between(folder.path)).decode(errors="replace"))
        except (InspanError, SnapshotError, OSError):
            continue  # What is not known of it is not shown.
    return cut_middle(os.linesep.join(filter(None, patches)), most=_MOST_PATCH)
