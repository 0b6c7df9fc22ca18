"""The graph of a blueprint: what each node needs, and everything about it that can be wrong before anything runs."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import cast

import msgspec

from inspan.config.durations import parse_duration
from inspan.errors import BadInput
from inspan.protocol.blueprint import AgentNode, ApplyNode, Blueprint, CommandNode, Node, PersonNode, Repeat
from inspan.protocol.budget import BUDGET_HINT, Budget, parse_budgets
from inspan.protocol.budget import Node as BudgetNode
from inspan.protocol.known_types import know_type

from .references import PREVIOUS, fill, find_whole_reference, list_references, name_of

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_MOST_NODES = 200
_MOST_ROUNDS = 1000
# What a node can give, by its kind; the first is its usual output.
SOURCES: Mapping[str, tuple[str, ...]] = {
    "command": ("output", "stdout", "exit_code"),
    "check": ("output", "stdout", "exit_code"),
    "agent": ("answer", "diff", "files", "run"),
    "person": ("answer",),
    "apply": ("files",),
}
# Texts that are filled when the node begins; all others take inputs alone, and are known before anything runs.
_LATE = ("prompt", "question", "env", "of")


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """A blueprint that was found to be right. `needs` are the nodes that each waits for, `writers` the node of each
    output, `loop_of` the loop that a node is in."""

    blueprint: Blueprint
    needs: dict[str, tuple[str, ...]]
    writers: dict[str, str]
    loop_of: dict[str, str]
    order: tuple[str, ...]

    def find_loop(self, node: str) -> Repeat | None:
        """The loop around a node, if any."""
        return self.blueprint.loops.get(self.loop_of.get(node, ""))


def kind_of(node: Node) -> str:
    """What a node is, in the word that a file has for it."""
    return str(node.__struct_config__.tag)


def list_outputs(name: str, node: Node) -> dict[str, str]:
    """The names of what a node gives, each with what that is."""
    return node.outputs or {name: SOURCES[kind_of(node)][0]}


def read_duration(value: str | float, *, field: str) -> float | None:
    """Seconds; `None` where none is given. Raises `BadInput`."""
    if value == "":
        return None
    try:
        seconds = parse_duration(str(value))
    except ValueError as error:
        raise BadInput(field, value, "it is no duration.", next_step="Write it as 90s, 10m or 1h.") from error
    if seconds is not None and seconds <= 0:
        raise BadInput(field, value, "it is no time at all.", next_step="Give a positive duration, as 10m.")
    return seconds


def read_budgets(texts: tuple[str, ...], *, field: str) -> "dict[BudgetNode, Budget]":
    """Budgets as the command line takes them; raises `BadInput`."""
    try:
        return parse_budgets(texts)
    except ValueError as error:
        raise BadInput(field, ", ".join(texts), str(error), next_step=BUDGET_HINT) from error


def build_graph(blueprint: Blueprint, values: Mapping[str, str]) -> Graph:
    """The graph, with the inputs in their places wherever these must be known; raises `BadInput` for what is wrong."""
    check_types(blueprint)
    _check_names(blueprint)
    _check_texts(blueprint)
    _check_inputs(blueprint, values)
    writers = _find_writers(blueprint)
    loop_of = _find_loops(blueprint)
    needs = {name: _find_needs(name, node, blueprint, writers, loop_of) for name, node in blueprint.nodes.items()}
    order = _sort(needs, blueprint, loop_of)
    nodes = {name: _fill_early(name, node, values) for name, node in blueprint.nodes.items()}
    blueprint = msgspec.structs.replace(blueprint, nodes=nodes)
    _check_values(blueprint)
    return Graph(blueprint=blueprint, needs=needs, writers=writers, loop_of=loop_of, order=order)


def complete_inputs(blueprint: Blueprint, given: Mapping[str, str]) -> dict[str, str]:
    """The inputs with their defaults; raises `BadInput` for one that is missing or that the blueprint does not have."""
    check_types(blueprint)
    for name in given:
        if name not in blueprint.inputs:
            raise BadInput(
                "--input", name, "the blueprint has no such input.", next_step=_offer(name, blueprint.inputs)
            )
    for name, value in given.items():
        if not isinstance(cast(object, value), str):
            raise BadInput("--input", name, f"{value!r} is no text.", next_step="Give it as a text.")
    values = {name: each.default for name, each in blueprint.inputs.items() if each.default is not None} | dict(given)
    for name, each in blueprint.inputs.items():
        if name not in values:
            about = f": {each.about}" if each.about else ""
            raise BadInput("--input", name, f"it is missing{about}.", next_step=f"Give it with --input {name}=VALUE.")
    return values


def check_types(blueprint: Blueprint) -> None:
    """Raises `BadInput` where a program has put something else into it than there can be."""
    try:
        msgspec.convert(msgspec.to_builtins(blueprint), know_type(Blueprint))
    except (msgspec.ValidationError, TypeError) as error:
        step = "Correct that; nodes are CommandNode, CheckNode, AgentNode, PersonNode and ApplyNode."
        raise BadInput("BLUEPRINT", blueprint.name, f"it holds something else: {error}.", next_step=step) from error


def _check_names(blueprint: Blueprint) -> None:
    if not blueprint.nodes:
        raise BadInput("nodes", {}, "there is nothing to do.", next_step="Add a node, as [nodes.test].")
    if len(blueprint.nodes) > _MOST_NODES:
        step = f"Use at most {_MOST_NODES}; a loop runs nodes again."
        raise BadInput("nodes", len(blueprint.nodes), "these are too many.", next_step=step)
    outputs = [output for name, node in blueprint.nodes.items() for output in list_outputs(name, node)]
    for name in (*blueprint.nodes, *blueprint.inputs, *blueprint.loops, *outputs):
        if not _NAME.fullmatch(name) or name == PREVIOUS:
            step = f"Use letters, digits, _ and -, a letter first; {PREVIOUS} has a meaning of its own."
            raise BadInput("name", name, "it cannot be a name.", next_step=step)


def _check_inputs(blueprint: Blueprint, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        if "\0" in value:
            raise BadInput("--input", name, "it holds a NUL character.", next_step="Leave that out.")
        if not _is_text(value):
            raise BadInput("--input", name, "it is not UTF-8.", next_step="Write it in UTF-8.")


def _check_texts(blueprint: Blueprint) -> None:
    """Half of a character, as a program may have it, can be stored nowhere."""
    for name, node in blueprint.nodes.items():
        if not _is_text(node):
            raise BadInput("nodes", name, "it has half of a character in it.", next_step="Write it in UTF-8.")
    if not _is_text(blueprint):
        raise BadInput("BLUEPRINT", "…", "it has half of a character in it.", next_step="Write it in UTF-8.")


def _is_text(value: object) -> bool:
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return False
    return True


def _find_writers(blueprint: Blueprint) -> dict[str, str]:
    writers: dict[str, str] = {}
    for name, node in blueprint.nodes.items():
        known = SOURCES[kind_of(node)]
        for output, source in list_outputs(name, node).items():
            field = f"nodes.{name}.outputs.{output}"
            if source not in known:
                step = f"A node of the kind {kind_of(node)} gives {', '.join(known)}."
                raise BadInput(field, source, "there is no such output.", next_step=step)
            if output in blueprint.inputs:
                raise BadInput(field, output, "an input has that name.", next_step="Give one of them another name.")
            if output in writers:
                step = "Give one of them another name with `outputs`."
                raise BadInput(field, output, f"{writers[output]} and {name} both write it.", next_step=step)
            writers[output] = name
    return writers


def _find_loops(blueprint: Blueprint) -> dict[str, str]:
    loop_of: dict[str, str] = {}
    for loop, part in blueprint.loops.items():
        field = f"loops.{loop}"
        for name in part.nodes:
            _require_node(name, blueprint, field=f"{field}.nodes")
            if name in loop_of:
                step = "A node is in one loop at most."
                raise BadInput(f"{field}.nodes", name, f"it is in the loop {loop_of[name]} too.", next_step=step)
            loop_of[name] = loop
        if part.until not in part.nodes or kind_of(blueprint.nodes[part.until]) != "check":
            step = "Name a node of the kind check that is one of the loop's nodes."
            raise BadInput(f"{field}.until", part.until, "it is no check of this loop.", next_step=step)
        if not 1 <= part.rounds <= _MOST_ROUNDS:
            step = f"Give 1 to {_MOST_ROUNDS}."
            raise BadInput(f"{field}.rounds", part.rounds, "these are no rounds.", next_step=step)
    return loop_of


def _find_needs(
    name: str, node: Node, blueprint: Blueprint, writers: Mapping[str, str], loop_of: Mapping[str, str]
) -> tuple[str, ...]:
    needs: dict[str, None] = {}
    for field, other in _list_named_nodes(name, node):
        if other == name:
            raise BadInput(field, other, "a node cannot need itself.", next_step="Leave it out.")
        needs[_require_node(other, blueprint, field=field)] = None
    for field, reference in _list_late_references(name, node):
        writer = _find_writer(reference, field, name, blueprint, writers, loop_of)
        if writer == name:
            step = f"In a loop, {{{{{PREVIOUS}.{reference}}}}} is what it was in the round before."
            raise BadInput(field, reference, "a node cannot use what it gives itself.", next_step=step)
        if writer:
            needs[writer] = None
    if isinstance(node, ApplyNode) and node.of in blueprint.nodes:
        needs[node.of] = None
    return tuple(needs)


def _list_named_nodes(name: str, node: Node) -> Iterator[tuple[str, str]]:
    yield from ((f"nodes.{name}.after", each) for each in node.after)
    if isinstance(node, CommandNode | AgentNode) and node.where:
        yield f"nodes.{name}.where", node.where
    if isinstance(node, AgentNode) and node.resume and not node.resume.startswith(f"{PREVIOUS}."):
        yield f"nodes.{name}.resume", node.resume


def _list_late_references(name: str, node: Node) -> Iterator[tuple[str, str]]:
    for key in ("when", "unless"):
        if reference := getattr(node, key):
            field = f"nodes.{name}.{key}"
            yield from ((field, each) for each in list_references(f"{{{{{reference}}}}}", field=field))
    for field, text in _list_late_texts(name, node):
        yield from ((field, reference) for reference in list_references(text, field=field))


def _list_late_texts(name: str, node: Node) -> Iterator[tuple[str, str]]:
    if isinstance(node, CommandNode):
        yield from ((f"nodes.{name}.env.{variable}", text) for variable, text in node.env.items())
    elif isinstance(node, AgentNode):
        yield f"nodes.{name}.prompt", node.prompt
    elif isinstance(node, PersonNode):
        yield f"nodes.{name}.question", node.question
    else:
        yield f"nodes.{name}.of", node.of


def _find_writer(
    reference: str,
    field: str,
    name: str,
    blueprint: Blueprint,
    writers: Mapping[str, str],
    loop_of: Mapping[str, str],
) -> str:
    """The node whose output a reference names, where that is waited for."""
    wanted = name_of(reference)
    if wanted.startswith(f"{PREVIOUS}."):
        writer = writers.get(wanted.removeprefix(f"{PREVIOUS}."), "")
        if not writer or not loop_of.get(name) or loop_of.get(writer) != loop_of.get(name):
            step = "Name an output of a node that is in the same loop."
            raise BadInput(field, reference, "there is no round before to look at.", next_step=step)
        return ""
    if wanted in blueprint.inputs:
        return ""
    if wanted not in writers:
        step = _offer(wanted, {**blueprint.inputs, **writers})
        raise BadInput(field, reference, f"nothing has the name {wanted}.", next_step=step)
    return writers[wanted]


def _require_node(name: str, blueprint: Blueprint, *, field: str) -> str:
    if name not in blueprint.nodes:
        raise BadInput(field, name, "there is no such node.", next_step=_offer(name, blueprint.nodes))
    return name


def _offer(name: str, known: Mapping[str, object]) -> str:
    if not known:
        return "There are none."
    close = get_close_matches(name, known, n=1)
    return f"Do you mean {close[0]}?" if close else f"There are: {', '.join(known)}."


def _sort(needs: Mapping[str, tuple[str, ...]], blueprint: Blueprint, loop_of: Mapping[str, str]) -> tuple[str, ...]:
    """The nodes in an order in which they could be run; raises `BadInput` for a circle. Whoever needs a node of a loop
    waits for all of it."""
    waits: dict[str, set[str]] = {}
    for name, direct in needs.items():
        waits[name] = set(direct)
        for other in direct:
            if (loop := loop_of.get(other)) and loop != loop_of.get(name):
                waits[name] |= set(blueprint.loops[loop].nodes)
    for loop, part in blueprint.loops.items():
        around = {need for name in part.nodes for need in waits[name] if loop_of.get(need) != loop}
        for name in part.nodes:  # A loop begins as a whole.
            waits[name] |= around
    order: list[str] = []
    while len(order) < len(waits):
        ready = [name for name, others in waits.items() if name not in order and others <= set(order)]
        if not ready:
            circle = _find_circle(waits, order)
            step = "Take one of them out; for a part that is run again, use [loops.NAME] and {{previous.NAME}}."
            raise BadInput("nodes", " → ".join(circle), "these need each other in a circle.", next_step=step)
        order += ready
    return tuple(order)


def _find_circle(waits: Mapping[str, set[str]], order: list[str]) -> list[str]:
    path = [next(name for name in waits if name not in order)]
    while path[-1] not in path[:-1]:
        path.append(min(waits[path[-1]] - set(order)))
    return path[path.index(path[-1]) :]


def _fill_early(name: str, node: Node, values: Mapping[str, str]) -> Node:
    """The node with the inputs in all texts that must be known before it runs; commands take one as a whole only."""
    filled: dict[str, object] = {}
    for key in node.__struct_fields__:
        value, field = getattr(node, key), f"nodes.{name}.{key}"
        if key in _LATE or key in ("when", "unless", "outputs", "schema"):
            continue
        if key in ("run", "checks"):
            commands = (value,) if isinstance(value, str) else value
            done = tuple(_fill_command(each, values, field=field) for each in commands)
            filled[key] = done[0] if isinstance(value, str) else done
        elif isinstance(value, str):
            filled[key] = _fill_known(value, values, field=field)
        elif isinstance(value, tuple):
            texts = cast(tuple[str, ...], value)
            filled[key] = tuple(_fill_known(each, values, field=field) for each in texts)
    return msgspec.structs.replace(node, **filled)


def _fill_known(text: str, values: Mapping[str, str], *, field: str) -> str:
    for reference in list_references(text, field=field):
        if name_of(reference) not in values:
            step = "What other nodes give can stand in a prompt, a question, `env`, `of`, `when` and `unless`."
            raise BadInput(field, reference, "it is no input.", next_step=step)
    return fill(text, values, field=field)


def _fill_command(text: str, values: Mapping[str, str], *, field: str) -> str:
    """Anything else would let a value be read as a part of the command."""
    if not list_references(text, field=field):
        return text
    whole = find_whole_reference(text)
    if whole and name_of(whole) in values:
        return fill(text, values, field=field)
    step = 'Put it into `env`, as env = { NAME = "{{name}}" }, and use "$NAME" in the command.'
    raise BadInput(field, text, "a value inside of a command could be read as a part of it.", next_step=step)


def _check_values(blueprint: Blueprint) -> None:
    """What is wrong whatever the graph: durations, budgets, empty texts."""
    limit_s = read_duration(blueprint.timeout, field="timeout")
    read_budgets(blueprint.budget, field="budget")
    for name, node in blueprint.nodes.items():
        field = f"nodes.{name}"
        timeout_s = read_duration(node.timeout, field=f"{field}.timeout")
        if limit_s is not None and timeout_s is not None and timeout_s > limit_s:
            problem = f"the whole blueprint may take {blueprint.timeout}."
            raise BadInput(
                f"{field}.timeout", node.timeout, problem, next_step="Give the node less, or all of it more."
            )
        if isinstance(node, CommandNode) and not node.run.strip():
            raise BadInput(f"{field}.run", node.run, "it is no command.", next_step='For example run = "pytest -q".')
        if isinstance(node, CommandNode):
            _check_variables(field, node)
        if isinstance(node, PersonNode) and not node.question.strip():
            raise BadInput(f"{field}.question", node.question, "it asks nothing.", next_step="Say what to decide.")
        if isinstance(node, ApplyNode):
            _check_apply(field, node, blueprint)
        if isinstance(node, AgentNode):
            read_budgets(node.budget, field=f"{field}.budget")
            _check_agent(field, node, blueprint)


def _check_variables(field: str, node: CommandNode) -> None:
    for name in node.env:
        if not name or "=" in name or "\0" in name:
            step = 'For example env = { NAME = "{{name}}" }.'
            raise BadInput(f"{field}.env", name, "it cannot be a variable's name.", next_step=step)


def _check_apply(field: str, node: ApplyNode, blueprint: Blueprint) -> None:
    """What another node names is known only then."""
    agents = {name: each for name, each in blueprint.nodes.items() if isinstance(each, AgentNode)}
    if not agents or not (node.of.strip() in agents or list_references(node.of, field=f"{field}.of")):
        raise BadInput(f"{field}.of", node.of, "it is no agent of this blueprint.", next_step=_offer(node.of, agents))


def _check_agent(field: str, node: AgentNode, blueprint: Blueprint) -> None:
    if not node.prompt.strip():
        raise BadInput(f"{field}.prompt", node.prompt, "it says nothing.", next_step="Say what is to be done.")
    if node.schema is not None and node.mode != "complete":
        step = 'Add mode = "complete", or leave `schema` out.'
        raise BadInput(f"{field}.schema", node.mode or "exec", "only a completion has a schema.", next_step=step)
    if node.agent and node.agents and node.agents[0] != node.agent:
        step = "Name the agents with `agents` alone."
        raise BadInput(f"{field}.agent", node.agent, f"`agents` begins with {node.agents[0]}.", next_step=step)
    other = node.resume.removeprefix(f"{PREVIOUS}.")
    if other and not isinstance(blueprint.nodes.get(other), AgentNode):
        step = "Name a node of the kind agent."
        raise BadInput(f"{field}.resume", node.resume, "it has no session to go on with.", next_step=step)
