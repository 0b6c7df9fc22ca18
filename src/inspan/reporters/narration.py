"""Events of an agent's run as text for a reader. Pure: what is told is whole, and nobody has redacted or cut it yet."""

import os
import time
from collections.abc import Callable
from typing import Any, Literal, cast

from inspan.protocol.events import (
    AnswerGiven,
    ChannelChanged,
    CitationsGiven,
    EndingBegan,
    ErrorReported,
    Event,
    FileChanged,
    HookAnswered,
    McpServerFailed,
    MessageEnded,
    MessageSent,
    ModelCallEnded,
    PermissionAnswered,
    PermissionAsked,
    PlanChanged,
    QuestionAnswered,
    QuestionAsked,
    RateLimited,
    ReasoningSaid,
    RunEnded,
    RunStarted,
    SessionConfigured,
    TextDelta,
    TextSaid,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
    Unrecognized,
    UsageDiffers,
    WatchdogActed,
    WorktreeLeft,
)
from inspan.protocol.http_status import is_error_status
from inspan.protocol.ids import make_short_name
from inspan.protocol.session import FIRST_MESSAGE

from .header import describe_start
from .text import one_line
from .work_lines import WORK_LINES, WorkLine, describe_work

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
_DEPTH_SHOWN = 20
# After one of these, a text is a new one, whatever was streaming before.
_BOUNDARIES = (TurnStarted, TurnCompleted, TurnFailed, TurnInterrupted, RunEnded)


class TextChunk(str):
    """A chunk of narrated text that also says what it is; a reporter that does not care has a string."""

    __slots__ = ("kind",)
    kind: Kind

    def __new__(cls, text: str, kind: Kind) -> "TextChunk":
        chunk = super().__new__(cls, text)
        chunk.kind = kind
        return chunk

    def with_text(self, text: str) -> "TextChunk":
        """A chunk of the same kind with another text; itself where the text is its own."""
        return self if text is self else TextChunk(text, self.kind)


class Narrator:
    """Tells the events of one run, in order. A text that came in pieces is not told again as a whole."""

    def __init__(self) -> None:
        self._streaming = False

    def narrate(self, event: Event) -> list[TextChunk]:
        """What this event has to say, which may be nothing."""
        if isinstance(event, TextDelta):
            self._streaming = True
            return [TextChunk(event.text, "piece")]
        teller = _HANDLERS.get(type(event))
        chunks = teller(event) if teller else []
        if not self._streaming or not (chunks or isinstance(event, _BOUNDARIES)):
            return chunks
        self._streaming = False
        end = TextChunk("\n", "piece_end")
        return [end] if isinstance(event, TextSaid) and not event.parent else [end, *chunks]


def _make_line(text: str, kind: Kind) -> list[TextChunk]:
    return [TextChunk(text + "\n", kind)]


def _on_run_started(event: RunStarted) -> list[TextChunk]:
    head = _make_line("\n".join(describe_work(event) if event.work else describe_start(event)), "start")
    return [*head, *(chunk for warning in event.warnings for chunk in _make_line(f"! {warning}", "warning"))]


def _on_text(event: TextSaid | AnswerGiven) -> list[TextChunk]:
    return _make_line(event.text, "text")


def _on_citations_given(event: CitationsGiven) -> list[TextChunk]:
    named = (
        (f"[{each.number}] " if each.number else "- ") + f"{each.title} {each.url}".strip() for each in event.citations
    )
    return [chunk for each in named for chunk in _make_line(f"  {each}", "note")]


def _on_reasoning_said(event: ReasoningSaid) -> list[TextChunk]:
    return _make_line(event.text, "reasoning") if event.text else []


def _on_tool_started(event: ToolStarted) -> list[TextChunk]:
    return _make_line(f"● {event.name}  {_summarize_input(event.input)}", "tool")


def _on_tool_completed(event: ToolCompleted) -> list[TextChunk]:
    return _format_output(event.output)


def _on_tool_failed(event: ToolFailed) -> list[TextChunk]:
    return [*_make_line("  denied" if event.denied else "  failed", "failure"), *_format_output(event.output)]


def _format_output(text: str) -> list[TextChunk]:
    return _make_line(text.rstrip("\n"), "output") if text.strip() else []


def _on_file_changed(event: FileChanged) -> list[TextChunk]:
    return _make_line(f"  {event.change} {one_line(event.path)}", "change")


def _on_plan_changed(event: PlanChanged) -> list[TextChunk]:
    return [chunk for step in event.steps for chunk in _make_line(f"  [{_STEP_MARKS[step.state]}] {step.text}", "plan")]


