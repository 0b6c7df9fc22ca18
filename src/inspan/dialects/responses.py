"""Responses, as OpenAI began it and others answer it: events of a stream, or one whole response."""

from collections.abc import Callable, Sequence

import msgspec

from inspan.protocol.events import (
    Citation,
    CitationsGiven,
    Event,
    ReasoningSaid,
    TextDelta,
    TextSaid,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    Unrecognized,
)
from inspan.protocol.task import Task
from inspan.protocol.usage import Usage

from .call import CallDialect, Problem, message_in
from .citing import citations_in, without_twins
from .refusals import kind_of
from .values import Json, inner, number, table, tables, word, words

_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
# What only announces something that is told whole later.
_QUIET = frozenset(
    {
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.content_part.done",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_part.done",
        "response.reasoning_summary_text.delta",
        "response.reasoning_text.delta",
        "response.refusal.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.done",
        "response.skill.loaded",
    }
)
# Tools that the provider runs on its own side: their calls are told as they ended.
_THEIRS = ("_call", "_results", "_result")
_NOT_WHOLE = {
    "max_output_tokens": Problem(
        "invalid_response", "The model stopped at its largest number of tokens, so the answer is not whole."
    ),
    "content_filter": Problem("refused", "The provider's filter stopped the answer."),
}


