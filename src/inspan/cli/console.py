"""Events for a reader at a terminal: one idea per line, long outputs cut, a summary at the end.

What it prints comes from the log and is redacted already; cutting comes after that.
"""

import sys
from collections.abc import Callable
from typing import Any, TextIO, cast

from inspan.folds.summary import Summary
from inspan.protocol.events import (
    EndingBegan,
    ErrorReported,
    Event,
    FileChanged,
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
    TurnFailed,
    Unrecognized,
)
from inspan.protocol.usage import Usage

from .output import duration, styled, wants_colour

MAX_OUTPUT_BYTES = 50 * 1024
_INPUT_KEYS = ("command", "cmd", "file_path", "path", "pattern", "query", "url", "prompt")
# What an agent prints must not move the reader's cursor, or worse: control characters are shown, not obeyed.
_VISIBLE = {
    **{code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"},
    **dict.fromkeys(range(127, 160), "\N{REPLACEMENT CHARACTER}"),
}
_BAD = ("failed", "timed_out", "lost", "denied", "limited", "cancelled")


class Console:
    """Writes events to a stream as they come. `lines` limits what is shown of a tool's output, `None` shows all."""

    def __init__(self, stream: TextIO | None = None, *, lines: int | None = 12) -> None:
        self._stream = stream or sys.stderr
        self._colour = wants_colour(self._stream)
        self._lines = lines
        self._summary = Summary()
        self._streaming = ""
        self._streamed_bytes = 0

    def show(self, event: Event) -> None:
        """Prints what this event has to say, which may be nothing."""
        self._summary.add(event)
        if self._streaming and not isinstance(event, TextDelta):
            self._print(_missing(self._streamed_bytes))
            self._streamed_bytes = 0
        handler = _HANDLERS.get(type(event))
        if handler:
            handler(self, event)
        self._streaming = event.block if isinstance(event, TextDelta) else ""
        self._stream.flush()

    def run_started(self, event: RunStarted) -> None:
        where = f"sandbox {event.sandbox}" if event.sandbox != "none" else f"contained by {event.containment}"
        model = f" · model from {event.model_from}" if event.model_from else ""
        self._print(f"▶ {event.agent} {event.agent_version} · {event.run_id} · {where}{model}", "bold")

    def text_said(self, event: TextSaid) -> None:
        if not self._streaming:
            self._print(cut(event.text))

    def text_delta(self, event: TextDelta) -> None:
        data = event.text.encode(errors="replace")
        room = max(0, MAX_OUTPUT_BYTES - self._streamed_bytes)
        text = event.text if len(data) <= room else data[:room].decode(errors="ignore")
        self._stream.write(text.translate(_VISIBLE))
        self._streamed_bytes += len(data)

    def reasoning_said(self, event: ReasoningSaid) -> None:
        if event.text:
            self._print("  " + cut(event.text).replace("\n", "\n  "), "dim")

    def tool_started(self, event: ToolStarted) -> None:
        self._print(f"● {event.name}  {_brief(event.input)}", "cyan")

    def tool_completed(self, event: ToolCompleted) -> None:
        self._output(event.output, "dim")

    def tool_failed(self, event: ToolFailed) -> None:
        self._print("  denied" if event.denied else "  failed", "red")
        self._output(event.output, "dim")

    def file_changed(self, event: FileChanged) -> None:
        self._print(f"  {event.change} {event.path}", "green")

    def plan_changed(self, event: PlanChanged) -> None:
        marks = {"done": "x", "active": ">", "pending": " "}
        for step in event.steps:
            self._print(f"  [{marks[step.state]}] {step.text}")

    def permission_asked(self, event: PermissionAsked) -> None:
        self._print(f"? {event.tool} {_brief(event.input)} waits for permission", "yellow")

    def rate_limited(self, event: RateLimited) -> None:
        self._print(f"! rate limited: {event.message}", "yellow")

    def error_reported(self, event: ErrorReported) -> None:
        self._print(f"! {cut(event.message)}", "yellow")

    def turn_failed(self, event: TurnFailed) -> None:
        self._print(f"! turn failed ({event.failure}): {cut(event.message)}", "red")

    def model_call_ended(self, event: ModelCallEnded) -> None:
        if event.problem or (event.status or 0) >= 400:
            self._print(f"! model call {event.call}: {event.status or '-'} {event.problem or event.message}", "yellow")

    def unrecognized(self, event: Unrecognized) -> None:
        self._print(f"  ({event.note})", "dim")

    def ending_began(self, event: EndingBegan) -> None:
        self._print(f"■ ending: {event.message or event.reason}", "yellow")

    def run_ended(self, event: RunEnded) -> None:
        good = event.outcome not in _BAD
        why = "" if event.reason == "done" else f" ({event.reason})"
        self._print(
            f"{'✔' if good else '✘'} {event.outcome}{why} in {duration(event.duration_s)}",
            "green" if good else "red",
        )
        if event.message:
            self._print(f"  {cut(event.message)}")
        files = ", ".join(event.files_changed) or "none reported"
        self._print(f"  files changed: {files}")
        self._print(f"  tokens: {_tokens(event.usage)} · cost: {self._cost(event)}")
        if event.next:
            self._print(f"  → {event.next}")

    def _cost(self, event: RunEnded) -> str:
        if event.cost_usd is None:
            return "not reported"
        scripted = self._summary.started and self._summary.started.model_from.startswith("script:")
        return f"${event.cost_usd:.4f}{' (scripted model: nothing was paid)' if scripted else ''}"

    def _output(self, text: str, style: str) -> None:
        if not text.strip():
            return
        shown = cut(text.rstrip("\n")).split("\n")
        left = 0 if self._lines is None else len(shown) - self._lines
        if left > 0:
            shown = shown[: self._lines]
        self._print("\n".join("  " + line for line in shown), style)
        if left > 0:
            self._print(f"  … {left} more lines: inspan logs", "dim")

    def _print(self, text: str, style: str = "") -> None:
        text = text.translate(_VISIBLE)
        self._stream.write((styled(text, style, colour=self._colour) if style else text) + "\n")


def cut(text: str) -> str:
    """At most 50 KB of a text that is already redacted, and how much is missing."""
    data = text.encode(errors="replace")
    if len(data) <= MAX_OUTPUT_BYTES:
        return text
    kept = data[:MAX_OUTPUT_BYTES].decode(errors="ignore")
    return kept + _missing(len(data))


def _missing(size_bytes: int) -> str:
    return f"\n[… {size_bytes - MAX_OUTPUT_BYTES} more bytes]" if size_bytes > MAX_OUTPUT_BYTES else ""


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        known = cast(dict[str, Any], value)
        value = next((known[key] for key in _INPUT_KEYS if key in known), known)
    text = " ".join(str(value).split())
    return text if len(text) <= 160 else text[:159] + "…"


def _tokens(usage: Usage | None) -> str:
    if usage is None:
        return "not reported"
    cached = f", {usage.cache_read + usage.cache_write} cached" if usage.cache_read or usage.cache_write else ""
    return f"{usage.input} in{cached}, {usage.output} out"


_HANDLERS: dict[type, Callable[[Console, Any], None]] = {
    RunStarted: Console.run_started,
    TextSaid: Console.text_said,
    TextDelta: Console.text_delta,
    ReasoningSaid: Console.reasoning_said,
    ToolStarted: Console.tool_started,
    ToolCompleted: Console.tool_completed,
    ToolFailed: Console.tool_failed,
    FileChanged: Console.file_changed,
    PlanChanged: Console.plan_changed,
    PermissionAsked: Console.permission_asked,
    RateLimited: Console.rate_limited,
    ErrorReported: Console.error_reported,
    TurnFailed: Console.turn_failed,
    ModelCallEnded: Console.model_call_ended,
    Unrecognized: Console.unrecognized,
    EndingBegan: Console.ending_began,
    RunEnded: Console.run_ended,
}
