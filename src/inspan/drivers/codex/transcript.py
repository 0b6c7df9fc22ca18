"""The rollout file of Codex, read back: it has an item for each that the stream told of (0.163)."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import msgspec

from inspan.protocol.events import (
    Change,
    CommandExecuted,
    Event,
    FileChanged,
    ReasoningSaid,
    TextSaid,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
)
from inspan.protocol.known_types import know_type
from inspan.protocol.usage import Usage
from inspan.protocol.wire import DECODE_ERRORS

from .dialect import CHANGES, Tokens, read_totals, to_usage

_Json = dict[str, Any]


def read(rollout: bytes) -> Sequence[Event]:
    """The events of all its turns."""
    return list(_iter_events(rollout))


def _iter_events(rollout: bytes) -> Iterator[Event]:
    counted = total = Usage()
    for text in rollout.split(b"\n"):
        payload = _decode_payload(text)
        match payload.get("type"):
            case "task_started":
                yield TurnStarted()
            case "item_completed":
                item: _Json = payload.get("item") or {}
                yield from _ITEMS.get(str(item.get("type")), _ignore)(item)
            case "token_count":
                told = read_totals(text)  # It counts the whole thread, and a fork counts on from where it began.
                counted = _usage_before(payload, told.usage) if told and not total.total else counted
                total = told.usage if told else total
            case "task_complete" | "turn_aborted":
                yield TurnCompleted(usage=total - counted)
                counted = total
            case _:
                pass


def _usage_before(payload: _Json, total: Usage) -> Usage:
    """What a thread had counted before the first call that its file tells of."""
    info: _Json = payload.get("info") or {}
    last = info.get("last_token_usage")
    return total - to_usage(msgspec.convert(last, know_type(Tokens))) if last else Usage()


def _decode_payload(text: bytes) -> _Json:
    try:
        line = msgspec.json.decode(text, type=_Json)
    except DECODE_ERRORS:  # The last line may be half written.
        return {}
    payload = line.get("payload")
    return cast(_Json, payload) if line.get("type") == "event_msg" and isinstance(payload, dict) else {}


def _on_message(item: _Json) -> list[Event]:
    return [TextSaid(text="".join(part.get("text", "") for part in item.get("content", ())))]


def _on_reasoning(item: _Json) -> list[Event]:
    text = "\n\n".join(item.get("summary_text") or item.get("raw_content") or ())
    return [ReasoningSaid(text=text)] if text else []


def _on_command(item: _Json) -> list[Event]:
    call, command = str(item.get("id", "")), shlex.join(item.get("command", ()))
    end = ToolCompleted if item.get("status") == "completed" else ToolFailed
    return [
        ToolStarted(id=call, name="shell", input={"command": command}),
        end(id=call, name="shell", output=str(item.get("aggregated_output", ""))),
        CommandExecuted(id=call, command=command, exit_code=item.get("exit_code")),
    ]


def _on_file_change(item: _Json) -> list[Event]:
    call, changes = str(item.get("id", "")), item.get("changes", {})
    started = ToolStarted(id=call, name="apply_patch", input=list(changes))
    if item.get("status") != "completed":
        return [started, ToolFailed(id=call, name="apply_patch", output=str(item.get("stderr", "")))]
    kinds: dict[str, Change] = {
        path: CHANGES.get(change.get("type", ""), "modified") for path, change in changes.items()
    }
    changed = [FileChanged(path=path, change=kind, id=call) for path, kind in kinds.items()]
    return [started, *changed, ToolCompleted(id=call, name="apply_patch")]


def _ignore(_: _Json) -> list[Event]:
    return []


_ITEMS: dict[str, Callable[[_Json], list[Event]]] = {
    "AgentMessage": _on_message,
    "Reasoning": _on_reasoning,
    "CommandExecution": _on_command,
    "FileChange": _on_file_change,
}
