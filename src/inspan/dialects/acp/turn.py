"""What an agent tells in the course of a turn, as events: text and thoughts whole, calls, plans, tokens, its end."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from inspan.contracts.driver import kind_told
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
    Unrecognized,
)
from inspan.protocol.outcome import FailureKind
from inspan.protocol.usage import Told, Usage

from . import spent
from .call import in_meta
from .calls import Calls
from .failures import FAILURES
from .settings import mapping, mappings
from .speaker import Beside, Habits

# Before a thought that has none.
_NO_HEADING = "****"
_STEPS: dict[str, Literal["pending", "active", "done"]] = {"in_progress": "active", "completed": "done"}
_STOPS: dict[str, tuple[FailureKind, str]] = {
    "max_tokens": ("invalid_response", "the answer was cut at the model's limit of tokens"),
    "max_turn_requests": ("max_turns", "the agent has used up its turns"),
    "refusal": ("refused", "the model refused to go on"),
    "cancelled": ("unknown", "the agent cancelled its turn"),
}


class Turn:
    """One turn. `update` gives nothing for an update of a kind that is not known."""

    def __init__(self, *, partial: bool, told: Told, habits: Habits) -> None:
        self.calls = Calls(habits=habits)
        self.cancelled = False
        self._partial = partial
        self._told = told
        self._habits = habits
        self._held: list[str] = []
        self._held_as = ("", "", "")
        self._blocks = 0
        self._usage: Usage | None = None
        self._cost_usd: float | None = None
        self._complaint = ""
        self.problem = ""
        self._over = False
        self._handlers: dict[str, Callable[[Mapping[str, Any]], list[Event]]] = {
            "agent_message_chunk": lambda update: self._chunk("text", update),
            "agent_thought_chunk": lambda update: self._chunk("thought", update),
            "tool_call": self._called,
            "tool_call_update": self._called,
            "plan": self._planned,
            "usage_update": self._counted,
            # Of the conversation, not of the work in it.
            "user_message_chunk": _silent,
            "available_commands_update": _silent,
            "current_mode_update": _silent,
            "config_option_update": _silent,
            "session_info_update": _silent,
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
        told, reason = self._spent(result), str(result.get("stopReason") or "")
        left = [*self.flush(), *self.calls.finish()]
        if reason == "cancelled" and self.cancelled:
            return left
        if self.problem:
            kind = self.kind_of(self.problem) or "unknown"
            return [*left, TurnFailed(failure=kind, message=self.problem, usage=told, cost_usd=self._cost_usd)]
        if reason in _STOPS:
            kind, words = _STOPS[reason]
            return [*left, TurnFailed(failure=kind, message=words, usage=told, cost_usd=self._cost_usd)]
        if self._complaint and (kind := self.kind_of(self._complaint)):
            return [*left, TurnFailed(failure=kind, message=self._complaint, usage=told, cost_usd=self._cost_usd)]
        return [*left, TurnCompleted(usage=told, cost_usd=self._cost_usd)]

    def fail(self, failure: FailureKind, message: str, *, status: int | None = None) -> list[Event]:
        """The end of a turn that an error ended."""
        self._over = True
        left = [*self.flush(), *self.calls.finish()]
        return [*left, TurnFailed(failure=failure, message=message, status=status, usage=self._usage)]

    def told_beside(self, told: Beside) -> list[Event]:
        """What a line beside the protocol tells."""
        if told.usage:
            self._usage = (self._usage or Usage()) + told.usage
        self.problem = told.problem or self.problem
        return [*told.events, *(self.calls.told_beside(told) if told.id else ())]

    def kind_of(self, words: str) -> FailureKind | None:
        """The kind of failure that these words tell."""
        return kind_told((*self._habits.failures, *FAILURES), words)

    def _chunk(self, kind: str, update: Mapping[str, Any]) -> list[Event]:
        self._count_call(update)
        content = mapping(update.get("content"))
        text = content.get("text")
        if not isinstance(text, str):
            note = f"a chunk of {content.get('type')}"
            return [*self.flush(), Unrecognized(raw=str(content)[:1000], note=note)]
        if not text:
            return []
        if own := self._habits.own_words and self._habits.own_words(update):
            self._complaint = text.strip() if own == "complaint" else self._complaint
            if self._habits.retrying and self._habits.retrying.search(text):
                self.problem = text.strip()
            return [*self.flush(), ErrorReported(message=text.strip())] if own == "complaint" else []
        self._complaint = ""
        before = self.calls.settle()
        held_as = (kind, str(update.get("messageId") or ""), str(in_meta(update, "parentToolUseId") or ""))
        events = [*before, *self.flush()] if held_as != self._held_as or before else []
        if not self._held:
            self._blocks += 1
        self._held_as = held_as
        self._held.append(text)
        if self._partial and kind == "text" and not held_as[2]:
            events.append(TextDelta(block=f"text-{self._blocks}", text=text))
        return events

    def _called(self, update: Mapping[str, Any]) -> list[Event]:
        return [*self.flush(), *self.calls.told(update)]

    def _planned(self, update: Mapping[str, Any]) -> list[Event]:
        steps = [
            PlanStep(text=str(entry.get("content") or ""), state=_STEPS.get(str(entry.get("status")), "pending"))
            for entry in mappings(update.get("entries"))
        ]
        return [*self.flush(), PlanChanged(steps=steps)]

    def _counted(self, update: Mapping[str, Any]) -> list[Event]:
        cost = mapping(update.get("cost"))
        amount = cost.get("amount")
        # Nothing at all is what agents say of a model whose price they do not know.
        if isinstance(amount, int | float) and amount > 0 and cost.get("currency") == "USD":
            self._cost_usd = max(0.0, round(amount - self._told.cost_usd, 9))
        return []

    def _count_call(self, update: Mapping[str, Any]) -> None:
        usage = spent.tokens(mapping(update.get("_meta")).get("usage"))
        if usage:
            self._usage = (self._usage or Usage()) + usage

    def _spent(self, result: Mapping[str, Any]) -> Usage | None:
        if self._habits.usage == "call":
            return self._usage
        told = spent.in_answer(result)
        if told is None:
            return self._usage
        return told - self._told.usage if self._habits.usage == "session" else told


def _silent(update: Mapping[str, Any]) -> list[Event]:
    return []
