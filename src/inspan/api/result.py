"""What a run came to, as a program reads it."""

import os
from typing import Any

import msgspec

from inspan.errors import AgentFailed, RateLimitError, ToolPermissionError
from inspan.folds.costs import read_cost
from inspan.folds.summary import DeniedCall, Summary
from inspan.protocol.cost import Cost, sum_costs
from inspan.protocol.events import MessageEnded, RunEnded
from inspan.protocol.outcome import Outcome, Reason, Status, status_of
from inspan.protocol.reasons import REASONS
from inspan.protocol.task import Task
from inspan.protocol.usage import Usage
from inspan.stores.large_text import restore_large_texts
from inspan.stores.run_folder import RunFolder

from .tokens import TokenRecord, add_record


class RateLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The provider said to wait: why, and until when (seconds since 1970) where it said so."""

    reason: str
    resets_at: float | None = None


class AgentResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended. `message` is the agent's last word, `answer` the value that fits the schema where one was given.

    `cost_cents` is what was paid: `None` where nobody knows it or nobody is paid, never 0, and `cost` tells which.
    `denied` lists every tool call that was not allowed, in a run that went well too. `attempts` are the
    runs that it took: more than one where an answer was repaired, and then `tokens_used`, `cost`, `cost_cents` and
    `duration_s` are those of all of them.
    """

    run_id: str
    agent: str
    outcome: Outcome
    reason: Reason
    message: str = ""
    answer: Any = None
    tokens_used: Usage = Usage()
    cost_cents: float | None = None
    cost: Cost = Cost(kind="unknown")
    rate_limit_hit: RateLimit | None = None
    session_id: str = ""
    files_changed: tuple[str, ...] = ()
    denied: tuple[DeniedCall, ...] = ()
    error: str = ""
    next_step: str = ""
    exit_code: int | None = None
    model_calls: int = 0
    duration_s: float = 0.0
    folder: str = ""
    attempts: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the agent did what was asked, as far as the harness can tell."""
        return self.outcome == "completed"

    @property
    def status(self) -> Status:
        """`success` or `failed`."""
        return status_of(self.outcome)

    @property
    def output(self) -> str:
        """Another word for `message`."""
        return self.message

    @property
    def errors(self) -> tuple[AgentFailed, ...]:
        """What went wrong, as errors that were not raised: the end of the run, and calls that were denied."""
        found = () if self.ok else (self._build_error(),)
        if self.denied and self.reason != "tool_permission":
            found = (*found, self._build_denial_error())
        return found

    def check(self) -> "AgentResult":
        """The result itself, or raises the error that stands for a run that did not complete."""
        if not self.ok:
            raise self._build_error()
        return self

    def record_tokens(self) -> str:
        """Enters what was used into `tokens-used.json` of the task's folder and gives its path; twice counts once.

        Raises `StateUnusable` when the file cannot be read or written.
        """
        record = TokenRecord(
            run_id=self.run_id,
            agent=self.agent,
            outcome=self.outcome,
            tokens=self.tokens_used,
            cost_cents=self.cost_cents,
            cost_kind=self.cost.kind,
            model_calls=self.model_calls,
            attempts=self.attempts,
        )
        return add_record(os.path.dirname(os.path.dirname(self.folder)), record)

    def _build_error(self) -> AgentFailed:
        left = "" if self.exit_code is None else f", exit code {self.exit_code}"
        error = REASONS[self.reason].error(
            self.error or f"The run ended {self.outcome} ({self.reason}).",
            reason=self.reason,
            run_id=self.run_id,
            next_step=self.next_step,
            tried=f"run {self.run_id} by {self.agent}",
            came_back=f"{self.outcome} ({self.reason}){left}",
        )
        if isinstance(error, RateLimitError) and self.rate_limit_hit:
            error.resets_at = self.rate_limit_hit.resets_at
        if isinstance(error, ToolPermissionError):
            error.denied = self.denied
        return error

    def _build_denial_error(self) -> ToolPermissionError:
        names = ", ".join(dict.fromkeys(call.name or call.id for call in self.denied))
        error = ToolPermissionError(
            f"Tool calls that were denied: {len(self.denied)} ({names}).",
            reason="tool_permission",
            run_id=self.run_id,
            next_step="Allow these tools, or ignore this: the agent continued without them.",
            tried=f"run {self.run_id} by {self.agent}",
            came_back="; ".join(dict.fromkeys(call.message for call in self.denied if call.message)),
        )
        error.denied = self.denied
        return error


def build_result(folder: RunFolder, task: Task, summary: Summary) -> AgentResult:
    """The result of an ended run, live or from its log."""
    ended = summary.ended or RunEnded(outcome="lost", reason="supervisor_lost")
    cost = read_cost(ended, model_from=summary.model_from)
    return AgentResult(
        run_id=folder.run_id,
        agent=summary.started.agent if summary.started else task.agent,
        outcome=ended.outcome,
        reason=ended.reason,
        message=restore_large_texts(summary.answer, folder=folder.path),
        answer=_load_answer(folder, task, summary) if ended.outcome == "completed" else None,
        tokens_used=ended.usage or Usage(),
        cost_cents=_to_cents(cost),
        cost=cost,
        rate_limit_hit=_find_rate_limit(summary, ended),
        session_id=ended.session_id or summary.session_id,
        files_changed=tuple(ended.files_changed),
        denied=tuple(summary.denials),
        error=ended.message,
        next_step=ended.next,
        exit_code=ended.exit_code,
        model_calls=ended.model_calls,
        duration_s=ended.duration_s,
        folder=folder.path,
        attempts=(folder.run_id,),
    )


def build_message_result(folder: RunFolder, task: Task, summary: Summary, ended: MessageEnded) -> AgentResult:
    """The result of one message of an open session; `summary` is of what was told since it went to the agent."""
    completed = ended.outcome == "completed"
    cost = read_cost(ended, model_from=task.model_from)
    return AgentResult(
        run_id=folder.run_id,
        agent=task.agent,
        outcome=ended.outcome,
        reason=ended.reason,
        message=restore_large_texts(summary.answer, folder=folder.path),
        answer=_load_answer(folder, task, summary) if completed else None,
        tokens_used=ended.usage or Usage(),
        cost_cents=_to_cents(cost),
        cost=cost,
        rate_limit_hit=RateLimit(reason=ended.message, resets_at=ended.resets_at)
        if summary.rate_limit or ended.reason == "rate_limit"
        else None,
        session_id=summary.session_id,
        files_changed=tuple(summary.files_changed),
        denied=tuple(summary.denials),
        error=ended.message,
        next_step=ended.next,
        model_calls=ended.model_calls,
        duration_s=ended.duration_s,
        folder=folder.path,
        attempts=(folder.run_id,),
    )


def merge_results(earlier: AgentResult, later: AgentResult) -> AgentResult:
    """The later of two attempts at one answer, with what both have used, changed and met."""
    cost = sum_costs((earlier.cost, later.cost))
    return msgspec.structs.replace(
        later,
        tokens_used=earlier.tokens_used + later.tokens_used,
        cost_cents=_to_cents(cost),
        cost=cost,
        rate_limit_hit=later.rate_limit_hit or earlier.rate_limit_hit,
        files_changed=tuple(dict.fromkeys((*earlier.files_changed, *later.files_changed))),
        denied=(*earlier.denied, *later.denied),
        model_calls=earlier.model_calls + later.model_calls,
        duration_s=round(earlier.duration_s + later.duration_s, 3),
        attempts=(*earlier.attempts, *later.attempts),
    )


def _to_cents(cost: Cost) -> float | None:
    return None if cost.usd is None else round(cost.usd * 100, 7)


def _load_answer(folder: RunFolder, task: Task, summary: Summary) -> Any:
    if task.output_schema is None:
        return None
    # Start-up time: only answers with a schema are checked.
    from inspan.running.answers import SchemaMismatch, parse_answer

    try:
        return parse_answer(summary.answer, task.output_schema, folder=folder.path)
    except (SchemaMismatch, ValueError):
        return None  # It fitted when it was given; since then a secret in it, or in the schema, was redacted.


def _find_rate_limit(summary: Summary, ended: RunEnded) -> RateLimit | None:
    told = summary.rate_limit
    if told is None and ended.reason != "rate_limit":
        return None
    return RateLimit(reason=(told.message if told else "") or ended.message, resets_at=ended.resets_at)
