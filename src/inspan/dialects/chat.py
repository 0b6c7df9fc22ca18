"""Chat Completions, as any server that speaks like OpenAI's answers them: in pieces or whole."""

from collections.abc import Sequence
from typing import Any

import msgspec

from inspan.contracts.dialect import Dialect
from inspan.protocol.events import Citation, CitationsGiven, Event, ReasoningSaid, TextDelta, TextSaid, ToolFailed
from inspan.protocol.known_types import know_type
from inspan.protocol.outcome import FailureKind
from inspan.protocol.task import Task
from inspan.protocol.usage import Usage

from .citations import find_citations
from .http_call import CallDialect, Problem, find_error_message
from .http_session import HttpSessionDialect
from .json_values import Json, as_object, as_objects, get_int, get_object, get_text
from .provider_errors import classify_failure
from .think_tags import ThinkTagSplitter

_BLOCK = "0"
_CUT_OFF = "The model stopped at its largest number of tokens, so the answer is incomplete."
_INCOMPLETE_REASONS: dict[str, tuple[FailureKind, str]] = {
    "length": ("invalid_response", _CUT_OFF),
    "content_filter": ("refused", "The provider's filter stopped the answer."),
}


class _Message(msgspec.Struct):
    """A message, or a piece of one."""

    content: Any = None
    reasoning_content: str | None = None
    reasoning: Any = None
    refusal: str | None = None
    tool_calls: list[Json] | None = None
    annotations: list[Json] | None = None


class _Choice(msgspec.Struct):
    delta: _Message | None = None
    message: _Message | None = None
    finish_reason: str | None = None


class ChatParser:
    """Reads chunks and whole completions. Texts are told as blocks when they are whole, in pieces with `partial`."""

    def __init__(self, *, partial: bool) -> None:
        self.usage: Usage | None = None
        self.cost_usd: float | None = None
        self.is_complete = False
        self.problem: Problem | None = None
        self._partial = partial
        self._splitter = ThinkTagSplitter()
        self._reasoning: list[str] = []
        self._texts: list[str] = []
        self._tools: dict[int, Json] = {}
        self._citations: list[Citation] = []

    def read(self, payload: Json) -> Sequence[Event] | None:
        if payload.get("error"):
            words = find_error_message(payload)
            self.problem = Problem(classify_failure(200, words), words or "The provider reported an error.")
            return []
        usage, choices = as_object(payload.get("usage")), payload.get("choices")
        if not isinstance(choices, list) and not usage:
            return None
        self.usage = to_usage(usage) if usage else self.usage
        self._citations = find_citations(payload) or self._citations
        try:
            read = msgspec.convert(choices or [], know_type(list[_Choice]))
        except msgspec.ValidationError:
            return None
        return [event for choice in read[:1] for event in self._on_choice(choice)]

    def finish(self) -> Sequence[Event]:
        thought, said = self._splitter.finish()
        self._reasoning += [thought] if thought else []
        self._texts += [said] if said else []
        return [
            *self._flush_reasoning(),
            *([TextSaid(text="".join(self._texts))] if self._texts else []),
            *([CitationsGiven(citations=self._citations)] if self._citations else []),
            *self._deny_tool_calls(),
        ]

    def _on_choice(self, choice: _Choice) -> list[Event]:
        words = choice.delta or choice.message or _Message()
        events: list[Event] = []
        reasoning = words.reasoning_content or (words.reasoning if isinstance(words.reasoning, str) else "")
        if reasoning:
            self._reasoning.append(reasoning)
        if text := _extract_text(words.content):
            thought, said = self._splitter.feed(text)
            self._reasoning += [thought] if thought else []
            if said:
                events += self._flush_reasoning()
                self._texts.append(said)
                events += [TextDelta(block=_BLOCK, text=said)] if self._partial and choice.delta else []
        for place, call in enumerate(words.tool_calls or ()):
            index = call.get("index")
            self._tools.setdefault(index if isinstance(index, int) else place, call)
        self._citations += find_citations({"annotations": words.annotations})
        if words.refusal:
            self.problem = Problem("refused", words.refusal)
        if choice.finish_reason:
            self._on_stop(choice.finish_reason)
        return events

    def _on_stop(self, reason: str) -> None:
        self.is_complete = True
        if reason in _INCOMPLETE_REASONS:
            self.problem = self.problem or Problem(*_INCOMPLETE_REASONS[reason])

    def _flush_reasoning(self) -> list[Event]:
        text, self._reasoning = "".join(self._reasoning).strip("\n"), []
        return [ReasoningSaid(text=text)] if text.strip() else []

    def _deny_tool_calls(self) -> list[Event]:
        """A model that calls a tool though none was offered: there is nobody to run it."""
        denied = [_build_denial(place, call) for place, call in sorted(self._tools.items())]
        if denied and not self._texts:
            names = ", ".join(each.name for each in denied)
            self.problem = self.problem or Problem(
                "tool_permission", f"The model wants to use {names}; it has no tools."
            )
        return list(denied)


def build_chat_dialect(task: Task, *, model: str) -> Dialect:
    """The dialect of an agent whose API is Chat Completions, and which asks this model."""
    if task.converses:
        return HttpSessionDialect(lambda: ChatParser(partial=task.partial), model=model)
    return CallDialect(ChatParser(partial=task.partial), model=model)


def to_usage(usage: Json) -> Usage:
    """Tokens, the cached ones apart. A total that holds the reasoning beside the answer says that it is apart."""
    taken, given = get_int(usage, "prompt_tokens"), get_int(usage, "completion_tokens")
    asked, answered = get_object(usage, "prompt_tokens_details"), get_object(usage, "completion_tokens_details")
    cached, written = get_int(asked, "cached_tokens"), get_int(asked, "cache_write_tokens")
    thought = get_int(answered, "reasoning_tokens")
    if thought and get_int(usage, "total_tokens") == taken + given + thought:
        given += thought
    return Usage(
        input=max(0, taken - cached - written),
        output=given,
        cache_read=cached,
        cache_write=written,
        reasoning=thought,
    )


def _extract_text(content: object) -> str:
    """A text, or the texts among its parts."""
    return content if isinstance(content, str) else "".join(get_text(part, "text") for part in as_objects(content))


def _build_denial(place: int, call: Json) -> ToolFailed:
    name = get_text(get_object(call, "function"), "name") or "a tool"
    return ToolFailed(id=get_text(call, "id") or f"call-{place}", name=name, output="no tool was offered", denied=True)
