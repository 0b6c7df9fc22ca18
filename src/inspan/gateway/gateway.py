"""The listener between an agent and its model: checks the token, asks the controls, meters each call."""

import socket
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from inspan.gateway.call import ModelCall
from inspan.gateway.control import Control, Refusal
from inspan.gateway.door import carries, path_within
from inspan.gateway.http.server import ClientHungUp, HttpReply, HttpRequest, HttpServer
from inspan.gateway.metered import MeteredReply, StallWatch
from inspan.gateway.roles import Roles
from inspan.gateway.upstream import Ask, Purpose, Reply, Request, Upstream
from inspan.gateway.wires import REFUSAL_STATUS, recognise
from inspan.gateway.wires.wire import Json, Wire

if TYPE_CHECKING:
    from inspan.gateway.faults import Fault, Faults

_UNREADABLE = (ValueError, RecursionError)  # Of which both kinds of a decoding error are.


class Gateway:
    """Serves one run. `on_call` hears of every call exactly once, after its end.

    `on_stall` hears of a call that has sent no byte for `stall_timeout_s`, once for each silence. `controls` may hold
    a call back or refuse it; `refusal_status` is the status of a refusal where the wire's own would not stop this
    agent. `passes_other`: what is no model call is asked of the upstream too, as long as it only reads.
    """

    def __init__(
        self,
        *,
        token: str,
        upstream: Upstream,
        on_call: Callable[[ModelCall], None],
        stall_timeout_s: float | None = None,
        on_stall: Callable[[ModelCall], None] | None = None,
        controls: Sequence[Control] = (),
        faults: "Faults | None" = None,
        refusal_status: int = 0,
        expects_tools: bool = True,
        passes_other: bool = False,
    ) -> None:
        self._token = token
        self._upstream = upstream
        self._on_call = on_call
        self._watch = StallWatch(timeout_s=stall_timeout_s, on_stall=on_stall)
        self._controls = controls
        self._faults = faults
        self._refusal_status = refusal_status
        self._passes_other = passes_other
        self._roles = Roles(expects_tools=expects_tools)
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
        path = path_within(http, self._token)
        wire, purpose = recognise(http.method, path, headers=http.headers)
        if http.headers.get("upgrade", "").lower() == "websocket":
            return await _send(reply, 426, wire.error(426, "This endpoint does not speak WebSocket."))
        if http.method in ("HEAD", "OPTIONS"):
            return await _send(reply, 200, b"")
        known = carries(http, self._token)
        if http.method == "GET" and purpose is None and not (known and self._passes_other):
            return await _send(reply, 404, wire.error(404, f"Nothing is served at {path}."))
        if not known:
            refusal = Refusal(status=401, message="Invalid API key.", problem="wrong token")
            return await self._turn_away(wire, reply, refusal)
        if purpose is None and http.method != "GET":
            problem = f"unexpected request: {http.method} {path}"
            message = f"Nothing is served at {http.method} {path}."
            return await self._turn_away(wire, reply, Refusal(status=404, message=message, problem=problem))
        return await self._take(wire, purpose or "other", http, path, reply)

    async def _take(self, wire: Wire, purpose: Purpose, http: HttpRequest, path: str, reply: HttpReply) -> None:
        try:
            plain = _plain(http)
            ask = wire.ask(msgspec.json.decode(plain, type=Json), path) if purpose == "call" else None
        except _UNREADABLE as error:
            message = f"The request body is not a JSON object: {error}"
            refusal = Refusal(status=400, message=message, problem="unexpected request: malformed body")
            return await self._turn_away(wire, reply, refusal)
        request = _request(http, path=path, plain=plain, wire=wire, purpose=purpose, ask=ask)
        if ask is None:
            metered = self._metered(wire, reply, model="")
            metered.begin()
            return await self._ask_upstream(wire, request, metered)
        with self._reported(self._metered(wire, reply, model=ask.model, size=len(plain))) as metered:
            metered.role = self._roles.of(ask, metered.number, is_left=lambda: reply.client_is_gone)
            return await self._pass_on(wire, request, metered, stream=ask.stream)

    async def _pass_on(self, wire: Wire, request: Request, reply: MeteredReply, *, stream: bool) -> None:
        """Spoils, refuses or answers one call to the model."""
        fault = self._faults.of_call(reply.number) if self._faults else None
        if fault and fault.status:
            return await _fail(fault, wire, reply)
        refusal = await self._asked(request, reply)
        if refusal:
            return await self._refuse(wire, reply, refusal)
        reply.begin(_spoiling(fault, stream=stream, on_problem=reply.note) if fault else None)
        return await self._ask_upstream(wire, request, reply)

    async def _asked(self, request: Request, reply: MeteredReply) -> Refusal | None:
        """The first refusal of a control."""
        for control in self._controls:
            try:
                refusal = await control.admit(request, reply.number)
            except Exception as error:  # A limit that cannot be looked at is not passed by.
                message = "The gateway could not answer."
                refusal = Refusal(status=500, message=message, problem=f"gateway broke: {error!r}")
            if refusal:
                return refusal
            reply.admitted_by.append(control)
        return None

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

    async def _turn_away(self, wire: Wire, reply: HttpReply, refusal: Refusal) -> None:
        """Answers what is no call of this run without asking anybody, and reports it."""
        with self._reported(self._metered(wire, reply, model="")) as metered:
            await self._refuse(wire, metered, refusal)

    async def _refuse(self, wire: Wire, reply: MeteredReply, refusal: Refusal) -> None:
        reply.note(refusal.problem)
        reply.begin()
        status = refusal.status or self._refusal_status or REFUSAL_STATUS[wire.name]
        await _send(reply, status, wire.error(status, refusal.message), headers=refusal.headers)

    def _metered(self, wire: Wire, reply: HttpReply, *, model: str, size: int = 0) -> MeteredReply:
        return MeteredReply(
            reply, wire=wire, model=model, number=self._calls_seen + 1, watch=self._watch, request_bytes=size
        )

    @contextmanager
    def _reported(self, reply: MeteredReply) -> Generator[MeteredReply]:
        self._calls_seen += 1
        self._calls_in_flight += 1
        try:
            yield reply
        finally:
            self._calls_in_flight -= 1
            reply.disarm()
            call = reply.report()
            self._roles.ended(call)
            self._on_call(call)
            for control in reply.admitted_by:
                control.ended(call)


