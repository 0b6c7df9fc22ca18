"""The tools of whoever started the run, offered to its agent as an MCP server on the gateway's own listener."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from inspan.framing.mcp import build_initialization, build_tool_result, describe_tool
from inspan.gateway.http.server import HttpReply
from inspan.protocol.known_types import know_type
from inspan.protocol.task import ToolSpec
from inspan.protocol.wire import DECODE_ERRORS

_INVALID_REQUEST, _METHOD_NOT_FOUND, _INVALID_PARAMS = -32600, -32601, -32602
_Json = dict[str, Any]


class ToolOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool gave: text, which may be an error's."""

    text: str
    failed: bool = False


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a tool has come."""

    progress: float
    total: float | None = None
    message: str = ""


OnProgress = Callable[[Progress], None]


class CallTool(Protocol):
    """Calls a tool by its name; cancelled where nobody waits for it any more."""

    def __call__(self, name: str, given: Any, on_progress: OnProgress) -> Awaitable[ToolOutput]: ...


class _Request(msgspec.Struct, gc=False):
    method: str = ""
    id: str | int | None = None
    params: dict[str, Any] = {}


_decode = msgspec.json.Decoder(know_type(_Request)).decode


class ToolEndpoint:
    """Answers the requests of the run's agent: each is one POST, and its answer JSON, or events while it goes on."""

    def __init__(self, tools: Sequence[ToolSpec], call: CallTool) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._call = call
        self._running: dict[str | int, asyncio.Future[ToolOutput]] = {}
        self._methods: dict[str, Callable[[_Json], _Json]] = {
            "initialize": build_initialization,
            "ping": lambda params: {},
            "tools/list": lambda params: {"tools": [_describe(tool) for tool in self._tools.values()]},
        }

    async def serve(self, body: bytes, reply: HttpReply) -> None:
        """One message of the agent's."""
        try:
            request = _decode(body)
        except DECODE_ERRORS as error:
            return await _send_json(reply, 400, _build_error(None, _INVALID_REQUEST, f"not a request: {error}"))
        if request.id is None:
            self._on_notification(request)
            return await _send_json(reply, 202, None)
        if request.method == "tools/call":
            return await self._serve_call(request, reply)
        method = self._methods.get(request.method)
        if method is None:
            answer = _build_error(request.id, _METHOD_NOT_FOUND, f"Method not found: {request.method}")
        else:
            answer = {"jsonrpc": "2.0", "id": request.id, "result": method(request.params)}
        return await _send_json(reply, 200, answer)

    def _on_notification(self, request: _Request) -> None:
        if request.method == "notifications/cancelled":
            running = self._running.get(request.params.get("requestId", ""))
            if running:
                running.cancel()

    async def _serve_call(self, request: _Request, reply: HttpReply) -> None:
        name, identity = str(request.params.get("name") or ""), request.id or 0
        if name not in self._tools:
            known = ", ".join(self._tools)
            text = f"There is no tool {name!r}; there are: {known}."
            return await _send_json(reply, 200, _build_error(identity, _INVALID_PARAMS, text))
        waiting: asyncio.Queue[Progress] = asyncio.Queue()
        given: Any = request.params.get("arguments")
        running = asyncio.ensure_future(self._call(name, given, waiting.put_nowait))
        self._running[identity] = running
        try:
            await _stream_progress(request, reply, running, waiting)
            answer = {"jsonrpc": "2.0", "id": identity, "result": _build_result(await _get_output(running))}
        finally:
            self._running.pop(identity, None)
            running.cancel()
        if reply.started:
            await reply.write(_encode_event(answer))
            return await reply.finish()
        return await _send_json(reply, 200, answer)


async def _stream_progress(
    request: _Request, reply: HttpReply, running: "asyncio.Future[ToolOutput]", waiting: "asyncio.Queue[Progress]"
) -> None:
    """Tells of progress, where the agent wants to know of it, until the tool has ended."""
    token = request.params.get("_meta", {}).get("progressToken")
    while not running.done():
        told = asyncio.ensure_future(waiting.get())
        await asyncio.wait({running, told}, return_when=asyncio.FIRST_COMPLETED)
        if not told.done():
            told.cancel()
        elif token is not None:
            if not reply.started:
                await reply.start(200, {"content-type": "text/event-stream", "cache-control": "no-store"})
            params = {"progressToken": token, **msgspec.to_builtins(told.result())}
            note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            await reply.write(_encode_event(note))


async def _get_output(running: "asyncio.Future[ToolOutput]") -> ToolOutput:
    try:
        return await running
    except asyncio.CancelledError:
        if not running.cancelled():
            raise
        return ToolOutput(text="the call was cancelled", failed=True)


def _describe(tool: ToolSpec) -> _Json:
    return describe_tool(tool.name, description=tool.description, input_schema=tool.input_schema)


def _build_result(output: ToolOutput) -> _Json:
    """The text, and what it holds where it is JSON: some programs make that of it themselves, and then refuse what is
    no object."""
    result = build_tool_result(output.text, failed=output.failed)
    try:
        value: Any = msgspec.json.decode(output.text)
    except DECODE_ERRORS:
        return result
    return {**result, "structuredContent": value if isinstance(value, dict) else {"result": value}}


def _build_error(identity: str | int | None, code: int, message: str) -> _Json:
    return {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": message}}


def _encode_event(message: _Json) -> bytes:
    return b"event: message\ndata: " + msgspec.json.encode(message) + b"\n\n"


async def _send_json(reply: HttpReply, status: int, value: _Json | None) -> None:
    body = b"" if value is None else msgspec.json.encode(value)
    await reply.start(status, {"content-type": "application/json", "content-length": str(len(body))})
    await reply.write(body)
    await reply.finish()
