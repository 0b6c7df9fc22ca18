"""Chat Completions, as any server that speaks like OpenAI's answers them: in pieces or whole."""

from collections.abc import Sequence
from typing import Any

import msgspec

from inspan.protocol.events import Citation, CitationsGiven, Event, ReasoningSaid, TextDelta, TextSaid, ToolFailed
from inspan.protocol.outcome import FailureKind
from inspan.protocol.task import Task
from inspan.protocol.usage import Usage

from .call import CallDialect, Problem, message_in
from .citing import citations_in
from .refusals import kind_of
from .thoughts import Thoughts
from .values import Json, inner, number, table, tables, word

_BLOCK = "0"
_TOO_SHORT = "The model stopped at its largest number of tokens, so the answer is not whole."
_NOT_WHOLE: dict[str, tuple[FailureKind, str]] = {
    "length": ("invalid_response", _TOO_SHORT),
    "content_filter": ("refused", "The provider's filter stopped the answer."),
}


class _Words(msgspec.Struct):
    """A message, or a piece of one."""

    content: Any = None
    reasoning_content: str | None = None
    reasoning: Any = None
    refusal: str | None = None
    tool_calls: list[Json] | None = None
    annotations: list[Json] | None = None


class _Choice(msgspec.Struct):
    delta: _Words | None = None
    message: _Words | None = None
    finish_reason: str | None = None


class ChatLanguage:
    """Reads chunks and whole completions. Texts are told as blocks when they are whole, in pieces with `partial`."""

    def __init__(self, *, partial: bool) -> None:
        self.usage: Usage | None = None
        self.cost_usd: float | None = None
        self.is_whole = False
        self.problem: Problem | None = None
        self._partial = partial
        self._thoughts = Thoughts()
        self._thought: list[str] = []
        self._said: list[str] = []
        self._tools: dict[int, Json] = {}
        self._citations: list[Citation] = []

    def read(self, payload: Json) -> Sequence[Event] | None:
        if payload.get("error"):
            words = message_in(payload)
            self.problem = Problem(kind_of(200, words), words or "The provider reported an error.")
            return []
        usage, choices = table(payload.get("usage")), payload.get("choices")
        if not isinstance(choices, list) and not usage:
            return None
        self.usage = usage_of(usage) if usage else self.usage
        self._citations = citations_in(payload) or self._citations
        try:
            read = msgspec.convert(choices or [], list[_Choice])
        except msgspec.ValidationError:
            return None
        return [event for choice in read[:1] for event in self._choice(choice)]

    def finish(self) -> Sequence[Event]:
        thought, said = self._thoughts.finish()
        self._thought += [thought] if thought else []
        self._said += [said] if said else []
        return [
            *self._thought_through(),
            *([TextSaid(text="".join(self._said))] if self._said else []),
            *([CitationsGiven(citations=self._citations)] if self._citations else []),
            *self._denied(),
        ]

    def _choice(self, choice: _Choice) -> list[Event]:
        words = choice.delta or choice.message or _Words()
        events: list[Event] = []
        reasoning = words.reasoning_content or (words.reasoning if isinstance(words.reasoning, str) else "")
        if reasoning:
            self._thought.append(reasoning)
        if text := _text(words.content):
            thought, said = self._thoughts.feed(text)
            self._thought += [thought] if thought else []
            if said:
                events += self._thought_through()
                self._said.append(said)
                events += [TextDelta(block=_BLOCK, text=said)] if self._partial and choice.delta else []
        for place, call in enumerate(words.tool_calls or ()):
            index = call.get("index")
            self._tools.setdefault(index if isinstance(index, int) else place, call)
        self._citations += citations_in({"annotations": words.annotations})
        if words.refusal:
            self.problem = Problem("refused", words.refusal)
        if choice.finish_reason:
            self._stop(choice.finish_reason)
        return events

    def _stop(self, reason: str) -> None:
        self.is_whole = True
        if reason in _NOT_WHOLE:
            self.problem = self.problem or Problem(*_NOT_WHOLE[reason])

    def _thought_through(self) -> list[Event]:
        text, self._thought = "".join(self._thought).strip("\n"), []
        return [ReasoningSaid(text=text)] if text.strip() else []

    def _denied(self) -> list[Event]:
        """A model that calls a tool though none was offered: there is nobody to run it."""
        denied = [_denied(place, call) for place, call in sorted(self._tools.items())]
        if denied and not self._said:
            names = ", ".join(each.name for each in denied)
            self.problem = self.problem or Problem(
                "tool_permission", f"The model wants to use {names}; it has no tools."
            )
        return list(denied)


def chat_dialect(task: Task, *, model: str) -> CallDialect:
    """The dialect of an agent whose API is Chat Completions, and which asks this model."""
    return CallDialect(ChatLanguage(partial=task.partial), model=model)


def usage_of(usage: Json) -> Usage:
    """Tokens, the cached ones apart. A total that holds the reasoning beside the answer says that it is apart."""
    taken, given = number(usage, "prompt_tokens"), number(usage, "completion_tokens")
    asked, answered = inner(usage, "prompt_tokens_details"), inner(usage, "completion_tokens_details")
    cached, written = number(asked, "cached_tokens"), number(asked, "cache_write_tokens")
    thought = number(answered, "reasoning_tokens")
    if thought and number(usage, "total_tokens") == taken + given + thought:
        given += thought
    return Usage(
        input=max(0, taken - cached - written),
        output=given,
        cache_read=cached,
        cache_write=written,
        reasoning=thought,
    )


def _text(content: object) -> str:
    """A text, or the texts among its parts."""
    return content if isinstance(content, str) else "".join(word(part, "text") for part in tables(content))


def _denied(place: int, call: Json) -> ToolFailed:
    name = word(inner(call, "function"), "name") or "a tool"
    return ToolFailed(id=word(call, "id") or f"call-{place}", name=name, output="no tool was offered", denied=True)
