"""The listener between an agent and its model: checks the head, asks the controls, meters each call."""

import asyncio
import socket
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from inspan.framing.http import RequestHead
from inspan.gateway.admission import Admission, authenticate
from inspan.gateway.control import Control, Refusal
from inspan.gateway.http.server import ClientHungUp, HttpReply, HttpServer, Limits, ShortAnswer, log_fault
from inspan.gateway.upstream import Ask, Purpose, Reply, Request, Upstream
from inspan.gateway.wires import find_wire
from inspan.gateway.wires.wire import Json, Wire

from .call_roles import CallRoles
from .metered_reply import MeteredReply, StallWatch
from .model_call import ModelCall
from .usage_meter import Room

if TYPE_CHECKING:
    from inspan.gateway.faults import Fault, Faults
    from inspan.gateway.tool_endpoint import ToolEndpoint

_UNREADABLE = (ValueError, RecursionError)  # Of which both kinds of a decoding error are.
_PROBES = ("HEAD", "OPTIONS")
# An agent that asks for more than these is not told of one by one.
_MAX_UNEXPECTED_REPORTS = 100
_MAX_TARGET_LENGTH = 200
_TOOLS_PATH = "/mcp"


@dataclass(frozen=True, kw_only=True, slots=True)
class _AdmittedRequest:
    """A request of the run, as far as its head tells."""

    admission: Admission
    path: str
    wire: Wire
    purpose: Purpose


@dataclass(frozen=True, kw_only=True, slots=True)
class _ToolRequest:
    """A request of the run's agent to the caller's own tools."""