def _request(http: HttpRequest, *, path: str, plain: bytes, wire: Wire, purpose: Purpose, ask: Ask | None) -> Request:
    return Request(
        method=http.method,
        path=f"{path}?{http.query}" if http.query else path,
        headers=http.headers,
        body=http.body,
        plain=plain,
        wire=wire.name,
        purpose=purpose,
        ask=ask,
    )


def _plain(http: HttpRequest) -> bytes:
    """The body without its encoding; raises `ValueError`."""
    encoding = http.headers.get("content-encoding", "")
    if not encoding:
        return http.body
    from inspan.gateway.http.encodings import decoded  # Start-up time: hardly anybody compresses a request.

    return decoded(http.body, encoding)


async def _fail(fault: "Fault", wire: Wire, reply: MeteredReply) -> None:
    from inspan.gateway.faults import fail  # Start-up time: few runs ask for faults.

    reply.begin()
    await fail(fault, wire, reply)


def _spoiling(fault: "Fault", *, stream: bool, on_problem: Callable[[str], None]) -> Callable[[Reply], Reply]:
    from inspan.gateway.faults import FaultyReply

    return lambda client: FaultyReply(client, fault, stream=stream, on_problem=on_problem)


async def _send(
    reply: HttpReply | MeteredReply, status: int, body: bytes, *, headers: Mapping[str, str] | None = None
) -> None:
    length = {"content-type": "application/json", "content-length": str(len(body))}
    await reply.start(status, {**(headers or {}), **length})
    await reply.write(body)
    await reply.finish()
