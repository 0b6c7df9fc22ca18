"""Responses, as OpenAI began it and others answer it: events of a stream, or one whole response."""

from collections.abc import Callable, Sequence

import msgspec

from inspan.contracts.dialect import Dialect
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

from .citations import dedupe_citations, find_citations
from .http_call import CallDialect, Problem, find_error_message
from .http_session import HttpSessionDialect
from .json_values import Json, as_object, as_objects, as_texts, get_int, get_object, get_text
from .provider_errors import classify_failure

_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
# What only announces something that is told whole later.
_IGNORED_TYPES = frozenset(
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
_PROVIDER_TOOL_SUFFIXES = ("_call", "_results", "_result")
_INCOMPLETE_REASONS = {
    "max_output_tokens": Problem(
        "invalid_response", "The model stopped at its largest number of tokens, so the answer is incomplete."
    ),
    "content_filter": Problem("refused", "The provider's filter stopped the answer."),
}


class ResponsesParser:
    """Reads a stream or a whole response. What was told in pieces is not told again by the response at its end."""

    def __init__(self, *, partial: bool) -> None:
        self.usage: Usage | None = None
        self.cost_usd: float | None = None
        self.is_complete = False
        self.problem: Problem | None = None
        self._partial = partial
        self._pending: list[str] = []
        self._texts: list[str] = []
        self._reasoning: list[str] = []
        self._items: set[str] = set()
        self._searches = 0
        self._citations: list[Citation] = []
        self._handlers: dict[str, Callable[[Json], list[Event]]] = {
            "response.output_text.delta": self._on_text_delta,
            "response.output_text.done": lambda event: self._add_text(get_text(event, "text")),
            "response.output_text.annotation.added": self._on_annotation,
            "response.reasoning_summary_text.done": lambda event: self._add_reasoning(get_text(event, "text")),
            "response.reasoning_text.done": lambda event: self._add_reasoning(get_text(event, "text")),
            "response.refusal.done": lambda event: self._on_refusal(get_text(event, "refusal")),
            "response.output_item.done": lambda event: self._on_item(get_object(event, "item")),
            "response.reasoning.started": self._on_reasoning,
            "response.reasoning.stopped": self._on_reasoning,
            "response.reasoning.search_queries": self._on_reasoning,
            "response.reasoning.search_results": self._on_search_results,
            "response.reasoning.fetch_url_queries": self._on_reasoning,
            "response.reasoning.fetch_url_results": self._on_fetch_results,
            "error": self._on_error,
        }

    def read(self, payload: Json) -> Sequence[Event] | None:
        kind = get_text(payload, "type")
        response = get_object(payload, "response")
        if kind in _ENDS:
            return self._on_end(response, payload)
        if kind in _IGNORED_TYPES:
            return []
        if handler := self._handlers.get(kind):
            return handler(payload)
        if get_text(payload, "object") == "response":
            return self._on_end(payload, payload)
        return self._on_error(payload) if payload.get("error") else None

    def finish(self) -> Sequence[Event]:
        events = [] if self._texts else self._add_text("".join(self._pending))
        if self._citations:
            events.append(CitationsGiven(citations=dedupe_citations(self._citations)))
        return events

    def _on_end(self, response: Json, event: Json) -> list[Event]:
        events = [each for item in as_objects(response.get("output")) for each in self._on_item(item)]
        if usage := as_object(response.get("usage")):
            self.usage, self.cost_usd = to_usage(usage), _read_cost(usage)
        status = get_text(response, "status") or get_text(event, "type").removeprefix("response.")
        reason = get_text(get_object(response, "incomplete_details"), "reason")
        self.is_complete = status == "completed"
        if status == "incomplete":
            other = Problem("invalid_response", f"The answer is incomplete: {reason or 'no reason was given'}.")
            self.problem = self.problem or _INCOMPLETE_REASONS.get(reason, other)
        elif status != "completed":
            self._on_error(response if response.get("error") else event)
        return events

    def _on_error(self, event: Json) -> list[Event]:
        said = (
            find_error_message(event)
            or find_error_message(get_object(event, "response"))
            or "The provider reported an error."
        )
        code = get_text(get_object(event, "error") or event, "code")
        self.problem = self.problem or Problem(classify_failure(200, f"{code} {said}"), said)
        return []

    def _on_text_delta(self, event: Json) -> list[Event]:
        self._pending.append(get_text(event, "delta"))
        if not self._partial:
            return []
        block = f"{get_int(event, 'output_index')}.{get_int(event, 'content_index')}"
        return [TextDelta(block=block, text=get_text(event, "delta"))]

    def _on_annotation(self, event: Json) -> list[Event]:
        self._citations += find_citations({"annotations": [get_object(event, "annotation")]})
        return []

    def _add_text(self, text: str) -> list[Event]:
        self._pending = []
        if not text or text in self._texts:
            return []
        self._texts.append(text)
        return [TextSaid(text=text)]

    def _add_reasoning(self, text: str) -> list[Event]:
        if not text.strip() or text in self._reasoning:
            return []
        self._reasoning.append(text)
        return [ReasoningSaid(text=text)]

    def _on_refusal(self, text: str) -> list[Event]:
        self.problem = self.problem or Problem("refused", text or "The model refused.")
        return []

    def _on_reasoning(self, event: Json) -> list[Event]:
        events = self._add_reasoning(get_text(event, "thought"))
        if asked := as_texts(event.get("queries")) or as_texts(event.get("urls")):
            self._searches += 1
            name = "web_search" if event.get("queries") else "fetch_url"
            events.append(ToolStarted(id=f"{name}-{self._searches}", name=name, input={"query": "; ".join(asked)}))
        return events

    def _on_search_results(self, event: Json) -> list[Event]:
        found = find_citations({"search_results": event.get("results")})
        self._citations += found
        return [*self._add_reasoning(get_text(event, "thought")), self._tool_completed_event("web_search", found)]

    def _on_fetch_results(self, event: Json) -> list[Event]:
        found = find_citations({"annotations": event.get("contents")})
        return [*self._add_reasoning(get_text(event, "thought")), self._tool_completed_event("fetch_url", found)]

    def _tool_completed_event(self, name: str, found: list[Citation]) -> ToolCompleted:
        listing = "\n".join(f"{each.title} {each.url}".strip() for each in found)
        return ToolCompleted(id=f"{name}-{self._searches}", name=name, output=listing)

    def _on_item(self, item: Json) -> list[Event]:
        kind = get_text(item, "type")
        if kind == "message":
            return [each for part in as_objects(item.get("content")) for each in self._on_part(part)]
        if kind == "reasoning":
            parts = [*as_objects(item.get("summary")), *as_objects(item.get("content"))]
            return [each for part in parts for each in self._add_reasoning(get_text(part, "text"))]
        if kind in ("function_call", "custom_tool_call"):
            return self._on_tool_call(item)
        if kind.endswith(_PROVIDER_TOOL_SUFFIXES):
            return self._on_provider_tool(item, kind)
        raw = msgspec.json.encode(item).decode()
        if raw in self._items:
            return []
        self._items.add(raw)
        return [Unrecognized(raw=raw, note=f"item {kind!r}")]

    def _on_part(self, part: Json) -> list[Event]:
        self._citations += find_citations(part)
        if get_text(part, "type") == "refusal":
            return self._on_refusal(get_text(part, "refusal"))
        return self._add_text(get_text(part, "text"))

    def _on_tool_call(self, item: Json) -> list[Event]:
        """A model that calls a tool though none was offered: there is nobody to run it."""
        name, id_ = get_text(item, "name") or "a tool", get_text(item, "call_id") or get_text(item, "id")
        if id_ in self._items:
            return []
        self._items.add(id_)
        if not self._texts:
            words_ = f"The model wants to use {name}; it has no tools."
            self.problem = self.problem or Problem("tool_permission", words_)
        return [ToolFailed(id=id_, name=name, output="no tool was offered", denied=True)]

    def _on_provider_tool(self, item: Json, kind: str) -> list[Event]:
        """A tool on the provider's side. Results without a name of their own may have been told while they came."""
        id_ = get_text(item, "id") or f"{kind}-{tuple(as_texts(item.get('queries')))}"
        if kind == "search_results":
            self._citations += find_citations({"search_results": item.get("results")})
        if id_ in self._items or (not get_text(item, "id") and self._searches):
            return []
        self._items.add(id_)
        name = kind.removesuffix("_call").removesuffix("_results").removesuffix("_result")
        given = get_object(item, "action") or {"query": "; ".join(as_texts(item.get("queries")))}
        end = ToolFailed if get_text(item, "status") == "failed" or item.get("error") else ToolCompleted
        listing = "\n".join(each.url for each in find_citations({"search_results": item.get("results")}))
        return [ToolStarted(id=id_, name=name, input=given), end(id=id_, name=name, output=listing)]


def build_responses_dialect(task: Task, *, model: str) -> Dialect:
    """The dialect of an agent whose API is Responses, and which asks this model."""
    if task.converses:
        return HttpSessionDialect(lambda: ResponsesParser(partial=task.partial), model=model)
    return CallDialect(ResponsesParser(partial=task.partial), model=model)


def to_usage(usage: Json) -> Usage:
    """Tokens, the cached ones apart, by either of the names that they go by."""
    details = get_object(usage, "input_tokens_details")
    cached = get_int(details, "cached_tokens") or get_int(details, "cache_read_input_tokens")
    written = get_int(details, "cache_write_tokens") or get_int(details, "cache_creation_input_tokens")
    return Usage(
        input=max(0, get_int(usage, "input_tokens") - cached - written),
        output=get_int(usage, "output_tokens"),
        cache_read=cached,
        cache_write=written,
        reasoning=get_int(get_object(usage, "output_tokens_details"), "reasoning_tokens"),
    )


def _read_cost(usage: Json) -> float | None:
    total = get_object(usage, "cost").get("total_cost")
    return float(total) if isinstance(total, int | float) else None