class ResponsesLanguage:
    """Reads a stream or a whole response. What was told in pieces is not told again by the response at its end."""

    def __init__(self, *, partial: bool) -> None:
        self.usage: Usage | None = None
        self.cost_usd: float | None = None
        self.is_whole = False
        self.problem: Problem | None = None
        self._partial = partial
        self._pending: list[str] = []
        self._said: list[str] = []
        self._thought: list[str] = []
        self._items: set[str] = set()
        self._searches = 0
        self._citations: list[Citation] = []
        self._handlers: dict[str, Callable[[Json], list[Event]]] = {
            "response.output_text.delta": self._delta,
            "response.output_text.done": lambda event: self._say(word(event, "text")),
            "response.output_text.annotation.added": self._annotated,
            "response.reasoning_summary_text.done": lambda event: self._think(word(event, "text")),
            "response.reasoning_text.done": lambda event: self._think(word(event, "text")),
            "response.refusal.done": lambda event: self._refuse(word(event, "refusal")),
            "response.output_item.done": lambda event: self._item(inner(event, "item")),
            "response.reasoning.started": self._reasoned,
            "response.reasoning.stopped": self._reasoned,
            "response.reasoning.search_queries": self._reasoned,
            "response.reasoning.search_results": self._searched,
            "response.reasoning.fetch_url_queries": self._reasoned,
            "response.reasoning.fetch_url_results": self._fetched,
            "error": self._failed,
        }

    def read(self, payload: Json) -> Sequence[Event] | None:
        kind = word(payload, "type")
        response = inner(payload, "response")
        if kind in _ENDS:
            return self._ended(response, payload)
        if kind in _QUIET:
            return []
        if handler := self._handlers.get(kind):
            return handler(payload)
        if word(payload, "object") == "response":
            return self._ended(payload, payload)
        return self._failed(payload) if payload.get("error") else None

    def finish(self) -> Sequence[Event]:
        events = [] if self._said else self._say("".join(self._pending))
        if self._citations:
            events.append(CitationsGiven(citations=without_twins(self._citations)))
        return events

    def _ended(self, response: Json, event: Json) -> list[Event]:
        events = [each for item in tables(response.get("output")) for each in self._item(item)]
        if usage := table(response.get("usage")):
            self.usage, self.cost_usd = usage_of(usage), _cost(usage)
        status = word(response, "status") or word(event, "type").removeprefix("response.")
        reason = word(inner(response, "incomplete_details"), "reason")
        self.is_whole = status == "completed"
        if status == "incomplete":
            other = Problem("invalid_response", f"The answer is not whole: {reason or 'nobody says why'}.")
            self.problem = self.problem or _NOT_WHOLE.get(reason, other)
        elif status != "completed":
            self._failed(response if response.get("error") else event)
        return events

    def _failed(self, event: Json) -> list[Event]:
        said = message_in(event) or message_in(inner(event, "response")) or "The provider reported an error."
        code = word(inner(event, "error") or event, "code")
        self.problem = self.problem or Problem(kind_of(200, f"{code} {said}"), said)
        return []

    def _delta(self, event: Json) -> list[Event]:
        self._pending.append(word(event, "delta"))
        if not self._partial:
            return []
        block = f"{number(event, 'output_index')}.{number(event, 'content_index')}"
        return [TextDelta(block=block, text=word(event, "delta"))]

    def _annotated(self, event: Json) -> list[Event]:
        self._citations += citations_in({"annotations": [inner(event, "annotation")]})
        return []

    def _say(self, text: str) -> list[Event]:
        self._pending = []
        if not text or text in self._said:
            return []
        self._said.append(text)
        return [TextSaid(text=text)]

    def _think(self, text: str) -> list[Event]:
        if not text.strip() or text in self._thought:
            return []
        self._thought.append(text)
        return [ReasoningSaid(text=text)]

    def _refuse(self, text: str) -> list[Event]:
        self.problem = self.problem or Problem("refused", text or "The model refused.")
        return []

    def _reasoned(self, event: Json) -> list[Event]:
        events = self._think(word(event, "thought"))
        if asked := words(event.get("queries")) or words(event.get("urls")):
            self._searches += 1
            name = "web_search" if event.get("queries") else "fetch_url"
            events.append(ToolStarted(id=f"{name}-{self._searches}", name=name, input={"query": "; ".join(asked)}))
        return events

    def _searched(self, event: Json) -> list[Event]:
        found = citations_in({"search_results": event.get("results")})
        self._citations += found
        return [*self._think(word(event, "thought")), self._came_back("web_search", found)]

    def _fetched(self, event: Json) -> list[Event]:
        found = citations_in({"annotations": event.get("contents")})
        return [*self._think(word(event, "thought")), self._came_back("fetch_url", found)]

    def _came_back(self, name: str, found: list[Citation]) -> ToolCompleted:
        listing = "\n".join(f"{each.title} {each.url}".strip() for each in found)
        return ToolCompleted(id=f"{name}-{self._searches}", name=name, output=listing)

    def _item(self, item: Json) -> list[Event]:
        kind = word(item, "type")
        if kind == "message":
            return [each for part in tables(item.get("content")) for each in self._part(part)]
        if kind == "reasoning":
            parts = [*tables(item.get("summary")), *tables(item.get("content"))]
            return [each for part in parts for each in self._think(word(part, "text"))]
        if kind in ("function_call", "custom_tool_call"):
            return self._denied(item)
        if kind.endswith(_THEIRS):
            return self._theirs(item, kind)
        raw = msgspec.json.encode(item).decode()
        if raw in self._items:
            return []
        self._items.add(raw)
        return [Unrecognized(raw=raw, note=f"item {kind!r}")]

    def _part(self, part: Json) -> list[Event]:
        self._citations += citations_in(part)
        if word(part, "type") == "refusal":
            return self._refuse(word(part, "refusal"))
        return self._say(word(part, "text"))

    def _denied(self, item: Json) -> list[Event]:
        """A model that calls a tool though none was offered: there is nobody to run it."""
        name, id_ = word(item, "name") or "a tool", word(item, "call_id") or word(item, "id")
        if id_ in self._items:
            return []
        self._items.add(id_)
        if not self._said:
            words_ = f"The model wants to use {name}; it has no tools."
            self.problem = self.problem or Problem("tool_permission", words_)
        return [ToolFailed(id=id_, name=name, output="no tool was offered", denied=True)]

    def _theirs(self, item: Json, kind: str) -> list[Event]:
        """A tool on the provider's side. Results without a name of their own may have been told while they came."""
        id_ = word(item, "id") or f"{kind}-{tuple(words(item.get('queries')))}"
        if kind == "search_results":
            self._citations += citations_in({"search_results": item.get("results")})
        if id_ in self._items or (not word(item, "id") and self._searches):
            return []
        self._items.add(id_)
        name = kind.removesuffix("_call").removesuffix("_results").removesuffix("_result")
        given = inner(item, "action") or {"query": "; ".join(words(item.get("queries")))}
        end = ToolFailed if word(item, "status") == "failed" or item.get("error") else ToolCompleted
        listing = "\n".join(each.url for each in citations_in({"search_results": item.get("results")}))
        return [ToolStarted(id=id_, name=name, input=given), end(id=id_, name=name, output=listing)]


def responses_dialect(task: Task, *, model: str) -> CallDialect:
    """The dialect of an agent whose API is Responses, and which asks this model."""
    return CallDialect(ResponsesLanguage(partial=task.partial), model=model)


def usage_of(usage: Json) -> Usage:
    """Tokens, the cached ones apart, by either of the names that they go by."""
    details = inner(usage, "input_tokens_details")
    cached = number(details, "cached_tokens") or number(details, "cache_read_input_tokens")
    written = number(details, "cache_write_tokens") or number(details, "cache_creation_input_tokens")
    return Usage(
        input=max(0, number(usage, "input_tokens") - cached - written),
        output=number(usage, "output_tokens"),
        cache_read=cached,
        cache_write=written,
        reasoning=number(inner(usage, "output_tokens_details"), "reasoning_tokens"),
    )


def _cost(usage: Json) -> float | None:
    total = inner(usage, "cost").get("total_cost")
    return float(total) if isinstance(total, int | float) else None
