"""From a blueprint and its inputs to one that was claimed: everything is checked first, so that bad input leaves
nothing."""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from inspan.errors import BadInput, InspanError
from inspan.loop.checks import fill_confinement
from inspan.loop.claim import Claim, claim_work, write_description
from inspan.loop.prepare import check_loop
from inspan.loop.task_file import write_task_file
from inspan.planning.boundary import drop_place
from inspan.protocol.blueprint import AgentNode, Blueprint
from inspan.protocol.limits import Limits
from inspan.protocol.loop import LoopPolicy
from inspan.protocol.task import Task
from inspan.redaction import Gate, SecretSet
from inspan.stores.run_folder import RunFolder

from .confinement import check_confinement, combine_sandbox, confine_task
from .graph import Graph, build_graph, complete_inputs, read_budgets, read_duration
from .plan import BlueprintPlan
from .references import PREVIOUS


class PreparedBlueprint(msgspec.Struct, frozen=True, kw_only=True):
    """A blueprint that was claimed and not yet started. Whoever gets it lets go of its lock."""

    plan: BlueprintPlan
    folder: RunFolder
    lock: int


def prepare_blueprint(
    blueprint: Blueprint,
    task: Task,
    *,
    inputs: Mapping[str, str],
    explicit: Mapping[str, Any],
    jobs: int,
    env: Mapping[str, str] = os.environ,
) -> PreparedBlueprint:
    """Checks the graph and that every agent could be started, and claims a folder; raises `InspanError` and then leaves
    no trace. A blueprint has a task of its own unless one is named, so that its budget is for all of its runs."""
    env, given = dict(env), complete_inputs(blueprint, inputs)
    check_jobs(jobs)
    check_blueprint(blueprint, task, inputs=given, explicit=explicit, env=env)
    own = task.task if task.task != "default" else f"blueprint-{os.urandom(4).hex()}"
    task = msgspec.structs.replace(
        task, task=own, prompt=blueprint.about or blueprint.name, budgets={**_read_budgets(blueprint), **task.budgets}
    )

    def describe(claim: Claim) -> BlueprintPlan:
        plan = BlueprintPlan(
            run_id=claim.run_id,
            created_at=claim.created_at,
            folder=claim.folder.path,
            state=claim.state,
            project=claim.project,
            task=task,
            explicit=dict(explicit),
            blueprint=blueprint,
            inputs=given,
            jobs=jobs,
            env=env,
            secrets=claim.secrets,
        )
        more = {
            "blueprint": msgspec.to_builtins(blueprint),
            "inputs": given,
            "explicit": plan.explicit,
            "jobs": jobs,
        }
        told = Gate(SecretSet.get_shared(claim.secrets)).redact_text(task.prompt)
        plan = msgspec.structs.replace(plan, warnings=write_task_file(claim.folder, told, keep=bool(task.continues)))
        write_description(claim, plan.started, task, more)
        return plan

    claim, plan = claim_work(task, env=env, describe=describe)
    return PreparedBlueprint(plan=plan, folder=claim.folder, lock=claim.lock)


def check_jobs(jobs: int) -> None:
    """Raises `BadInput` for a number of nodes at a time with which there is no progress."""
    if jobs < 1:
        raise BadInput("--jobs", jobs, "nothing would ever run.", next_step="Give 1 or more, or leave it out.")


def check_blueprint(
    blueprint: Blueprint, task: Task, *, inputs: Mapping[str, str], explicit: Mapping[str, Any], env: Mapping[str, str]
) -> Graph:
    """The graph, once everything is found to be right; else raises `InspanError` that names the node."""
    graph = build_graph(blueprint, inputs)
    for name, node in graph.blueprint.nodes.items():
        check_confinement(name, graph, task)
        if isinstance(node, AgentNode):
            own, policy, said = build_agent(name, graph, task, explicit, env=env)
            own = msgspec.structs.replace(own, model_from=fill_model_from(own.model_from, name))
            try:
                check_loop(own, policy, explicit=said, env=env)
            except InspanError as error:
                error.message = f"Node {name}: {error.message}"
                raise
    return graph


def fill_model_from(model_from: str, node: str, *, round: int = 1) -> str:
    """`{node}` and `{round}` in the file of a script or a cassette stand for these."""
    return model_from.replace("{node}", node).replace("{round}", str(round))


def build_agent(
    name: str, graph: Graph, task: Task, explicit: Mapping[str, Any], *, env: Mapping[str, str]
) -> tuple[Task, LoopPolicy, dict[str, Any]]:
    """What an agent's node is as a loop: its task, its rules, and what of the task was said in so many words."""
    node = graph.blueprint.nodes[name]
    assert isinstance(node, AgentNode)
    task = msgspec.structs.replace(task, agent=_find_agent(node, graph) or task.agent)
    confined = confine_task(name, graph, task)
    timeout_s = read_duration(node.timeout, field="timeout")
    limits: dict[str, Any] = {"timeout_s": timeout_s, "max_turns": node.max_turns}
    limits = {name: value for name, value in limits.items() if value is not None}
    fields: dict[str, Any] = {
        "mode": node.mode,
        "model": node.model,
        "effort": node.effort,
        "channel": node.channel,
        "sandbox": _choose_sandbox(node, confined, task, env),
        "net": confined.net,
        "read": confined.read,
        "allowed_tools": node.allowed_tools,
        "disallowed_tools": node.disallowed_tools,
        "output_schema": node.schema,
    }
    said = {name: value for name, value in fields.items() if value not in ("", (), None)}
    own = msgspec.structs.replace(
        task,
        prompt=node.prompt,
        name="",
        budgets={**task.budgets, **_name_budgets(node.budget)},
        limits=msgspec.structs.replace(task.limits, **limits),
        **said,
    )
    policy = LoopPolicy(
        checks=node.checks,
        verify=node.verify,
        agents=node.agents,
        max_restarts=node.max_restarts,
        time_limit_s=timeout_s,
    )
    return own, policy, {**explicit, **said, **limits}


def _choose_sandbox(node: AgentNode, confined: Task, task: Task, env: Mapping[str, str]) -> str:
    """That of a node; one that only says where to work leaves the boundary that is configured."""
    if node.sandbox and not drop_place(confined.sandbox) and not task.sandbox:
        return combine_sandbox(confined.sandbox, fill_confinement(task, env=dict(env)).sandbox)
    return confined.sandbox


def _find_agent(node: AgentNode, graph: Graph) -> str:
    """The agent that a node names; else the one whose session it goes on with."""
    if named := node.agent or next(iter(node.agents), ""):
        return named
    other = graph.blueprint.nodes.get(node.resume.removeprefix(f"{PREVIOUS}."))
    return _find_agent(other, graph) if isinstance(other, AgentNode) and other is not node else ""


def _name_budgets(texts: tuple[str, ...]) -> "dict[Any, Any]":
    return read_budgets(texts, field="budget")


def _read_budgets(blueprint: Blueprint) -> "dict[Any, Any]":
    """A budget without a name is for the whole blueprint, which has a task of its own."""
    return {
        "task" if node == "run" else node: budget
        for node, budget in read_budgets(blueprint.budget, field="budget").items()
    }


def default_command_timeout_s() -> float:
    """The longest that a command may take where nothing is said: as long as an agent may."""
    return Limits().timeout_s or 600.0
