"""What a blueprint does next: a function of where it stands. Nothing here waits, starts or writes anything."""

from collections.abc import Collection, Mapping

import msgspec

from inspan.errors import BadInput
from inspan.folds.blueprint import BlueprintState, NodeRun
from inspan.protocol.outcome import Reason

from .graph import Graph, list_outputs
from .references import PREVIOUS, holds_something


class StartNode(msgspec.Struct, frozen=True, kw_only=True):
    """Begin a node; `run_id` is the loop that was begun for it before, which goes on."""

    node: str
    round: int = 1
    run_id: str = ""


class SkipNode(msgspec.Struct, frozen=True, kw_only=True):
    """Leave a node out; `why` names what it would have needed, or is empty where it is not wanted."""

    node: str
    round: int = 1
    why: str = ""


class FailNode(msgspec.Struct, frozen=True, kw_only=True):
    """It cannot be told whether the node is wanted."""

    node: str
    round: int = 1
    why: str


class End(msgspec.Struct, frozen=True, kw_only=True):
    """End the blueprint."""

    reason: Reason
    message: str = ""


Step = StartNode | SkipNode | FailNode | End


def decide(graph: Graph, state: BlueprintState, values: Mapping[str, str], *, living: Collection[str]) -> list[Step]:
    """What can be done now; nothing while all of it waits for the `living`. The same log leads to the same steps, so
    that a blueprint whose process died is simply gone on with. `values` are the inputs."""
    steps = [step for name in graph.order if (step := _look_at(name, graph, state, values, living))]
    if steps or living:
        return steps
    return [_end(graph, state)]


def find_round(graph: Graph, state: BlueprintState, node: str) -> int:
    """The round that a node is in: one more for each check of its loop that failed, as long as there are any left."""
    loop, round = graph.find_loop(node), 1
    if loop is None:
        return round
    most = loop.rounds + state.more_rounds.get(graph.loop_of[node], 0)
    while round < most:
        until = state.find(loop.until, round)
        if until is None or until.ended is None or until.ended.status != "failed":
            break
        round += 1
    return round


def collect_values(graph: Graph, state: BlueprintState, inputs: Mapping[str, str], *, node: str = "") -> dict[str, str]:
    """All that has a name by now; for a `node` in a loop also what others of it came to in the round before."""
    values = dict(inputs)
    for name, each in graph.blueprint.nodes.items():
        round = find_round(graph, state, name)
        run = state.find(name, round)
        given = run.ended.outputs if run and run.ended else {}
        values.update({output: given.get(output, "") for output in list_outputs(name, each)})
        if node and graph.loop_of.get(node) and graph.loop_of.get(node) == graph.loop_of.get(name):
            before = state.find(name, round - 1)
            given = before.ended.outputs if before and before.ended else {}
            values.update({f"{PREVIOUS}.{output}": given.get(output, "") for output in list_outputs(name, each)})
    return values


def list_failed(graph: Graph, state: BlueprintState) -> list[str]:
    """The nodes that failed for good."""
    return [name for name in graph.order if _has_failed(name, graph, state)]


def _look_at(
    name: str, graph: Graph, state: BlueprintState, inputs: Mapping[str, str], living: Collection[str]
) -> Step | None:
    round = find_round(graph, state, name)
    run = state.find(name, round)
    if name in living or (run and run.ended):
        return None
    if run and run.started:
        return StartNode(node=name, round=round, run_id=run.started.run_id)
    settled = all(_is_settled(need, name, graph, state) for need in graph.needs[name])
    if not settled or not _may_loop(name, graph, state):
        return None
    if blocked := [need for need in graph.needs[name] if _blocks(need, graph, state)]:
        return SkipNode(node=name, round=round, why=f"It needs {blocked[0]}, which did not succeed.")
    try:
        wanted = _is_wanted(name, graph, collect_values(graph, state, inputs, node=name))
    except BadInput as error:
        return FailNode(node=name, round=round, why=str(error))
    return StartNode(node=name, round=round) if wanted else SkipNode(node=name, round=round)


def _is_settled(need: str, name: str, graph: Graph, state: BlueprintState) -> bool:
    """Whether what a node came to is known to another: of a loop, to those outside, once all of it is over."""
    loop = graph.find_loop(need)
    if loop is None or graph.loop_of.get(need) == graph.loop_of.get(name):
        return _find_current(need, graph, state) is not None
    return all(_find_current(each, graph, state) for each in loop.nodes)


def _may_loop(name: str, graph: Graph, state: BlueprintState) -> bool:
    """A loop begins as a whole: once all that its nodes need from outside is there."""
    loop = graph.find_loop(name)
    if loop is None:
        return True
    outside = {need for each in loop.nodes for need in graph.needs[each] if need not in loop.nodes}
    return all(_is_settled(need, name, graph, state) for need in outside)


def _find_current(name: str, graph: Graph, state: BlueprintState) -> NodeRun | None:
    """The node in the round that its loop is in, once it has ended there."""
    run = state.find(name, find_round(graph, state, name))
    return run if run and run.ended else None


def _has_failed(name: str, graph: Graph, state: BlueprintState) -> bool:
    run = _find_current(name, graph, state)
    failed = run is not None and run.ended is not None and run.ended.status == "failed"
    return failed and not graph.blueprint.nodes[name].allow_failure


def _blocks(need: str, graph: Graph, state: BlueprintState) -> bool:
    run = _find_current(need, graph, state)
    skipped = run is not None and run.ended is not None and run.ended.status == "skipped" and bool(run.ended.error)
    return skipped or _has_failed(need, graph, state)


def _is_wanted(name: str, graph: Graph, values: Mapping[str, str]) -> bool:
    node, field = graph.blueprint.nodes[name], f"nodes.{name}"
    if node.when and not holds_something(node.when, values, field=f"{field}.when"):
        return False
    return not (node.unless and holds_something(node.unless, values, field=f"{field}.unless"))


def _end(graph: Graph, state: BlueprintState) -> End:
    failed = list_failed(graph, state)
    if not failed:
        return End(reason="done")
    first = state.find_last(failed[0])
    ended = first.ended if first else None
    said = f": {ended.error}" if ended and ended.error else ""
    reason = ended.reason if ended and ended.reason and ended.reason != "done" else None
    return End(reason=reason or "node_failed", message=f"{', '.join(failed)} failed{said}")
