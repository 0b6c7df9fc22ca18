"""What a run came to: tokens, cost, files, session, last words. The same fold serves a live run and an old log."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from inspan.protocol.cost import Cost, build_cost, is_counted, is_paid_for
from inspan.protocol.events import (
    AnswerGiven,
    AttemptEnded,
    ErrorReported,
    Event,
    FileChanged,
    MessageSent,
    ModelCallEnded,
    PermissionAnswered,
    RateLimited,
    RunEnded,
    RunStarted,
    TextSaid,
    ThreadStarted,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
    UsageDiffers,
)
from inspan.protocol.ids import make_short_name
from inspan.protocol.outcome import Reason
from inspan.protocol.reasons import REASONS
from inspan.protocol.spending import NANO_PER_USD
from inspan.protocol.usage import Usage

from .usage import CallKind, CallSums, sum_calls, sums_from_call

# Who has answered a question that nobody answered in time.
NOBODY = "timeout"


class DeniedCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call that was not allowed to run, and what the agent was told instead."""

    id: str
    name: str = ""
    input: Any = None
    message: str = ""


class Summary:
    """Feed it every event in order; read it at any time. `model_from` is for who lacks the run's first event."""

    def __init__(self, *, model_from: str = "") -> None:
        self.model_from = model_from
        self.started: RunStarted | None = None
        self.ended: RunEnded | None = None
        self.usage: Usage | None = None
        self.cost_usd: float | None = None
        self.session_id = ""
        self.opened = False
        self.model = ""
        self.agent_version = ""
        self.prompt = ""
        self.text = ""
        self.given_answer = ""
        self.failure: TurnFailed | None = None
        self.turn_done = False
        self.interrupted = False
        self.unanswered = ""
        self.rate_limit: RateLimited | None = None
        self.calls = 0
        self.gateway_usage: Usage | None = None
        self.measured: dict[CallKind, CallSums] = {}
        self.difference: UsageDiffers | None = None
        self.denials: list[DeniedCall] = []
        self.open_calls: dict[str, ToolStarted] = {}
        self.files: dict[str, None] = {}
        self.files_unknown = False

    @property
    def answer(self) -> str:
        """The run's answer: what was given as one, else the last thing the agent said."""
        return self.given_answer or self.text

    @property
    def denied(self) -> list[str]:
        """The names of the tools that were denied, one for each call."""
        return [call.name or call.id for call in self.denials]

    @property
    def files_changed(self) -> list[str]:
        return list(self.files)

    @property
    def spent(self) -> Usage | None:
        """The run's tokens: as the gateway counted them, since agents leave out calls that broke off; else as told.

        As told only where the gateway saw no call that it could not count: then nobody knows.
        """
        is_known = not sum_calls(self.measured).without_usage
        return self.gateway_usage or (self.usage if is_known else None)

    @property
    def is_paid(self) -> bool:
        """Whether somebody is paid for this run's model: not where a script or a cassette answers."""
        return is_paid_for(self.model_from)

    @property
    def cost(self) -> Cost:
        """The run's cost so far: that of the calls which the gateway counted; the agent's word only where it saw none.

        An agent prices a model that nobody lists as it likes, so its word does not stand in for an unknown price.
        """
        measured = sum_calls(self.measured)
        if measured.calls or not (self.is_paid or (self.usage and self.usage.total)):
            return measured.to_cost(paid=self.is_paid)
        told = None if self.cost_usd is None else round(self.cost_usd * NANO_PER_USD)
        if told is None and self._made_no_call:
            return build_cost(0)
        return build_cost(told, unknown_runs=int(told is None))

    @property
    def _made_no_call(self) -> bool:
        """Whether the gateway would have seen a call: none came to it, and the agent has nothing from elsewhere."""
        return is_counted(self.model_from) and self.usage is None and not self.answer

    def build_end(
        self,
        reason: Reason,
        message: str,
        *,
        next_step: str = "",
        duration_s: float = 0.0,
        exit_code: int | None = None,
        signal: int | None = None,
    ) -> RunEnded:
        """The last event of a run that ends now, for this reason, with all that is known of it."""
        row, cost = REASONS[reason], self.cost
        return RunEnded(
            outcome=row.outcome,
            reason=reason,
            message=message,
            next=(next_step or row.next_step).replace("RUN", self._choose_name()),
            exit_code=exit_code,
            signal=signal,
            duration_s=round(duration_s, 3),
            session_id=self.session_id,
            usage=self.spent,
            cost_usd=cost.usd,
            model_calls=self.calls,
            files_changed=self.files_changed,
            files_unknown=self.files_unknown,
            resets_at=self.rate_limit.resets_at if self.rate_limit else None,
            denied=self.denied,
            told=self.usage if self.gateway_usage else None,
            calls_without_cost=cost.unknown_calls,
            cost_kind=cost.kind,
            not_paid_usd=cost.not_paid_usd,
        )

    def drop_files(self, paths: Iterable[str]) -> None:
        """Of these something was told, and yet they are as they were before the run."""
        for path in paths:
            self.files.pop(path, None)

    def _choose_name(self) -> str:
        """What a person types for the run: its own name, else the short one."""
        if self.started is None:
            return "RUN"
        return self.started.name or make_short_name(self.started.run_id)

    def add(self, event: Event) -> None:
        handler = _HANDLERS.get(type(event))
        if handler:
            handler(self, event)


