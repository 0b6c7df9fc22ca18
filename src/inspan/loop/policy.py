"""The rules of a loop, looked at before anything is made: of the right types, possible, and without contradictions."""

from typing import Any

import msgspec

from inspan.errors import BadInput
from inspan.planning.boundary import drop_place
from inspan.planning.checks import check_task, check_word
from inspan.protocol.known_types import know_type
from inspan.protocol.loop import LoopPolicy
from inspan.protocol.task import Task

_MOST = 1_000_000_000


def read_policy(plain: Any) -> LoopPolicy:
    """The rules that a program gives, or that were stored as plain data; raises `BadInput` with the field that cannot
    be used."""
    fields: Any = plain
    if isinstance(plain, LoopPolicy):
        fields = msgspec.structs.asdict(plain)
    elif not isinstance(plain, dict):
        raise BadInput("policy", plain, "it is no LoopPolicy.", next_step="Give an inspan.LoopPolicy(checks=(…,)).")
    try:
        return msgspec.convert(fields, know_type(LoopPolicy))
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$.")
        field = place.rstrip("`")
        value: Any = fields.get(field.partition("[")[0])
        raise BadInput(
            field or "policy", value, f"{problem.replace('`', '')}.", next_step="Give a value of that type."
        ) from error


def check_policy(policy: LoopPolicy, task: Task) -> None:
    """Raises `BadInput` for rules that say nothing, or contradict each other or the task."""
    check_task(task)
    for field, value in (
        ("--max-restarts", policy.max_restarts),
        ("--delay", policy.delay_s),
        ("--no-progress", policy.no_progress),
        ("longest_delay_s", policy.longest_delay_s),
        *(("rate_limit_backoff_s", each) for each in policy.rate_limit_backoff_s),
    ):
        if not 0 <= value <= _MOST:
            problem = "it is negative." if value < 0 else "it is too large, or no number."
            raise BadInput(field, value, problem, next_step="Give 0 or more." if value < 0 else "Give less.")
    if policy.no_progress == 1:
        step = "Give 2 or more; 0 lets it go on whatever comes of it."
        raise BadInput("--no-progress", 1, "one attempt alone cannot show that nothing changes.", next_step=step)
    for field, seconds in (("--max-time", policy.time_limit_s), ("--check-timeout", policy.check_timeout_s)):
        if seconds is not None and not 0 < seconds <= _MOST:
            problem = "it is no time at all." if seconds <= 0 else "it is too large, or no number."
            raise BadInput(field, seconds, problem, next_step="Give a positive duration, as 30m.")
    check_word("nonce", policy.nonce)
    _refuse_contradictions(policy)
    for check in policy.checks:
        check_word("--check", check)
        if not check.strip() or "\0" in check:
            raise BadInput("--check", check, "it is no command.", next_step="For example --check 'pytest -q'.")
    if policy.test_patch and (not policy.checks or task.sandbox == drop_place(task.sandbox)):
        problem = "its files are in the agent's own worktree while a check runs, so both are needed."
        step = "Give checks and the sandbox worktree."
        raise BadInput("policy.test_patch", policy.test_patch, problem, next_step=step)
    if policy.until == "done_file" and task.mode != "exec":
        step = "Leave --until out, or use --mode exec."
        raise BadInput("--until", "done-file", f"in the mode {task.mode} an agent writes no file.", next_step=step)
    if task.session:
        raise BadInput("--open", True, "a loop has no session that stays open.", next_step="Leave it out.")


def _refuse_contradictions(policy: LoopPolicy) -> None:
    """A limit that is never reached, since another one ends the loop before; nobody said a default."""
    usual, most = LoopPolicy(), policy.max_restarts + 1
    if policy.no_progress > most and policy.no_progress != usual.no_progress:
        attempts = "is 1 attempt" if most == 1 else f"are {most} attempts"
        problem = f"there {attempts} at the most (--max-restarts {policy.max_restarts})."
        raise BadInput("--no-progress", policy.no_progress, problem, next_step=f"Give {most} or less, or 0.")
    left_s, check_s = policy.time_limit_s, policy.check_timeout_s
    if left_s is not None and check_s > left_s and check_s != usual.check_timeout_s:
        problem = f"the whole loop may take {left_s:g} s (--max-time)."
        raise BadInput("--check-timeout", f"{check_s:g}s", problem, next_step="Give less, or leave it out.")
