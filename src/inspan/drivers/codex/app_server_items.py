"""What `codex app-server` tells, in the words of the usual channel: items, plans, tokens, failures."""

import re

import msgspec

from inspan.contracts.driver import match_failure
from inspan.dialects.json_values import Json, as_object, as_objects, as_texts, get_int, get_text
from inspan.protocol.events import PlanChanged, PlanStep, TurnFailed
from inspan.protocol.http_status import failure_of_status
from inspan.protocol.known_types import know_type
from inspan.protocol.outcome import FailureKind
from inspan.protocol.usage import Usage

from .dialect import FAILURES, Item, Tokens, to_usage

# Its kinds of items → those of `exec`; it has others, of which that tells nothing.
_KINDS = {
    "agentMessage": "agent_message",
    "reasoning": "reasoning",
    "commandExecution": "command_execution",
    "fileChange": "file_change",
    "mcpToolCall": "mcp_tool_call",
    "webSearch": "web_search",
    "collabAgentToolCall": "collab_tool_call",
}
_STEPS = {"inProgress": "active", "completed": "done"}
_ERRORS: dict[str, FailureKind] = {
    "contextWindowExceeded": "context_too_long",
    "usageLimitExceeded": "rate_limit",
    "rateLimitExceeded": "rate_limit",
    "sessionBudgetExceeded": "rate_limit",
    "serverOverloaded": "overloaded",
    "internalServerError": "overloaded",
    "unauthorized": "authentication",
    "httpConnectionFailed": "network",
    "responseStreamConnectionFailed": "network",
    "responseStreamDisconnected": "network",
    "responseTooManyFailedAttempts": "network",
    "sandboxError": "environment",
}
_CAPITAL = re.compile(r"(?=[A-Z])")


def to_item(raw: Json) -> Item | None:
    """An item as `exec` has it; None for one that it says nothing of."""
    kind = _KINDS.get(get_text(raw, "type"))
    if kind is None:
        return None
    known: Json = {
        "type": kind,
        "id": get_text(raw, "id"),
        "text": get_text(raw, "text") or "\n".join(as_texts(raw.get("summary"))),
        "command": get_text(raw, "command"),
        "aggregated_output": get_text(raw, "aggregatedOutput"),
        "exit_code": raw.get("exitCode"),
        "status": get_text(raw, "status"),
        "changes": [
            {"path": each.get("path"), "kind": get_text(as_object(each.get("kind")), "type")}
            for each in as_objects(raw.get("changes"))
        ],
        "server": get_text(raw, "server"),
        "tool": _CAPITAL.sub("_", get_text(raw, "tool")).lower()
        if kind == "collab_tool_call"
        else get_text(raw, "tool"),
        "arguments": raw.get("arguments"),
        "result": raw.get("result"),
        "error": raw.get("error"),
        "query": get_text(raw, "query"),
    }
    return msgspec.convert(known, know_type(Item))


def read_plan(params: Json) -> PlanChanged:
    steps = as_objects(params.get("plan"))
    known = [
        {"text": get_text(each, "step"), "state": _STEPS.get(get_text(each, "status"), "pending")} for each in steps
    ]
    return PlanChanged(steps=msgspec.convert(known, know_type(list[PlanStep])))


def read_total(params: Json) -> Usage:
    """The tokens of the whole thread."""
    total = as_object(as_object(params.get("tokenUsage")).get("total"))
    return to_usage(
        Tokens(
            input_tokens=get_int(total, "inputTokens"),
            cached_input_tokens=get_int(total, "cachedInputTokens"),
            cache_write_input_tokens=get_int(total, "cacheWriteInputTokens"),
            output_tokens=get_int(total, "outputTokens"),
            reasoning_output_tokens=get_int(total, "reasoningOutputTokens"),
        )
    )


def read_failure(error: Json, usage: Usage | None) -> TurnFailed:
    """Why a turn failed: by its words first, as the usual channel has nothing else, then by the kind that it names."""
    message = get_text(error, "message")
    info = error.get("codexErrorInfo")
    name, details = next(iter(as_object(info).items()), (info, None))
    status = get_int(as_object(details), "httpStatusCode") or None
    failure = match_failure(FAILURES, message) or failure_of_status(status) or _ERRORS.get(str(name), "unknown")
    return TurnFailed(failure=failure, message=message, status=status, usage=usage)
