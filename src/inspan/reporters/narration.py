"""Events of an agent's run as text for a reader. Pure: what is told is whole, and nobody has redacted or cut it yet."""

import time
from collections.abc import Callable
from typing import Any, Literal, cast

from inspan.protocol.events import (
    AnswerGiven,
    CitationsGiven,
    EndingBegan,
    ErrorReported,
    Event,
    FileChanged,
    McpServerFailed,
    ModelCallEnded,
    PermissionAsked,
    PlanChanged,
    RateLimited,
    ReasoningSaid,
    RunEnded,
    RunStarted,
    TextDelta,
    TextSaid,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Unrecognized,
    UsageDiffers,
)

Kind = Literal[
    "start",
    "text",
    "piece",
    "piece_end",
    "reasoning",
    "tool",
    "output",
    "failure",
    "change",
    "plan",
    "question",
    "warning",
    "note",
    "ending",
    "plain",
]
"""What a chunk is. A `piece` is part of a text that goes on until `piece_end`; `plain` is what nobody has told of."""

_INPUT_KEYS = ("command", "cmd", "file_path", "path", "pattern", "query", "url", "prompt")
_STEP_MARKS = {"done": "x", "active": ">", "pending": " "}
# After one of these, a text is a new one, whatever was streaming before.
_BORDERS = (TurnStarted, TurnCompleted, TurnFailed, RunEnded)


class Passage(str):
    """A chunk of narrated text that also says what it is; a reporter that does not care has a string."""

    __slots__ = ("kind",)
    kind: Kind

    def __new__(cls, text: str, kind: Kind) -> "Passage":
        passage = super().__new__(cls, text)
        passage.kind = kind
        return passage

    def saying(self, text: str) -> "Passage":
        """A passage of the same kind with another text; itself where the text is its own."""
        return self if text is self else Passage(text, self.kind)


class Narrator:
    """Tells the events of one run, in order. A text that came in pieces is not told again as a whole."""

    def __init__(self) -> None:
        self._streaming = False

    def tell(self, event: Event) -> list[Passage]:
        """What this event has to say, which may be nothing."""
        if isinstance(event, TextDelta):
            self._streaming = True
            return [Passage(event.text, "piece")]
        teller = _TELLERS.get(type(event))
        passages = teller(event) if teller else []
        if not self._streaming or not (passages or isinstance(event, _BORDERS)):
            return passages
        self._streaming = False
        end = Passage("\n", "piece_end")
        return [end] if isinstance(event, TextSaid) and not event.parent else [end, *passages]


def _line(text: str, kind: Kind) -> list[Passage]:
    return [Passage(text + "\n", kind)]


def _run_started(event: RunStarted) -> list[Passage]:
    where = f"sandbox {event.sandbox}" if event.sandbox != "none" else f"contained by {event.containment}"
    model = f" · model from {event.model_from}" if event.model_from else ""
    head = _line(f"▶ {event.agent} {event.agent_version} · {event.run_id} · {where}{model}", "start")
    return [*head, *(passage for warning in event.warnings for passage in _line(f"! {warning}", "warning"))]


def _text(event: TextSaid | AnswerGiven) -> list[Passage]:
    return _line(event.text, "text")


def _citations_given(event: CitationsGiven) -> list[Passage]:
    named = (
        (f"[{each.number}] " if each.number else "- ") + f"{each.title} {each.url}".strip() for each in event.citations
    )
    return [passage for each in named for passage in _line(f"  {each}", "note")]


def _reasoning_said(event: ReasoningSaid) -> list[Passage]:
    return _line(event.text, "reasoning") if event.text else []


def _tool_started(event: ToolStarted) -> list[Passage]:
    return _line(f"● {event.name}  {_told(event.input)}", "tool")


def _tool_completed(event: ToolCompleted) -> list[Passage]:
    return _output(event.output)