class Gateway:
    """Serves one run. `on_call` hears of every call exactly once, after its end.

    `on_stall` hears of a call that has sent no byte for `stall_timeout_s`, once for each silence. `controls` may hold
    a call back or refuse it; `refusal_status` is the status of a refusal where the wire's own would not stop this
    agent. `passes_other`: what is no model call is asked of the upstream too, as long as it only reads. Of all answers
    together no more is kept than `answers_room`. `on_fault` hears of what breaks in here: no provider is to be blamed
    for that.

    `calls_held` are the calls that a control holds back at this moment. `unauthorized_requests` counts what came
    without the run's token, of which nobody hears otherwise; `unexpected_requests` what came with it and asked for
    something that is not served.
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
        limits: Limits | None = None,
        answers_room: Room | None = None,
        on_fault: Callable[[Exception], None] = log_fault,
        tools: "ToolEndpoint | None" = None,
    ) -> None:
        self._tools = tools
        self._token = token
        self._upstream = upstream
        self._on_call = on_call
        self._watch = StallWatch(timeout_s=stall_timeout_s, on_stall=on_stall)
        self._controls = controls
        self._faults = faults
        self._refusal_status = refusal_status
        self._passes_other = passes_other
        self._roles = CallRoles(expects_tools=expects_tools)
        self._on_fault = on_fault
        self._server = HttpServer(self._check, self._serve, limits=limits, on_fault=on_fault)
        self._answers_room = answers_room or Room()
        self._calls_seen = 0
        self._in_flight: set[MeteredReply] = set()
        self._active_at = 0.0
        self.calls_held = 0
        self.unauthorized_requests = 0
        self.unexpected_requests = 0

    @property
    def calls_in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def active_at(self) -> float:
        """When a model call last began, brought something or ended, by the clock of the event loop."""
        return max((self._active_at, *(reply.active_at for reply in self._in_flight)))

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return self._server.connections

    async def open(self, listener: socket.socket) -> None:
        """Serves the socket, which the gateway then owns."""
        await self._server.open(listener)

    async def close(self) -> None:
        """Bounded and idempotent; calls in flight are cut and reported before it returns."""
        await self._server.close()

    def _check(self, head: RequestHead) -> _AdmittedRequest | _ToolRequest | ShortAnswer:
        """Decides by the head alone: nothing of a body is read for whoever has no business here."""
        admission = authenticate(head, self._token)
        path = admission.target.path if admission.target else "/"
        wire, purpose = find_wire(head.method, path, headers=head.headers)
        if head.headers.get("upgrade", "").lower() == "websocket":
            return ShortAnswer(status=426, body=wire.encode_error(426, "This endpoint does not speak WebSocket."))
        if head.method in _PROBES:
            return ShortAnswer(status=200)
        if not admission.has_token:
            return self._reject(head, wire)
        if admission.target is None:
            return self._refuse_unexpected(head, wire, admission.problem)
        if self._tools and path == _TOOLS_PATH:
            return _ToolRequest() if head.method == "POST" else ShortAnswer(status=405)
        if purpose is None and (head.method != "GET" or not self._passes_other):
            return self._refuse_unexpected(head, wire, "")
        return _AdmittedRequest(admission=admission, path=path, wire=wire, purpose=purpose or "other")

    def _reject(self, head: RequestHead, wire: Wire) -> ShortAnswer:
        self.unauthorized_requests += 1
        status, message = (404, "Nothing is served here.") if head.method == "GET" else (401, "Invalid API key.")
        return ShortAnswer(status=status, body=wire.encode_error(status, message), is_unauthenticated=True)

    def _refuse_unexpected(self, head: RequestHead, wire: Wire, problem: str) -> ShortAnswer:
        """What the agent asks for by reading alone is left out of the report: agents look for many things."""
        asked = f"{head.method} {head.target[:_MAX_TARGET_LENGTH]}"
        status = 400 if problem else 404
        message = f"{asked} is refused: {problem}." if problem else f"Nothing is served at {asked}."
        if problem or head.method != "GET":
            self._report_unexpected(wire, status, f"unexpected request: {asked}" + f" ({problem})" * bool(problem))
        return ShortAnswer(status=status, body=wire.encode_error(status, message))

    def _report_unexpected(self, wire: Wire, status: int, problem: str) -> None:
        self.unexpected_requests += 1
        if self.unexpected_requests > _MAX_UNEXPECTED_REPORTS:
            return
        self._calls_seen += 1
        number, name = self._calls_seen, wire.name
        call = ModelCall(number=number, wire=name, model="", status=status, usage=None, duration_s=0.0, problem=problem)
        self._roles.on_ended(call)
        self._on_call(call)

    async def _serve(self, admitted: _AdmittedRequest | _ToolRequest, body: bytes, reply: HttpReply) -> None:
        if isinstance(admitted, _ToolRequest):
            if self._tools:
                await self._tools.serve(body, reply)
            return
        await self._serve_model(admitted, body, reply)

    async def _serve_model(self, admitted: _AdmittedRequest, body: bytes, reply: HttpReply) -> None:
        wire = admitted.wire
        try:
            plain = _decode(body, admitted.admission.headers.get("content-encoding", ""))
            is_call = admitted.purpose == "call"
            ask = wire.parse_request(msgspec.json.decode(plain, type=Json), admitted.path) if is_call else None
        except _UNREADABLE as error:
            message = f"The request body is refused: {error}"
            refusal = Refusal(status=400, message=message, problem="unexpected request: malformed body")
            with self._track_call(self._meter_reply(wire, reply, model="")) as metered:
                return await self._refuse(wire, metered, refusal)
        request = _build_request(admitted, body=body, plain=plain, ask=ask)
        if ask is None:
            metered = self._meter_reply(wire, reply, model="")
            metered.begin()
            return await self._ask_upstream(wire, request, metered)
        with self._track_call(self._meter_reply(wire, reply, model=ask.model, size=len(plain))) as metered:
            metered.role = self._roles.classify(ask, metered.number, has_hung_up=lambda: reply.client_is_gone)
            return await self._handle_call(wire, request, metered, stream=ask.stream)

    async def _handle_call(self, wire: Wire, request: Request, reply: MeteredReply, *, stream: bool) -> None:
        """Spoils, refuses or answers one call to the model."""
        fault = self._faults.fault_for(reply.number) if self._faults else None
        if fault and fault.status:
            return await _send_fault(fault, wire, reply)
        self.calls_held += 1
        try:
            refusal = await self._ask_controls(request, reply)
        finally:
            self.calls_held -= 1
        if refusal:
            return await self._refuse(wire, reply, refusal)
        reply.begin(_make_fault_wrapper(fault, stream=stream, on_problem=reply.note) if fault else None)
        return await self._ask_upstream(wire, request, reply)

    async def _ask_controls(self, request: Request, reply: MeteredReply) -> Refusal | None:
        """The first refusal of a control."""
        for control in self._controls:
            try:
                refusal = await control.admit(request, reply.number)
            except Exception as error:  # A limit that cannot be looked at is not passed by.
                self._on_fault(error)
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
            self._on_fault(error)
            if reply.started:
                reply.cut()
            else:
                await _send(reply, 500, wire.encode_error(500, "The gateway could not answer."))
        finally:
            reply.disarm()

    async def _refuse(self, wire: Wire, reply: MeteredReply, refusal: Refusal) -> None:
        reply.note(refusal.problem)
        reply.begin()
        status = refusal.status or self._refusal_status or wire.refusal_status
        await _send(reply, status, wire.encode_error(status, refusal.message), headers=refusal.headers)

    def _meter_reply(self, wire: Wire, reply: HttpReply, *, model: str, size: int = 0) -> MeteredReply:
        return MeteredReply(
            reply,
            wire=wire,
            model=model,
            number=self._calls_seen + 1,
            watch=self._watch,
            request_bytes=size,
            room=self._answers_room,
        )

    @contextmanager
    def _track_call(self, reply: MeteredReply) -> Generator[MeteredReply]:
        self._calls_seen += 1
        self._in_flight.add(reply)
        try:
            yield reply
        finally:
            self._in_flight.discard(reply)
            self._active_at = asyncio.get_running_loop().time()
            reply.disarm()
            call = reply.report()
            self._roles.on_ended(call)
            self._on_call(call)
            for control in reply.admitted_by:
                control.on_ended(call)


def _build_request(admitted: _AdmittedRequest, *, body: bytes, plain: bytes, ask: Ask | None) -> Request:
    """From what was matched; a body goes with nothing but a post."""
    admission = admitted.admission
    is_post = admission.method == "POST"
    return Request(
        method=admission.method,
        path=str(admission.target),
        headers=admission.headers,
        body=body if is_post else b"",
        plain=plain if is_post else b"",
        wire=admitted.wire.name,
        purpose=admitted.purpose,
        ask=ask,
        key_place=admission.find_key_place(admitted.wire.key_places),
    )


def _decode(body: bytes, encoding: str) -> bytes:
    """The body without its encoding; raises `ValueError`."""
    if not encoding:
        return body
    from inspan.gateway.http.encodings import decode_body  # Start-up time: hardly anybody compresses a request.

    return decode_body(body, encoding)


async def _send_fault(fault: "Fault", wire: Wire, reply: MeteredReply) -> None:
    from inspan.gateway.faults import send_failure  # Start-up time: few runs ask for faults.

    reply.begin()
    await send_failure(fault, wire, reply)


def _make_fault_wrapper(fault: "Fault", *, stream: bool, on_problem: Callable[[str], None]) -> Callable[[Reply], Reply]:
    from inspan.gateway.faults import FaultyReply  # Start-up time: few runs have faults.

    return lambda client: FaultyReply(client, fault, stream=stream, on_problem=on_problem)


async def _send(
    reply: HttpReply | MeteredReply, status: int, body: bytes, *, headers: Mapping[str, str] | None = None
) -> None:
    length = {"content-type": "application/json", "content-length": str(len(body))}
    await reply.start(status, {**(headers or {}), **length})
    await reply.write(body)
    await reply.finish()