def _on_permission_asked(event: PermissionAsked) -> list[TextChunk]:
    return _make_line(f"? permission for {event.tool}  {_summarize_input(event.input)}", "question")


def _on_permission_answered(event: PermissionAnswered) -> list[TextChunk]:
    if event.by == "policy" and event.allowed:
        return []
    words = f"  {'allowed' if event.allowed else 'denied'} by {event.by or 'somebody'}"
    return _make_line(f"{words}: {event.reason}" if event.reason else words, "note" if event.allowed else "failure")


def _on_hook_answered(event: HookAnswered) -> list[TextChunk]:
    if not event.allowed:
        return _make_line(f"  denied by {event.hook}: {event.reason or 'no reason given'}", "failure")
    return _make_line(f"  {event.hook}: {event.text}", "note") if event.text else []


def _on_question_asked(event: QuestionAsked) -> list[TextChunk]:
    lines = (f"? {each.text}{_format_choices(each.options)}" for each in event.questions)
    return [chunk for line in lines for chunk in _make_line(line, "question")]


def _format_choices(options: list[str]) -> str:
    return f" ({' / '.join(options)})" if options else ""


def _on_question_answered(event: QuestionAnswered) -> list[TextChunk]:
    if not event.answers:
        return _make_line(f"  no answer: {event.reason}", "failure")
    return [chunk for answer in event.answers.values() for chunk in _make_line(f"  {answer}", "note")]


def _on_message_sent(event: MessageSent) -> list[TextChunk]:
    mark = "» " if event.steers else "… " if event.queued else ""
    return [] if event.id == FIRST_MESSAGE else _make_line(f"› {mark}{event.text}", "question")


def _on_message_ended(event: MessageEnded) -> list[TextChunk]:
    if event.outcome == "completed" or event.id == FIRST_MESSAGE:
        return []
    words = f"! {event.outcome} ({event.reason})"
    return _make_line(f"{words}: {event.message}" if event.message else words, "warning")


def _on_session_configured(event: SessionConfigured) -> list[TextChunk]:
    named = {"model": event.model, "effort": event.effort, "mode": event.mode}
    return _make_line("  " + ", ".join(f"{name} {value}" for name, value in named.items() if value), "note")


def _on_channel_changed(event: ChannelChanged) -> list[TextChunk]:
    return _make_line(f"! channel {event.before} cannot be used, {event.after} is: {event.reason}", "warning")


def _on_mcp_server_failed(event: McpServerFailed) -> list[TextChunk]:
    why = f": {event.message}" if event.message else ""
    return _make_line(f"! the tool server {event.name} cannot be used{why}", "warning")


def _on_rate_limited(event: RateLimited) -> list[TextChunk]:
    words = f"rate limited{' with another run' if event.held else ''}: {event.message}"
    if event.resets_at:
        words = f"{words.rstrip('.')}, until {_format_time(event.resets_at)}"
    return _make_line(f"! {words}", "warning")


