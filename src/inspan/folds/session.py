"""What an open session is doing, out of its events: the same for its owner, for a follower and for the page."""

from collections.abc import Callable
from typing import Any

from inspan.protocol.events import (
    Event,
    MessageEnded,
    MessageSent,
    MessageStarted,
    ModelCallEnded,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
    RateLimited,
    RunEnded,
    SessionConfigured,
    ThreadStarted,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnStarted,
    WatchdogActed,
)
from inspan.protocol.session import SessionState, SessionStatus

OpenQuestion = PermissionAsked | QuestionAsked


class SessionFold:
    """Feed it every event in order; `state` is what they come to. `questions` are those that wait, by id.

    One that does not stay open is never idle: it works on its prompt until it ends. One that was given a prompt is
    starting until that is its first message.
    """

    def __init__(self, *, stays_open: bool = True, prompted: bool = False) -> None:
        self.questions: dict[str, OpenQuestion] = {}
        self._stays_open = stays_open
        self._awaits_prompt = prompted
        self._model = ""
        self._error = ""
        self._running = ""
        self._queued: dict[str, None] = {}
        self._tools: dict[str, ToolStarted] = {}
        self._limit: RateLimited | None = None
        self._opened = False
        self._closed = False
        self._stuck = False

    @property
    def state(self) -> SessionState:
        return SessionState(
            status=self.status,
            tool=self.tool.name if self.tool else "",
            message=self._running,
            queued=tuple(self._queued),
            questions=tuple(self.questions),
            model=self._model,
            resets_at=self._limit.resets_at if self._limit else None,
            error=self._error,
        )

    @property
    def tool(self) -> ToolStarted | None:
        """The call that is at work: the last that was begun, of those that have not ended."""
        return next(reversed(self._tools.values()), None) if self._is_busy else None

    @property
    def _is_busy(self) -> bool:
        return bool(self._running or self._awaits_prompt or not self._stays_open)

    def add(self, event: Event) -> bool:
        """Takes in one event; says whether it can have changed the state."""
        handler = _HANDLERS.get(type(event))
        if handler:
            handler(self, event)
        return handler is not None

    @property
    def status(self) -> SessionStatus:
        """As the state has it."""
        if self._closed:
            return "closed"
        if self.questions:
            return "waiting"
        if self._is_busy:
            if self._stuck:
                return "stuck"
            if self._limit:
                return "rate_limited"
            return "working" if self._opened else "starting"
        return "error" if self._error else "idle"

    def on_message_sent(self, event: MessageSent) -> None:
        self._awaits_prompt = False
        if event.queued:
            self._queued[event.id] = None
        elif not event.steers:
            self._running, self._error = event.id, ""

    def on_message_started(self, event: MessageStarted) -> None:
        self._queued.pop(event.id, None)
        self._running, self._error = event.id, ""

    def on_message_ended(self, event: MessageEnded) -> None:
        self._queued.pop(event.id, None)
        if event.id != self._running:
            return
        self._running, self._limit, self._stuck = "", None, False
        self._tools.clear()
        self._error = event.message or event.reason if event.outcome not in ("completed", "cancelled") else ""

    def on_opened(self, event: ThreadStarted | TurnStarted) -> None:
        self._opened = True
        if isinstance(event, ThreadStarted):
            self._model = event.model or self._model

    def on_configured(self, event: SessionConfigured) -> None:
        self._model = event.model or self._model

    def on_tool_started(self, event: ToolStarted) -> None:
        self._tools[event.id] = event

    def on_tool_ended(self, event: ToolCompleted | ToolFailed) -> None:
        self._tools.pop(event.id, None)

    def on_asked(self, event: OpenQuestion) -> None:
        if not (isinstance(event, PermissionAsked) and event.settled):
            self.questions[event.id] = event

    def on_answered(self, event: PermissionAnswered | QuestionAnswered) -> None:
        self.questions.pop(event.id, None)

    def on_rate_limited(self, event: RateLimited) -> None:
        self._limit = event

    def on_call_ended(self, event: ModelCallEnded) -> None:
        if event.status == 200:
            self._limit = None

    def on_watchdog_acted(self, event: WatchdogActed) -> None:
        self._stuck = event.step not in ("heard", "wait")

    def on_run_ended(self, event: RunEnded) -> None:
        self._closed = True
        self.questions.clear()


_HANDLERS: dict[type, Callable[[SessionFold, Any], None]] = {
    MessageSent: SessionFold.on_message_sent,
    MessageStarted: SessionFold.on_message_started,
    MessageEnded: SessionFold.on_message_ended,
    ThreadStarted: SessionFold.on_opened,
    TurnStarted: SessionFold.on_opened,
    SessionConfigured: SessionFold.on_configured,
    ToolStarted: SessionFold.on_tool_started,
    ToolCompleted: SessionFold.on_tool_ended,
    ToolFailed: SessionFold.on_tool_ended,
    PermissionAsked: SessionFold.on_asked,
    QuestionAsked: SessionFold.on_asked,
    PermissionAnswered: SessionFold.on_answered,
    QuestionAnswered: SessionFold.on_answered,
    RateLimited: SessionFold.on_rate_limited,
    ModelCallEnded: SessionFold.on_call_ended,
    WatchdogActed: SessionFold.on_watchdog_acted,
    RunEnded: SessionFold.on_run_ended,
}
