"""From a task and rules to a loop that was claimed: everything is checked first, so that bad input leaves nothing."""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from inspan.errors import BadInput, InspanError
from inspan.planning.boundary import drop_place
from inspan.planning.places import touches_files
from inspan.planning.settings import ConfiguredTask, apply_config
from inspan.planning.validate import validate
from inspan.protocol.loop import LoopPolicy
from inspan.protocol.task import Task
from inspan.redaction import Gate, SecretSet
from inspan.stores.run_folder import RunFolder

from .claim import Claim, claim_work, write_description
from .plan import LoopPlan, build_agent_task, build_verifier_task, explain_verifier
from .policy import check_policy, read_policy
from .task_file import write_task_file


class PreparedLoop(msgspec.Struct, frozen=True, kw_only=True):
    """A loop that was claimed and not yet started. Whoever gets it lets go of its lock."""

    plan: LoopPlan
    folder: RunFolder
    lock: int


def prepare_loop(
    task: Task,
    policy: LoopPolicy,
    *,
    explicit: Mapping[str, Any],
    env: Mapping[str, str] = os.environ,
) -> PreparedLoop:
    """Checks that every agent could be started, and claims the loop's folder; raises `InspanError` and then leaves no
    trace.

    A loop has a task of its own unless one is named, so that a budget of the task is for all of its runs.
    """
    env = dict(env)
    policy = check_loop(task, policy, explicit=explicit, env=env)
    task = msgspec.structs.replace(task, agent=policy.agents[0], task=_name_task(task))
    return _claim(task, policy, explicit=explicit, env=env)


def check_loop(task: Task, policy: LoopPolicy, *, explicit: Mapping[str, Any], env: Mapping[str, str]) -> LoopPolicy:
    """The rules in full, once everything is found to be right and every agent could be started; else raises
    `InspanError`. Nothing is written."""
    policy, first = read_policy(policy), apply_config(task, explicit=explicit, env=env).task
    policy = _complete(policy, first)
    check_policy(policy, first)
    for agent in policy.agents:
        configured = apply_config(build_agent_task(task, agent), explicit=explicit, env=env)
        validate(configured.task, env=configured.env)
        _check_place(configured, policy, agent)
    if policy.verify:
        _check_verifier(task, policy, explicit=explicit, env=env)
    return policy


def _check_verifier(task: Task, policy: LoopPolicy, *, explicit: Mapping[str, Any], env: Mapping[str, str]) -> None:
    own = build_verifier_task(build_agent_task(task, policy.verify), policy)
    try:
        configured = apply_config(own, explicit=explain_verifier(explicit), env=env)
        if touches_files(configured.task):
            validate(configured.task, env=configured.env)
            return
    except InspanError as error:
        error.message = f"--verify {policy.verify}: {error.message}"
        raise
    step = "Choose an agent that has a program of its own: `inspan agents` lists them."
    raise BadInput("--verify", policy.verify, "it sees no files, so it cannot look at the work.", next_step=step)


def _check_place(configured: ConfiguredTask, policy: LoopPolicy, agent: str) -> None:
    """An agent that touches no files has no worktree: what judges it would have to work in the user's checkout."""
    task, judges = configured.task, policy.checks or policy.verify
    if not judges or task.sandbox == drop_place(task.sandbox):
        return
    if not touches_files(task):
        problem = f"{agent} touches no files in the mode {task.mode}, so it has no worktree that could be checked."
        step = "Leave the worktree out, or use --mode exec."
        raise BadInput("sandbox", task.sandbox, problem, next_step=step)


def _complete(policy: LoopPolicy, task: Task) -> LoopPolicy:
    agents = tuple(dict.fromkeys(policy.agents or (task.agent,)))
    return msgspec.structs.replace(policy, agents=agents, nonce=policy.nonce or f"done-{os.urandom(6).hex()}")


def _name_task(task: Task) -> str:
    return task.task if task.task != "default" else f"loop-{os.urandom(4).hex()}"


def _claim(task: Task, policy: LoopPolicy, *, explicit: Mapping[str, Any], env: dict[str, str]) -> PreparedLoop:
    def describe(claim: Claim) -> LoopPlan:
        plan = LoopPlan(
            run_id=claim.run_id,
            created_at=claim.created_at,
            folder=claim.folder.path,
            state=claim.state,
            project=claim.project,
            task=task,
            explicit=dict(explicit),
            policy=policy,
            env=env,
            secrets=claim.secrets,
        )
        # A node of a blueprint has a share in its task.
        keep = bool(task.continues or task.parent)
        told = Gate(SecretSet.get_shared(claim.secrets)).redact_text(task.prompt)
        plan = msgspec.structs.replace(plan, warnings=write_task_file(claim.folder, told, keep=keep))
        more = {"policy": msgspec.to_builtins(plan.policy), "explicit": plan.explicit}
        write_description(claim, plan.started, task, more)
        return plan

    claim, plan = claim_work(task, env=env, describe=describe)
    return PreparedLoop(plan=plan, folder=claim.folder, lock=claim.lock)
