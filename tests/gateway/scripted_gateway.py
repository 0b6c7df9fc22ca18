"""A gateway that plays a scenario on its own thread, so that tests can talk to it with plain sockets."""

import asyncio
import http.client
import json
import queue
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from inspan.gateway import Gateway, ModelCall, Reply, Request, ScriptUpstream, Upstream, parse_scenario
from inspan.gateway.faults import Faults, parse_fault
from inspan.gateway.turn_limit import TurnLimit

TOKEN = "run-token-1"
WAIT_S = 120.0
Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Response:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        return json.loads(self.body)

    @property
    def events(self) -> list[Json]:
        lines = [line[6:] for line in self.body.decode().splitlines() if line.startswith("data: ")]
        return [json.loads(line) for line in lines if line != "[DONE]"]


class _BodyRecorder:
    """Keeps the body of every model call on its way."""

    def __init__(self, upstream: Upstream) -> None:
        self.bodies: list[Json] = []
        self._upstream = upstream

    async def answer(self, request: Request, reply: Reply) -> None:
        if request.ask is not None:
            self.bodies.append(json.loads(request.body))
        await self._upstream.answer(request, reply)


class ScriptedGateway:
    """Opens on entering, closes on leaving; every wait in it is bounded."""

    def __init__(
        self,
        scenario: str,
        *,
        cwd: str = "/",
        stall_timeout_s: float | None = None,
        most_calls: int | None = None,
        faults: tuple[str, ...] = (),
    ) -> None:
        self.script = ScriptUpstream(parse_scenario(scenario, name="test"), cwd=cwd)
        self.excesses = 0
        self._noting = _BodyRecorder(self.script)
        self._calls: queue.Queue[ModelCall] = queue.Queue()
        self._stalls: queue.Queue[ModelCall] = queue.Queue()
        self.gateway = Gateway(
            token=TOKEN,
            upstream=self._noting,
            on_call=self._calls.put,
            stall_timeout_s=stall_timeout_s,
            on_stall=self._stalls.put,
            controls=[TurnLimit(max_calls=most_calls, on_excess=self._exceed)] if most_calls else [],
            faults=Faults([parse_fault(text) for text in faults]),
        )
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> "ScriptedGateway":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.gateway.open(self._listener), self._loop).result(WAIT_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_S)
        self._loop.close()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self.gateway.close(), self._loop).result(WAIT_S)

    def _exceed(self) -> None:
        self.excesses += 1

    @property
    def bodies(self) -> list[Json]:
        """What each model call has asked, in order."""
        return self._noting.bodies

    def next_call(self) -> ModelCall:
        return self._calls.get(timeout=WAIT_S)

    def next_stall(self) -> ModelCall:
        return self._stalls.get(timeout=WAIT_S)

    def calls_so_far(self) -> list[ModelCall]:
        """Those not yet taken; complete only once the stage is closed."""
        return [self._calls.get_nowait() for _ in range(self._calls.qsize())]

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)

    def send(
        self, method: str, path: str, *, body: Json | bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Response:
        connection = self.connect()
        try:
            return exchange(connection, method, path, body=body, headers=headers)
        finally:
            connection.close()

    def ask(self, wire: str, text: str = "hi", *, stream: bool = True, tools: tuple[Json, ...] = ()) -> Response:
        return self.send("POST", path_of(wire, stream=stream), body=ask_body(wire, text, stream=stream, tools=tools))


def exchange(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    *,
    body: Json | bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> Response:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, path, sent, {"x-api-key": TOKEN} if headers is None else dict(headers))
    answer = connection.getresponse()
    found = {name.lower(): value for name, value in answer.getheaders()}
    return Response(status=answer.status, headers=found, body=answer.read())


PATHS = {
    "messages": "/v1/messages?beta=true",
    "responses": "/v1/responses",
    "chat": "/v1/chat/completions",
    "generate": "/v1beta/models/some-model:streamGenerateContent?alt=sse",
}
WIRES = tuple(PATHS)
INVALID_REQUEST = dict.fromkeys(WIRES, "invalid_request_error") | {"generate": "INVALID_ARGUMENT"}


def path_of(wire: str, *, stream: bool) -> str:
    """Where a wire is asked; one of them says in the path whether it is to stream."""
    return PATHS[wire] if stream else PATHS[wire].replace(":streamGenerateContent?alt=sse", ":generateContent")


def error_kind(wire: str, body: Json) -> str:
    """What an error is called on a wire."""
    return body["error"]["status" if wire == "generate" else "type"]


def ask_body(wire: str, text: str, *, stream: bool, tools: tuple[Json, ...] = ()) -> Json:
    if wire == "generate":
        said = [{"role": "user", "parts": [{"text": text}]}]
        return {"contents": said, "tools": [{"functionDeclarations": [declare_tool(wire, tool) for tool in tools]}]}
    said = [{"role": "user", "content": text}]
    return {
        "model": "some-model",
        "stream": stream,
        "input" if wire == "responses" else "messages": said,
        "tools": [declare_tool(wire, tool) for tool in tools],
    }


def declare_tool(wire: str, tool: Json) -> Json:
    """A tool (name, kind, properties) as the wire declares it."""
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in tool.get("fields", ())}}
    kind = tool.get("kind", "function")
    if wire == "messages":
        return {"name": tool["name"], "input_schema": schema}
    if wire == "responses":
        return {"type": kind, "name": tool["name"], "parameters": schema}
    if wire == "generate":
        return {"name": tool["name"], "parametersJsonSchema": schema}
    return {"type": kind, kind: {"name": tool["name"], "parameters": schema}}


def texts_in_events(wire: str, events: list[Json]) -> list[str]:
    """The text deltas of a stream, in order."""
    if wire == "messages":
        return [event["delta"]["text"] for event in events if event.get("delta", {}).get("type") == "text_delta"]
    if wire == "responses":
        return [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    if wire == "generate":
        return [text for event in events for text in _texts_in_parts(event)]
    deltas = [choice["delta"].get("content") for event in events for choice in event["choices"]]
    return [delta for delta in deltas if delta]


def text_in_body(wire: str, body: Json) -> str:
    if wire == "messages":
        return "".join(block["text"] for block in body["content"] if block["type"] == "text")
    if wire == "responses":
        messages = [item for item in body["output"] if item["type"] == "message"]
        return "".join(part["text"] for item in messages for part in item["content"])
    if wire == "generate":
        return "".join(_texts_in_parts(body))
    return body["choices"][0]["message"]["content"]


def tool_in_body(wire: str, body: Json) -> tuple[str, Json]:
    """The name and arguments of the one tool that an unstreamed answer uses."""
    if wire == "messages":
        (use,) = [block for block in body["content"] if block["type"] == "tool_use"]
        return use["name"], use["input"]
    if wire == "responses":
        (use,) = [item for item in body["output"] if item["type"] == "function_call"]
        return use["name"], json.loads(use["arguments"])
    if wire == "generate":
        (use,) = [part["functionCall"] for part in _parts(body) if "functionCall" in part]
        return use["name"], use["args"]
    (use,) = body["choices"][0]["message"]["tool_calls"]
    return use["function"]["name"], json.loads(use["function"]["arguments"])


def _parts(response: Json) -> list[Json]:
    return [part for candidate in response["candidates"] for part in candidate["content"]["parts"]]


def _texts_in_parts(response: Json) -> list[str]:
    return [part["text"] for part in _parts(response) if part.get("text") and not part.get("thought")]
