"""The listener between an agent and its model: checks the token, meters each call, watches for silence."""

import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager

import msgspec

from inspan.gateway.call import ModelCall
from inspan.gateway.http import ClientHungUp, HttpReply, HttpRequest, HttpServer
from inspan.gateway.metered import MeteredReply, StallWatch
from inspan.gateway.upstream import Ask, Purpose, Request, Upstream
from inspan.gateway.wire import Json, Wire
from inspan.gateway.wires import recognise


class Gateway:
    """Serves one run. `on_call` hears of every call exactly once, after its end.

    `on_stall` hears of a call that has sent no byte for `stall_timeout_s`, once for each silence.
    """

    def __init__(
        self,
        *,
        token: str,
        upstream: Upstream,
        on_call: Callable[[ModelCall], None],
        stall_timeout_s: float | None = None,
        on_stall: Callable[[ModelCall], None] | None = None,
    ) -> None:
        self._token = token
        self._upstream = upstream
        self._on_call = on_call
        self._watch = StallWatch(timeout_s=stall_timeout_s, on_stall=on_stall)
        self._server = HttpServer(self._serve)
        self._calls_seen = 0
        self._calls_in_flight = 0

    @property
    def calls_in_flight(self) -> int:
        return self._calls_in_flight

    async def open(self, listener: socket.socket) -> None:
        """Serves the socket, which the gateway then owns."""
        await self._server.open(listener)

    async def close(self) -> None:
        """Bounded and idempotent; calls in flight are cut and reported before it returns."""
        await self._server.close()

    async def _serve(self, http: HttpRequest, reply: HttpReply) -> None:
        wire, purpose = recognise(http.method, http.path, speaks_messages=_speaks_messages(http))
        if http.headers.get("upgrade", "").lower() == "websocket":
            return await _send(reply, 426, wire.error(426, "This endpoint does not speak WebSocket."))
        if http.method in ("HEAD", "OPTIONS"):
            return await _send(reply, 200, b"")
        if http.method == "GET" and purpose is None:
            return await _send(reply, 404, wire.error(404, f"Nothing is served at {http.path}."))
        if not self._is_from_the_run(http):
            return await self._refuse(wire, reply, status=401, message="Invalid API key.", problem="wrong token")
        if purpose is None:
            message = f"Nothing is served at {http.method} {http.path}."
            problem = f"unexpected request: {http.method} {http.path}"
            return await self._refuse(wire, reply, status=404, message=message, problem=problem)
        return await self._pass_on(wire, purpose, http, reply)

    def _is_from_the_run(self, http: HttpRequest) -> bool:
        scheme, _, bearer = http.headers.get("authorization", "").partition(" ")
        return self._token in (
            http.headers.get("x-api-key"),
            bearer.strip() if scheme.lower() == "bearer" else None,
        )

    async def _pass_on(self, wire: Wire, purpose: Purpose, http: HttpRequest, reply: HttpReply) -> None:
        try:
            ask = wire.ask(msgspec.json.decode(http.body, type=Json), http.path) if purpose == "call" else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            message = f"The request body is not a JSON object: {error}"
            problem = "unexpected request: malformed body"
            return await self._refuse(wire, reply, status=400, message=message, problem=problem)
        request = _request(http, wire=wire, purpose=purpose, ask=ask)
        if ask is None:
            return await self._ask_upstream(wire, request, self._metered(wire, reply, model=""))
        with self._reported(self._metered(wire, reply, model=ask.model)) as metered:
            return await self._ask_upstream(wire, request, metered)

    async def _ask_upstream(self, wire: Wire, request: Request, reply: MeteredReply) -> None:
        try:
            await self._upstream.answer(request, reply)
        except ClientHungUp:
            raise
        except Exception as error:  # An upstream may break in any way; the run must still hear of the call.
            reply.note(f"gateway broke: {error!r}")
            if reply.started:
                reply.cut()
            else:
                await _send(reply, 500, wire.error(500, "The gateway could not answer."))
        finally:
            reply.disarm()

    async def _refuse(self, wire: Wire, reply: HttpReply, *, status: int, message: str, problem: str) -> None:
        """Answers without asking the upstream, and reports it as a call."""
        with self._reported(self._metered(wire, reply, model="")) as metered:
            metered.note(problem)
            await _send(metered, status, wire.error(status, message))

    def _metered(self, wire: Wire, reply: HttpReply, *, model: str) -> MeteredReply:
        return MeteredReply(reply, wire=wire, model=model, number=self._calls_seen + 1, watch=self._watch)

    @contextmanager
    def _reported(self, reply: MeteredReply) -> Generator[MeteredReply]:
        self._calls_seen += 1
        self._calls_in_flight += 1
        try:
            yield reply
        finally:
            self._calls_in_flight -= 1
            reply.disarm()
            self._on_call(reply.report())


def _speaks_messages(http: HttpRequest) -> bool:
    return "anthropic-version" in http.headers or "x-api-key" in http.headers


def _request(http: HttpRequest, *, wire: Wire, purpose: Purpose, ask: Ask | None) -> Request:
    target = f"{http.path}?{http.query}" if http.query else http.path
    return Request(
        method=http.method,
        path=target,
        headers=http.headers,
        body=http.body,
        plain=http.body,
        wire=wire.name,
        purpose=purpose,
        ask=ask,
    )


async def _send(reply: HttpReply | MeteredReply, status: int, body: bytes) -> None:
    await reply.start(status, {"content-type": "application/json", "content-length": str(len(body))})
    await reply.write(body)
    await reply.finish()