def _tool_failed(event: ToolFailed) -> list[Passage]:
    return [*_line("  denied" if event.denied else "  failed", "failure"), *_output(event.output)]


def _output(text: str) -> list[Passage]:
    return _line(text.rstrip("\n"), "output") if text.strip() else []


def _file_changed(event: FileChanged) -> list[Passage]:
    return _line(f"  {event.change} {event.path}", "change")


def _plan_changed(event: PlanChanged) -> list[Passage]:
    return [passage for step in event.steps for passage in _line(f"  [{_STEP_MARKS[step.state]}] {step.text}", "plan")]


def _permission_asked(event: PermissionAsked) -> list[Passage]:
    return _line(f"? permission for {event.tool}  {_told(event.input)}", "question")


def _mcp_server_failed(event: McpServerFailed) -> list[Passage]:
    why = f": {event.message}" if event.message else ""
    return _line(f"! the tool server {event.name} cannot be used{why}", "warning")


def _rate_limited(event: RateLimited) -> list[Passage]:
    words = f"rate limited{' with another run' if event.held else ''}: {event.message}"
    if event.resets_at:
        words = f"{words.rstrip('.')}, until {_clock(event.resets_at)}"
    return _line(f"! {words}", "warning")


def _clock(moment: float) -> str:
    """A moment as a person reads it; what a provider says may be no moment at all."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(moment))
    except (ValueError, OverflowError, OSError):
        return "nobody knows when"


def _usage_differs(event: UsageDiffers) -> list[Passage]:
    words = f"the agent counted {event.told.total} tokens, the gateway {event.measured.total}"
    return _line(f"! {words}: {event.percent:g}% apart", "warning")


def _error_reported(event: ErrorReported) -> list[Passage]:
    return _line(f"! {event.message}", "warning")


def _turn_failed(event: TurnFailed) -> list[Passage]:
    return _line(f"! turn failed ({event.failure}): {event.message}", "failure")


def _model_call_ended(event: ModelCallEnded) -> list[Passage]:
    if not event.problem and (event.status or 0) < 400:
        return []
    return _line(f"! model call {event.call}: {event.status or '-'} {event.problem or event.message}", "warning")


def _unrecognized(event: Unrecognized) -> list[Passage]:
    return _line(f"  ({event.note})", "note")


def _ending_began(event: EndingBegan) -> list[Passage]:
    return _line(f"■ ending: {event.message or event.reason}", "ending")


def _told(value: Any) -> str:
    """The telling part of a tool's input."""
    if isinstance(value, dict):
        known = cast(dict[str, Any], value)
        value = next((known[key] for key in _INPUT_KEYS if key in known), known)
    return value if isinstance(value, str) else _written(value)


def _written(value: Any) -> str:
    """Like `str`, but with texts as they are: an escape in the middle of a secret would hide it from redaction."""
    if isinstance(value, dict):
        pairs = cast(dict[str, Any], value).items()
        return "{" + ", ".join(f"{_written(key)}: {_written(item)}" for key, item in pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, cast(list[Any], value))) + "]"
    return f"'{value}'" if isinstance(value, str) else str(value)


_TELLERS: dict[type, Callable[[Any], list[Passage]]] = {
    RunStarted: _run_started,
    TextSaid: _text,
    AnswerGiven: _text,
    CitationsGiven: _citations_given,
    ReasoningSaid: _reasoning_said,
    ToolStarted: _tool_started,
    ToolCompleted: _tool_completed,
    ToolFailed: _tool_failed,
    FileChanged: _file_changed,
    PlanChanged: _plan_changed,
    PermissionAsked: _permission_asked,
    McpServerFailed: _mcp_server_failed,
    RateLimited: _rate_limited,
    UsageDiffers: _usage_differs,
    ErrorReported: _error_reported,
    TurnFailed: _turn_failed,
    ModelCallEnded: _model_call_ended,
    Unrecognized: _unrecognized,
    EndingBegan: _ending_began,
}
