"""What a run came to: tokens, cost, files, session, last words. The same fold serves a live run and an old log."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from inspan.protocol.events import (
    AnswerGiven,
    Event,
    FileChanged,
    ModelCallEnded,
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
    TurnStarted,
    UsageDiffers,
)
from inspan.protocol.usage import Usage

from .usage import CallSums, Kind, all_calls, one_call


class DeniedCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call that was not allowed to run, and what the agent was told instead."""

    id: str
    name: str = ""
    input: Any = None
    message: str = ""


class Summary:
    """Feed it every event in order; read it at any time."""

    def __init__(self) -> None:
        self.started: RunStarted | None = None
        self.ended: RunEnded | None = None
        self.usage: Usage | None = None
        self.cost_usd: float | None = None
        self.session_id = ""
        self.model = ""
        self.agent_version = ""
        self.text = ""
        self.given = ""
        self.failure: TurnFailed | None = None
        self.turn_done = False
        self.rate_limit: RateLimited | None = None
        self.calls = 0
        self.gateway_usage: Usage | None = None
        self.measured: dict[Kind, CallSums] = {}
        self.difference: UsageDiffers | None = None
        self.denials: list[DeniedCall] = []
        self.calling: dict[str, ToolStarted] = {}
        self.files: dict[str, None] = {}

    @property
    def answer(self) -> str:
        """The run's answer: what was given as one, else the last thing the agent said."""
        return self.given or self.text

    @property
    def denied(self) -> list[str]:
        """The names of the tools that were denied, one for each call."""
        return [call.name or call.id for call in self.denials]

    @property
    def files_changed(self) -> list[str]:
        return list(self.files)

    @property
    def spent(self) -> Usage | None:
        """The run's tokens: as the gateway counted them, since agents leave out calls that broke off; else as told."""
        return self.gateway_usage or self.usage

    @property
    def spent_usd(self) -> float | None:
        """The run's cost: as the gateway priced it, where it could price every call; else as told."""
        measured = all_calls(self.measured)
        if measured.calls and not measured.without_cost:
            return measured.cost_usd
        return self.cost_usd

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


def _run_started(summary: Summary, event: RunStarted) -> None:
    summary.started = event
    summary.session_id = event.session_id


def _run_ended(summary: Summary, event: RunEnded) -> None:
    summary.ended = event


def _thread_started(summary: Summary, event: ThreadStarted) -> None:
    summary.session_id = event.session_id or summary.session_id
    summary.model = event.model
    summary.agent_version = event.agent_version


def _turn_started(summary: Summary, event: TurnStarted) -> None:
    summary.failure = None
    summary.turn_done = False


def _turn_completed(summary: Summary, event: TurnCompleted) -> None:
    summary.turn_done = True
    _count(summary, event)


def _turn_failed(summary: Summary, event: TurnFailed) -> None:
    summary.failure = event
    _count(summary, event)


def _count(summary: Summary, event: TurnCompleted | TurnFailed) -> None:
    if event.usage:
        summary.usage = (summary.usage or Usage()) + event.usage
    if event.cost_usd is not None:
        summary.cost_usd = (summary.cost_usd or 0.0) + event.cost_usd


def _text_said(summary: Summary, event: TextSaid) -> None:
    if not event.parent:
        summary.text = event.text


def _answer_given(summary: Summary, event: AnswerGiven) -> None:
    summary.given = event.text


def _tool_started(summary: Summary, event: ToolStarted) -> None:
    summary.calling[event.id] = event


def _tool_completed(summary: Summary, event: ToolCompleted) -> None:
    summary.calling.pop(event.id, None)


def _tool_failed(summary: Summary, event: ToolFailed) -> None:
    started = summary.calling.pop(event.id, None)
    if event.denied:
        given = started.input if started else None
        summary.denials.append(DeniedCall(id=event.id, name=event.name, input=given, message=event.output))


def _file_changed(summary: Summary, event: FileChanged) -> None:
    summary.files[event.path] = None


def _rate_limited(summary: Summary, event: RateLimited) -> None:
    summary.rate_limit = event


def _model_call_ended(summary: Summary, event: ModelCallEnded) -> None:
    summary.calls += 1
    summary.model = summary.model or event.model
    if event.usage:
        summary.gateway_usage = (summary.gateway_usage or Usage()) + event.usage
    kind = Kind(event.model, event.role)
    summary.measured[kind] = summary.measured.get(kind, CallSums()) | one_call(event)


def _usage_differs(summary: Summary, event: UsageDiffers) -> None:
    summary.difference = event


_HANDLERS: dict[type, Callable[[Summary, Any], None]] = {
    RunStarted: _run_started,
    RunEnded: _run_ended,
    ThreadStarted: _thread_started,
    TurnStarted: _turn_started,
    TurnCompleted: _turn_completed,
    TurnFailed: _turn_failed,
    TextSaid: _text_said,
    AnswerGiven: _answer_given,
    ToolStarted: _tool_started,
    ToolCompleted: _tool_completed,
    ToolFailed: _tool_failed,
    FileChanged: _file_changed,
    RateLimited: _rate_limited,
    ModelCallEnded: _model_call_ended,
    UsageDiffers: _usage_differs,
}
