"""What an agent tells in the course of a turn, as events: text and thoughts whole, calls, plans, tokens, its end."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from inspan.contracts.driver import match_failure
from inspan.protocol.events import (
    ErrorReported,
    Event,
    PlanChanged,
    PlanStep,
    ReasoningSaid,
    TextDelta,
    TextSaid,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    Unrecognized,
)
from inspan.protocol.outcome import FailureKind
from inspan.protocol.usage import SessionTotals, Usage

from . import token_usage
from .failures import FAILURES
from .profile import AcpProfile, SideLine
from .settings import as_object, as_objects
from .tool_call import find_in_meta
from .tool_calls import ToolCalls

# Before a thought that has none.
_NO_HEADING = "****"
_STEPS: dict[str, Literal["pending", "active", "done"]] = {"in_progress": "active", "completed": "done"}
_STOPS: dict[str, tuple[FailureKind, str]] = {
    "max_tokens": ("invalid_response", "the answer was cut at the model's limit of tokens"),
    "max_turn_requests": ("max_turns", "the agent has used up its turns"),
    "refusal": ("refused", "the model refused to continue"),
    "cancelled": ("unknown", "the agent cancelled its turn"),
}


class Turn:
    """One turn. `update` gives nothing for an update of a kind that is not known."""

    def __init__(self, *, partial: bool, reported: SessionTotals, profile: AcpProfile) -> None:
        self.calls = ToolCalls(profile=profile, partial=partial)
        self.cancelled = False
        self._partial = partial
        self._reported = reported
        self._profile = profile
        self._held: list[str] = []
        self._held_as = ("", "", "")
        self._blocks = 0
        self._usage: Usage | None = None
        self._told: Usage | None = None
        self._cost_usd: float | None = None
        self._complaint = ""
        self.problem = ""
        self._over = False
        self._handlers: dict[str, Callable[[Mapping[str, Any]], list[Event]]] = {
            "agent_message_chunk": lambda update: self._on_chunk("text", update),
            "agent_thought_chunk": lambda update: self._on_chunk("thought", update),
            "tool_call": self._on_tool_call,
            "tool_call_update": self._on_tool_call,
            "plan": self._on_plan,
            "usage_update": self._on_usage,
            # Of the conversation, not of the work in it.
            "user_message_chunk": _ignore,
            "available_commands_update": _ignore,
            "current_mode_update": _ignore,
            "config_option_update": _ignore,
            "session_info_update": _ignore,
        }

    def update(self, update: Mapping[str, Any]) -> list[Event] | None:
        """The events of one update."""
        handler = self._handlers.get(str(update.get("sessionUpdate")))
        if handler is None:
            return None
        events = handler(update)
        return [*events, *self.flush()] if self._over else events

    def flush(self) -> list[Event]:
        """The text that was gathered, whole."""
        text, (kind, _, parent), self._held = "".join(self._held), self._held_as, []
        if kind == "thought":
            thought = text.removeprefix(_NO_HEADING).strip("\n")
            return [ReasoningSaid(text=thought, parent=parent)] if thought else []
        return [TextSaid(text=text, parent=parent)] if text else []

    def finish(self, result: Mapping[str, Any]) -> list[Event]:
        """The end of the turn, as the answer to its prompt tells it."""
        self._over = True
        told, reason = self._turn_usage(result), str(result.get("stopReason") or "")
        self._told = told
        left = [*self.flush(), *self.calls.finish()]
        if reason == "cancelled" and self.cancelled:
            return left
        if self.problem:
            kind = self.classify_failure(self.problem) or "unknown"
            return [*left, TurnFailed(failure=kind, message=self.problem, usage=told, cost_usd=self._cost_usd)]
        if reason in _STOPS:
            kind, words = _STOPS[reason]
            return [*left, TurnFailed(failure=kind, message=words, usage=told, cost_usd=self._cost_usd)]
        if self._complaint and (kind := self.classify_failure(self._complaint)):
            return [*left, TurnFailed(failure=kind, message=self._complaint, usage=told, cost_usd=self._cost_usd)]
        return [*left, TurnCompleted(usage=told, cost_usd=self._cost_usd)]

    def build_interrupted(self) -> TurnInterrupted:
        """The end of a turn that was cancelled, once its end was told."""
        return TurnInterrupted(usage=self._told, cost_usd=self._cost_usd)

    @property
    def total(self) -> SessionTotals:
        """What was told of the session up to this turn's end."""
        usage = self._reported.usage + (self._told or Usage())
        return SessionTotals(usage=usage, cost_usd=round(self._reported.cost_usd + (self._cost_usd or 0.0), 9))

    def fail(self, failure: FailureKind, message: str, *, status: int | None = None) -> list[Event]:
        """The end of a turn that an error ended."""
        self._over = True
        left = [*self.flush(), *self.calls.finish()]
        return [*left, TurnFailed(failure=failure, message=message, status=status, usage=self._usage)]

    def handle_side_line(self, side_line: SideLine) -> list[Event]:
        """What a line beside the protocol tells."""
        if side_line.usage:
            self._usage = (self._usage or Usage()) + side_line.usage
        self.problem = side_line.problem or self.problem
        return [*side_line.events, *(self.calls.handle_side_line(side_line) if side_line.id else ())]

    def classify_failure(self, words: str) -> FailureKind | None:
        """The kind of failure that these words tell."""
        return match_failure((*self._profile.failures, *FAILURES), words)

    def _on_chunk(self, kind: str, update: Mapping[str, Any]) -> list[Event]:
        self._add_call_usage(update)
        content = as_object(update.get("content"))
        text = content.get("text")
        if not isinstance(text, str):
            note = f"a chunk of {content.get('type')}"
            return [*self.flush(), Unrecognized(raw=str(content)[:1000], note=note)]
        if not text:
            return []
        if own := self._profile.classify_notice and self._profile.classify_notice(update):
            self._complaint = text.strip() if own == "complaint" else self._complaint
            if self._profile.retry_pattern and self._profile.retry_pattern.search(text):
                self.problem = text.strip()
            return [*self.flush(), ErrorReported(message=text.strip())] if own == "complaint" else []
        self._complaint = ""
        before = self.calls.flush_ended()
        held_as = (kind, str(update.get("messageId") or ""), str(find_in_meta(update, "parentToolUseId") or ""))
        events = [*before, *self.flush()] if held_as != self._held_as or before else []
        if not self._held:
            self._blocks += 1
        self._held_as = held_as
        self._held.append(text)
        if self._partial and kind == "text" and not held_as[2]:
            events.append(TextDelta(block=f"text-{self._blocks}", text=text))
        return events

    def _on_tool_call(self, update: Mapping[str, Any]) -> list[Event]:
        return [*self.flush(), *self.calls.handle_update(update)]

    def _on_plan(self, update: Mapping[str, Any]) -> list[Event]:
        steps = [
            PlanStep(text=str(entry.get("content") or ""), state=_STEPS.get(str(entry.get("status")), "pending"))
            for entry in as_objects(update.get("entries"))
        ]
        return [*self.flush(), PlanChanged(steps=steps)]

    def _on_usage(self, update: Mapping[str, Any]) -> list[Event]:
        cost = as_object(update.get("cost"))
        amount = cost.get("amount")
        # Nothing at all is what agents say of a model whose price they do not know.
        if isinstance(amount, int | float) and amount > 0 and cost.get("currency") == "USD":
            self._cost_usd = max(0.0, round(amount - self._reported.cost_usd, 9))
        return []

    def _add_call_usage(self, update: Mapping[str, Any]) -> None:
        usage = token_usage.to_usage(as_object(update.get("_meta")).get("usage"))
        if usage:
            self._usage = (self._usage or Usage()) + usage

    def _turn_usage(self, result: Mapping[str, Any]) -> Usage | None:
        if self._profile.usage_scope == "call":
            return self._usage
        told = token_usage.usage_from_result(result)
        if told is None:
            return self._usage
        return told - self._reported.usage if self._profile.usage_scope in ("session", "process") else told


def _ignore(update: Mapping[str, Any]) -> list[Event]:
    return []