def summarize(events: Iterable[Event]) -> Summary:
    """The fold over a whole log."""
    summary = Summary()
    for event in events:
        summary.add(event)
    return summary


def _on_run_started(summary: Summary, event: RunStarted) -> None:
    summary.started = event
    summary.model_from = event.model_from
    summary.session_id = event.session_id


def _on_run_ended(summary: Summary, event: RunEnded) -> None:
    summary.ended = event
    summary.files = dict.fromkeys(event.files_changed)


def _on_thread_started(summary: Summary, event: ThreadStarted) -> None:
    summary.session_id = event.session_id or summary.session_id
    summary.opened = True
    summary.model = event.model
    summary.agent_version = event.agent_version


def _on_turn_started(summary: Summary, event: TurnStarted) -> None:
    summary.failure = None
    summary.turn_done = False
    summary.interrupted = False


def _on_turn_completed(summary: Summary, event: TurnCompleted) -> None:
    summary.turn_done = True
    _add_usage(summary, event)


def _on_turn_failed(summary: Summary, event: TurnFailed) -> None:
    summary.failure = event
    _add_usage(summary, event)


def _add_usage(summary: Summary, event: TurnCompleted | TurnFailed | TurnInterrupted) -> None:
    if event.usage:
        summary.usage = (summary.usage or Usage()) + event.usage
    if event.cost_usd is not None:
        summary.cost_usd = (summary.cost_usd or 0.0) + event.cost_usd


def _on_turn_interrupted(summary: Summary, event: TurnInterrupted) -> None:
    summary.interrupted = True
    _add_usage(summary, event)


def _on_text_said(summary: Summary, event: TextSaid) -> None:
    if not event.parent:
        summary.text = event.text


def _on_answer_given(summary: Summary, event: AnswerGiven) -> None:
    summary.given_answer = event.text


def _on_tool_started(summary: Summary, event: ToolStarted) -> None:
    summary.open_calls[event.id] = event


def _on_message_sent(summary: Summary, event: MessageSent) -> None:
    summary.prompt = summary.prompt or event.text


def _on_permission_answered(summary: Summary, event: PermissionAnswered) -> None:
    if event.by == NOBODY:
        summary.unanswered = event.reason


def _on_tool_completed(summary: Summary, event: ToolCompleted) -> None:
    summary.unanswered = ""  # It went on without what nobody allowed.
    summary.open_calls.pop(event.id, None)


def _on_tool_failed(summary: Summary, event: ToolFailed) -> None:
    started = summary.open_calls.pop(event.id, None)
    if event.denied:
        given = started.input if started else None
        summary.denials.append(DeniedCall(id=event.id, name=event.name, input=given, message=event.output))


def _on_error_reported(summary: Summary, event: ErrorReported) -> None:
    summary.files_unknown = summary.files_unknown or event.about == "files"


def _on_attempt_ended(summary: Summary, event: AttemptEnded) -> None:
    summary.files.update(dict.fromkeys(event.files_changed))
    summary.files_unknown = summary.files_unknown or event.files_unknown


def _on_file_changed(summary: Summary, event: FileChanged) -> None:
    summary.files[event.path] = None


def _on_rate_limited(summary: Summary, event: RateLimited) -> None:
    summary.rate_limit = event


def _on_model_call_ended(summary: Summary, event: ModelCallEnded) -> None:
    summary.calls += 1
    summary.model = summary.model or event.model
    if event.usage:
        summary.gateway_usage = (summary.gateway_usage or Usage()) + event.usage
    kind = CallKind(event.model, event.role)
    summary.measured[kind] = summary.measured.get(kind, CallSums()) | sums_from_call(event)


def _on_usage_differs(summary: Summary, event: UsageDiffers) -> None:
    summary.difference = event


_HANDLERS: dict[type, Callable[[Summary, Any], None]] = {
    RunStarted: _on_run_started,
    RunEnded: _on_run_ended,
    ThreadStarted: _on_thread_started,
    TurnStarted: _on_turn_started,
    TurnCompleted: _on_turn_completed,
    TurnFailed: _on_turn_failed,
    TurnInterrupted: _on_turn_interrupted,
    MessageSent: _on_message_sent,
    PermissionAnswered: _on_permission_answered,
    TextSaid: _on_text_said,
    AnswerGiven: _on_answer_given,
    ToolStarted: _on_tool_started,
    ToolCompleted: _on_tool_completed,
    ToolFailed: _on_tool_failed,
    FileChanged: _on_file_changed,
    AttemptEnded: _on_attempt_ended,
    ErrorReported: _on_error_reported,
    RateLimited: _on_rate_limited,
    ModelCallEnded: _on_model_call_ended,
    UsageDiffers: _on_usage_differs,
}
