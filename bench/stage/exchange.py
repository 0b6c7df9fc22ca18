"""One call of a coding agent to its model, in bytes: a request of a usual size, and an answer of many small events.

Each event that is measured carries the time at which it was sent, so that whoever reads it knows how long it took.
"""

import argparse
import inspect
import json
import re
import textwrap
import time
from functools import cache
from itertools import cycle, islice
from typing import Any

_BODY_BYTES = 46_000
_TOOLS = ("Read", "Write", "Edit", "Bash", "Glob", "Grep", "Task", "WebFetch", "WebSearch", "TodoWrite", "NotebookEdit")
_WISH = re.compile(rb"events-(\d+)-gap-(\d+)")
_STAMP = re.compile(rb"@(\d{6,20})@")
_MESSAGE: dict[str, Any] = {
    "id": "msg_01bench",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-5-5",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 11, "output_tokens": 1, "cache_read_input_tokens": 11000},
}
_OPENING: tuple[dict[str, Any], ...] = (
    {"type": "message_start", "message": _MESSAGE},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
)
_CLOSING: tuple[dict[str, Any], ...] = (
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 40}},
    {"type": "message_stop"},
)
_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
    b"request-id: req_01bench\r\ntransfer-encoding: chunked\r\n\r\n"
)
_END = b"\r\n0\r\n\r\n"


def request(path: str, *, port: int, key: str, events: int, gap_ms: int) -> bytes:
    """A request for so many events, one each `gap_ms`, with the headers and the size of a coding agent's."""
    body = _body(f"events-{events}-gap-{gap_ms}")
    headers = {
        "host": f"127.0.0.1:{port}",
        "accept": "application/json",
        "accept-encoding": "gzip, deflate, br, zstd",
        "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27",
        "anthropic-dangerous-direct-browser-access": "true",
        "anthropic-version": "2023-06-01",
        "authorization": f"Bearer {key}",
        "content-type": "application/json",
        "user-agent": "claude-cli/2.1.325 (external, cli)",
        "x-app": "cli",
        "x-stainless-arch": "x64",
        "x-stainless-lang": "js",
        "x-stainless-os": "Linux",
        "x-stainless-retry-count": "0",
        "x-stainless-runtime": "node",
        "x-stainless-timeout": "600",
        "content-length": str(len(body)),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def wish(body: bytes) -> tuple[int, float]:
    """How many events a request asked for, and the seconds between them."""
    found = _WISH.search(body)
    if found is None:
        raise ValueError(f"a request that no bench sent: {body[:200]!r}")
    return int(found[1]), int(found[2]) / 1000


def opening() -> bytes:
    """The head of the answer and its first events."""
    return _HEAD + _chunk(*_OPENING)


def stamped() -> bytes:
    """One small event that says when it was sent, as text of the model."""
    text = f" word @{time.monotonic_ns()}@"
    return _chunk({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})


def closing() -> bytes:
    """The last events, and the end of the body."""
    return _chunk(*_CLOSING) + b"0\r\n\r\n"


class Reading:
    """Fed with an answer as it arrives; gives how old each stamped event was."""

    def __init__(self) -> None:
        self._rest = b""
        self.is_done = False

    def ages_us(self, data: bytes, now_ns: int) -> list[float]:
        seen, end = self._rest + data, 0
        ages: list[float] = []
        for stamp in _STAMP.finditer(seen):
            ages.append((now_ns - int(stamp[1])) / 1000)
            end = stamp.end()
        self._rest = seen[end:][-64:]
        self.is_done = self._rest.endswith(_END)
        return ages


@cache
def _body(wished: str) -> bytes:
    """Instructions, tools, and a conversation of tool calls that fills the rest."""
    pieces = cycle(textwrap.wrap(inspect.getsource(argparse), 1200, replace_whitespace=False))
    made: dict[str, Any] = {
        "model": "claude-opus-5-5",
        "max_tokens": 32000,
        "stream": True,
        "system": [{"type": "text", "text": "\n".join(islice(pieces, 10)), "cache_control": {"type": "ephemeral"}}],
        "tools": [_tool(name, next(pieces)) for name in _TOOLS],
        "messages": [{"role": "user", "content": f"Mend what the tests complain of: {wished}."}],
    }
    number = 0
    while len(json.dumps(made)) < _BODY_BYTES:
        number += 1
        made["messages"] += _turn(f"toolu_{number:024d}", next(pieces))
    return json.dumps(made, separators=(",", ":")).encode()


def _tool(name: str, description: str) -> dict[str, Any]:
    fields = {
        f"{name.lower()}_{field}": {"type": "string", "description": f"The {field}."} for field in ("path", "text")
    }
    schema = {"type": "object", "properties": fields, "required": sorted(fields), "additionalProperties": False}
    return {"name": name, "description": description, "input_schema": schema}


def _turn(call: str, result: str) -> list[dict[str, Any]]:
    use = {
        "type": "tool_use",
        "id": call,
        "name": "Bash",
        "input": {"command": "make test", "description": "Run tests"},
    }
    answer = {"type": "tool_result", "tool_use_id": call, "content": result, "is_error": False}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [answer]}]


def _chunk(*events: dict[str, Any]) -> bytes:
    data = "".join(f"event: {event['type']}\ndata: {json.dumps(event, separators=(',', ':'))}\n\n" for event in events)
    return f"{len(data):x}\r\n{data}\r\n".encode()