def _format_time(moment: float) -> str:
    """A moment as a person reads it; what a provider says may be no moment at all."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(moment))
    except (ValueError, OverflowError, OSError):
        return "an unknown time"


def _on_usage_differs(event: UsageDiffers) -> list[TextChunk]:
    words = f"the agent counted {event.told.total} tokens, the gateway {event.measured.total}"
    return _make_line(f"! {words}: {event.percent:g}% apart", "warning")


def _on_worktree_left(event: WorktreeLeft) -> list[TextChunk]:
    name = make_short_name(os.path.basename(event.path))
    if event.problem:
        return _make_line(f"! {event.problem}", "warning")
    if not event.kept:
        return _make_line("  worktree removed: nothing was changed in it", "note")
    numbers = (
        (event.files, "uncommitted file", "uncommitted files"),
        (event.commits, "commit", "commits"),
        (event.unreachable, "commit on no branch", "commits on no branch"),
        (event.ignored, "ignored", "ignored"),
    )
    counts = [f"{count} {one if count == 1 else many}" for count, one, many in numbers if count]
    counts += [f"{event.operation} not finished"] if event.operation else []
    where = f" on branch {event.branch}" if event.branch else ""
    merge = f", `git merge {event.branch}` its commits" if event.branch and event.commits else ""
    return [
        *_make_line(f"  worktree kept{where}: {', '.join(counts) or 'nothing changed'}, in {event.path}", "note"),
        *_make_line(
            f"  → `inspan apply {name}` brings its changes here{merge}; `inspan worktrees rm {name}` removes it", "note"
        ),
    ]


_STEP_WORDS = {"wait": "waits on", "nudge": "told it so", "interrupt": "turn interrupted", "kill": "ends the run"}


def _on_watchdog_acted(event: WatchdogActed) -> list[TextChunk]:
    if event.step == "heard":
        return _make_line("  watchdog: it goes on", "note")
    asked = _make_line(f"  watchdog: triage: {event.advice}", "note") if event.advice else []
    if event.skipped:
        return [*asked, *_make_line(f"  watchdog: no {event.step}: {event.skipped}", "note")]
    return [*asked, *_make_line(f"! watchdog: {event.message}: {_STEP_WORDS[event.step]}", "warning")]


def _on_error_reported(event: ErrorReported) -> list[TextChunk]:
    return _make_line(f"! {event.message}", "warning")


def _on_turn_failed(event: TurnFailed) -> list[TextChunk]:
    return _make_line(f"! turn failed ({event.failure}): {event.message}", "failure")


def _on_model_call_ended(event: ModelCallEnded) -> list[TextChunk]:
    if not event.problem and not is_error_status(event.status):
        return []
    return _make_line(f"! model call {event.call}: {event.status or '-'} {_explain_call(event)}", "warning")


def _explain_call(event: ModelCallEnded) -> str:
    # A problem with a colon in it has said why.
    return event.problem if ":" in event.problem else ": ".join(filter(None, (event.problem, event.message)))


def describe_failed_call(event: ModelCallEnded) -> str:
    """What became of a call that failed: what the provider answered, or why there is no answer."""
    _, colon, why = event.problem.partition(": ")
    return why if colon else " ".join(filter(None, (str(event.status or ""), _explain_call(event))))


def _on_unrecognized(event: Unrecognized) -> list[TextChunk]:
    return _make_line(f"  ({event.note})", "note")


def _on_ending_began(event: EndingBegan) -> list[TextChunk]:
    return _make_line(f"■ ending: {event.message or event.reason}", "ending")


def _summarize_input(value: Any) -> str:
    """The telling part of a tool's input."""
    if isinstance(value, dict):
        known = cast(dict[str, Any], value)
        value = next((known[key] for key in _INPUT_KEYS if key in known), known)
    return value if isinstance(value, str) else _format_value(value)


def _format_value(value: Any, *, depth: int = 0) -> str:
    """Like `str`, but with texts as they are: an escape in the middle of a secret would hide it from redaction.

    Down to a depth that a person can follow; an agent may send values that are nested more deeply than Python calls.
    """
    if depth > _DEPTH_SHOWN and isinstance(value, dict | list):
        return "…"
    if isinstance(value, dict):
        pairs = cast(dict[str, Any], value).items()
        return "{" + ", ".join(f"'{key}': {_format_value(item, depth=depth + 1)}" for key, item in pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_format_value(item, depth=depth + 1) for item in cast(list[Any], value)) + "]"
    return f"'{value}'" if isinstance(value, str) else str(value)


def _tell_lines(describe: Callable[[Any], list[WorkLine]]) -> Callable[[Any], list[TextChunk]]:
    return lambda event: [chunk for text, kind in describe(event) for chunk in _make_line(text, kind)]


_HANDLERS: dict[type, Callable[[Any], list[TextChunk]]] = {
    RunStarted: _on_run_started,
    TextSaid: _on_text,
    AnswerGiven: _on_text,
    CitationsGiven: _on_citations_given,
    ReasoningSaid: _on_reasoning_said,
    ToolStarted: _on_tool_started,
    ToolCompleted: _on_tool_completed,
    ToolFailed: _on_tool_failed,
    FileChanged: _on_file_changed,
    PlanChanged: _on_plan_changed,
    PermissionAsked: _on_permission_asked,
    PermissionAnswered: _on_permission_answered,
    HookAnswered: _on_hook_answered,
    QuestionAsked: _on_question_asked,
    QuestionAnswered: _on_question_answered,
    MessageSent: _on_message_sent,
    MessageEnded: _on_message_ended,
    SessionConfigured: _on_session_configured,
    McpServerFailed: _on_mcp_server_failed,
    RateLimited: _on_rate_limited,
    UsageDiffers: _on_usage_differs,
    WorktreeLeft: _on_worktree_left,
    WatchdogActed: _on_watchdog_acted,
    ErrorReported: _on_error_reported,
    ChannelChanged: _on_channel_changed,
    TurnFailed: _on_turn_failed,
    ModelCallEnded: _on_model_call_ended,
    Unrecognized: _on_unrecognized,
    EndingBegan: _on_ending_began,
    **{kind: _tell_lines(describe) for kind, describe in WORK_LINES.items()},
}
