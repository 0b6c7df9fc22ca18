"""The last event of a loop: what came of it, and what its runs used together."""

import errno
from collections.abc import Sequence
from functools import reduce
from operator import add

import msgspec

from inspan.errors import (
    AgentUnusable,
    BudgetSpent,
    CredentialsMissing,
    HarnessFault,
    InspanError,
    LogBroken,
    LogTooNew,
    RunBusy,
    RunNotFound,
    StateUnusable,
)
from inspan.folds.loop import LoopState
from inspan.protocol.cost import sum_costs
from inspan.protocol.events import AttemptEnded, NodeEnded, RunEnded, VerdictGiven
from inspan.protocol.outcome import Reason
from inspan.protocol.reasons import REASONS
from inspan.protocol.wire import DECODE_ERRORS

from .decide import End

EndedPart = AttemptEnded | VerdictGiven | NodeEnded

# What is wrong with another run that is needed: more room on the disk would not help.
_OF_ANOTHER_RUN: tuple[type[InspanError], ...] = (RunNotFound, RunBusy, LogTooNew, LogBroken)
# What keeps a run from being started, as a reason for the loop to end.
_REASONS_OF_ERRORS: tuple[tuple[type[InspanError], Reason], ...] = (
    (CredentialsMissing, "authentication"),
    (AgentUnusable, "environment"),
    (BudgetSpent, "budget"),
    *((error, "environment") for error in _OF_ANOTHER_RUN),
    (StateUnusable, "store"),
    (HarnessFault, "harness"),
)

# What is another step for a loop, or other work that has runs, than for a run.
_NEXT_STEPS: dict[Reason, str] = {"store": "Free disk space, then go on with it: `inspan recover`."}
_LOOP_STEPS: dict[Reason, str] = {"run_timeout": "Give it longer with --max-time."}
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def reason_of_error(error: InspanError) -> Reason:
    """Why a loop ends whose next run cannot be started."""
    return find_reason(error) or "environment"


def find_reason(error: InspanError) -> Reason | None:
    """What an error says of the surroundings; nothing where it is about what somebody asked for."""
    if _cannot_be_read(error):
        return "environment"
    return next((reason for kind, reason in _REASONS_OF_ERRORS if isinstance(error, kind)), None)


def find_next_step(error: InspanError) -> str:
    """What to do about an error that ends a loop, where that is not what its reason says."""
    if isinstance(error, _OF_ANOTHER_RUN) or _cannot_be_read(error):
        return error.next_step
    cause = error.__cause__
    if not isinstance(error, StateUnusable) or not isinstance(cause, OSError) or cause.errno in _OF_THE_DISK:
        return ""
    return f"{error.next_step.rstrip('.')}; then go on with it: `inspan recover`."


def _cannot_be_read(error: InspanError) -> bool:
    """Whether a file is there that holds something else than it should."""
    return isinstance(error, StateUnusable) and isinstance(error.__cause__, DECODE_ERRORS)


def build_loop_end(state: LoopState, end: "End", *, duration_s: float) -> RunEnded:
    """The end of a loop."""
    runs = _list_ended_runs(state)
    ended = build_work_end(end.reason, end.message, parts=runs, files=_collect_files(state), duration_s=duration_s)
    step = end.next_step or _LOOP_STEPS.get(end.reason, ended.next)
    return msgspec.structs.replace(ended, next=step)


def build_work_end(
    reason: Reason, message: str, *, parts: Sequence[EndedPart], files: list[str], duration_s: float
) -> RunEnded:
    """The end of work that has runs, with the numbers of its parts; each run is counted by itself elsewhere."""
    usages = [each.usage for each in parts if each.usage]
    cost = sum_costs(each.cost for each in parts if each.cost)
    row = REASONS[reason]
    return RunEnded(
        outcome=row.outcome,
        reason=reason,
        message=message,
        next=_NEXT_STEPS.get(reason, row.next_step),
        duration_s=round(duration_s, 3),
        usage=reduce(add, usages) if usages else None,
        cost_usd=cost.usd,
        cost_kind=cost.kind,
        not_paid_usd=cost.not_paid_usd,
        calls_without_cost=cost.unknown_calls,
        model_calls=sum(each.model_calls for each in parts),
        files_changed=files,
        files_unknown=any(each.files_unknown for each in parts if not isinstance(each, VerdictGiven)),
    )


def _collect_files(state: LoopState) -> list[str]:
    ended = [attempt.ended for attempt in state.attempts if attempt.ended]
    return list(dict.fromkeys(path for each in ended for path in each.files_changed))


def _list_ended_runs(state: LoopState) -> list[AttemptEnded | VerdictGiven]:
    return [each for attempt in state.attempts for each in (attempt.ended, *attempt.verdicts) if each]
