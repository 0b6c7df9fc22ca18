"""A node that brings what an agent did in a worktree of its own into the folder of the blueprint."""

import asyncio

import msgspec

from inspan.errors import BadInput
from inspan.protocol.blueprint import AgentNode, ApplyNode
from inspan.protocol.events import NodeEnded, NodeStarted
from inspan.runs.find import find_run_folder
from inspan.runs.undo import carry_out, plan_undo

from .decide import StartNode, find_round
from .graph import list_outputs
from .node_context import NodeContext


async def run_apply_node(node: ApplyNode, context: NodeContext, step: StartNode) -> NodeEnded:
    """All changes of the agent's runs, in order; what is there already is left as it is."""
    runs = _find_runs(node, context, step)
    context.record(NodeStarted(node=step.node, type="apply", round=step.round))
    files: list[str] = []
    for run in runs:
        files += await asyncio.to_thread(_apply, context.plan.state, run)
    files = list(dict.fromkeys(files))
    given = msgspec.json.encode(files).decode()
    return NodeEnded(
        node=step.node,
        type="apply",
        round=step.round,
        status="success",
        outputs=dict.fromkeys(list_outputs(step.node, node), given),
        files_changed=files,
    )


def _find_runs(node: ApplyNode, context: NodeContext, step: StartNode) -> list[str]:
    field, nodes = f"nodes.{step.node}.of", context.graph.blueprint.nodes
    name = context.fill(node.of, field=field).strip()
    known = [each for each, other in nodes.items() if isinstance(other, AgentNode)]
    if name not in known:
        raise BadInput(field, name, "it is no agent of this blueprint.", next_step=f"There are: {', '.join(known)}.")
    run = context.state.find(name, find_round(context.graph, context.state, name))
    if run is None or run.ended is None or not run.ended.runs:
        raise BadInput(field, name, "it has done nothing.", next_step="Let the node need it, with `after`.")
    return run.ended.runs


def _apply(state: str, run: str) -> list[str]:
    folder = find_run_folder(state, run)
    plan = plan_undo(state, folder, direction="apply")
    if plan.files:
        carry_out(state, folder, plan)
    return [each.path for each in plan.files] + plan.unchanged
