"""What confines a node: the most of what the blueprint was started with, what confines the node in whose place it works
or whose session it goes on with, and what it asks for itself."""

import os
from collections.abc import Iterable

import msgspec

from inspan.errors import BadInput
from inspan.planning.boundary import drop_place, keep_place
from inspan.planning.confinement import USUAL_NET, Confinement, describe_asked, find_weakened
from inspan.protocol.blueprint import AgentNode, CommandNode, Node
from inspan.protocol.task import Task
from inspan.system.paths import is_within

from .graph import Graph
from .references import PREVIOUS


def confine_task(name: str, graph: Graph, task: Task) -> Task:
    """The task of the blueprint, with what confines the node of this name."""
    return _add_own(graph.blueprint.nodes[name], _surround_task(name, graph, task, seen=()))


def check_confinement(name: str, graph: Graph, task: Task) -> None:
    """A file confines its nodes as it likes, but none of them less than whoever started it has asked for, nor less than
    the node whose work is in its hands; raises `BadInput`."""
    node = graph.blueprint.nodes[name]
    if not isinstance(node, AgentNode | CommandNode):
        return
    around = _surround_task(name, graph, task, seen=())
    before = describe_asked(around)
    if not before.sandbox:
        return
    own = _add_own(node, around)
    now = Confinement(sandbox=before.sandbox, net=own.net or USUAL_NET, read=before.read)
    boundary = drop_place(node.sandbox)
    widened = [path for path in own.read if not _is_below(path, before.read)]
    for field, value, given in (
        ("sandbox", boundary, before.sandbox if boundary != before.sandbox else ""),
        ("net", own.net, find_weakened(before, now).get("net", "")),
        ("read", ", ".join(widened), ", ".join(before.read) or "nothing"),
    ):
        if value and given:
            raise _refuse(name, field, value, given, other=_find_other(node) if around != task else "")


def combine_sandbox(own: str, given: str) -> str:
    """A node's sandbox; one that only says where to work is within the boundary that was asked for."""
    if not own or drop_place(own) or not drop_place(given):
        return own or given
    return f"{own}+{drop_place(given)}"


def _add_own(node: Node, task: Task) -> Task:
    if not isinstance(node, AgentNode | CommandNode):
        return task
    read = node.read if isinstance(node, AgentNode) else ()
    return msgspec.structs.replace(
        task,
        sandbox=combine_sandbox(node.sandbox, task.sandbox),
        net=node.net or task.net,
        read=read or task.read,
    )


def _surround_task(name: str, graph: Graph, task: Task, *, seen: tuple[str, ...]) -> Task:
    """The task, confined as the node is before it says anything; the place that was asked for stays as it was."""
    other = _find_other(graph.blueprint.nodes[name])
    if not other or other in (*seen, name):
        return task
    own = _add_own(graph.blueprint.nodes[other], _surround_task(other, graph, task, seen=(*seen, name)))
    sandbox = keep_place(task.sandbox, boundary=drop_place(own.sandbox))
    return msgspec.structs.replace(task, sandbox=sandbox, net=own.net, read=own.read)


def _find_other(node: Node) -> str:
    """The node whose place or session another one has."""
    where = node.where if isinstance(node, AgentNode | CommandNode) else ""
    where = where or (node.resume if isinstance(node, AgentNode) else "")
    return where.removeprefix(f"{PREVIOUS}.")


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(is_within(os.path.realpath(path), os.path.realpath(folder)) for folder in folders)


def _refuse(name: str, field: str, value: str, given: str, *, other: str) -> BadInput:
    if other:
        problem = f"the node {other}, which it works behind, has {field} {given}."
        return BadInput(f"nodes.{name}.{field}", value, problem, next_step="Leave it out, or correct the blueprint.")
    step = f"Leave --{field} out, or correct the blueprint."
    if field == "read" and given == "nothing":
        step = f"Allow it: --read {value}; or correct the blueprint."
    return BadInput(f"nodes.{name}.{field}", value, f"it was started with --{field} {given}.", next_step=step)
