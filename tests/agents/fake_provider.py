"""A provider on loopback that keeps books of its own: who asked when, what it answered, which usage it stated."""

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from inspan.gateway.scripts.scenario import Use
from inspan.gateway.scripts.tool_choice import choose_tool
from inspan.gateway.upstream import Ask
from inspan.gateway.wires import find_wire
from inspan.gateway.wires.wire import Answer, ToolUse, Wire, list_objects
from inspan.protocol.usage import Usage

# Longer than a test may take: what waits for its word goes on before it only when the test is over.
WAIT_S = 300.0
KEY = "provider-key-0123456789"
Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ReceivedCall:
    """A model call as it arrived: the calls of all runs are numbered together, from 1.

    `session` is the agent's own name for its conversation, and `results` is how many tools it has used so far in it,
    so that an answer needs no memory.
    """

    number: int
    at: float
    key: str
    session: str
    headers: Mapping[str, str]
    ask: Ask
    text: str
    results: int


@dataclass(frozen=True, kw_only=True)
class PlannedAnswer:
    """What is done with a call: words or tools with a usage, an error, or an answer that breaks off after its words.

    Nothing is answered before `after` is set and `pause_s` have passed. An answer that `keeps_open` is whole and does
    not end: its connection stays open until the other side closes it. The rest of an answer comes `interval_s` after
    its beginning, so that whoever breaks it off there has not been sent its end.
    """

    words: str = ""
    uses: Sequence[str | Use] = ()
    usage: Usage = field(default_factory=Usage)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    cut: bool = False
    keeps_open: bool = False
    after: threading.Event | None = None
    pause_s: float = 0.0
    interval_s: float = 0.01


@dataclass(frozen=True, kw_only=True)
class AnsweredCall:
    """A call in the books; `stated` is None where the answer told no usage."""

    asked: ReceivedCall
    status: int
    stated: Usage | None
    answered_at: float


class FakeProvider:
    """Answers as `plan` says, any number of runs at once; opens on entering, closes on leaving."""

    def __init__(self, plan: Callable[[ReceivedCall], PlannedAnswer], *, cwd: Path) -> None:
        self._plan = plan
        self._cwd = cwd
        self._lock = threading.Lock()
        self._arrived: list[ReceivedCall] = []
        self._entries: list[AnsweredCall] = []
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def received(self) -> list[ReceivedCall]:
        """Every call so far, answered or not, as they came."""
        with self._lock:
            return list(self._arrived)

    @property
    def entries(self) -> list[AnsweredCall]:
        """Every call that has been answered, in the order of arrival."""
        with self._lock:
            return sorted(self._entries, key=lambda entry: entry.asked.number)

    @property
    def stated(self) -> Usage:
        """All usage that was ever stated."""
        return sum((entry.stated for entry in self.entries if entry.stated), Usage())

    def __enter__(self) -> "FakeProvider":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join(WAIT_S)
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        till = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                till.serve(self)

            def do_GET(self) -> None:
                _send(self, 404, {}, b"{}")

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler

    def serve(self, http: BaseHTTPRequestHandler) -> None:
        """Answers one call and enters it into the books, whether or not anybody stays to hear the answer."""
        at = time.time()
        headers = {name.lower(): value for name, value in http.headers.items()}
        path = http.path.partition("#")[0].partition("?")[0]  # As providers read it.
        body: Json = json.loads(http.rfile.read(int(headers["content-length"])))
        wire, purpose = find_wire("POST", path, headers=headers)
        if purpose != "call":
            return _send(http, 404, {}, b"{}")
        with self._lock:
            asked = ReceivedCall(
                number=len(self._arrived) + 1,
                at=at,
                key=headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer "),
                session=headers.get("x-claude-code-session-id") or headers.get("session-id", ""),
                headers=headers,
                ask=wire.parse_request(body, path),
                text=json.dumps(body, ensure_ascii=False),
                results=_results(body),
            )
            self._arrived.append(asked)
            says = self._plan(asked)
        if says.after is not None:
            says.after.wait(WAIT_S)
        time.sleep(says.pause_s)
        # Entered first: whoever has heard the answer finds it in the books.
        entry = AnsweredCall(asked=asked, status=says.status, stated=_stated_usage(wire, says), answered_at=time.time())
        with self._lock:
            self._entries.append(entry)
        try:
            return self._answer(http, wire, asked, says)
        except OSError:
            http.close_connection = True

    def _answer(self, http: BaseHTTPRequestHandler, wire: Wire, asked: ReceivedCall, says: PlannedAnswer) -> None:
        if says.status != 200:
            return _send(http, says.status, says.headers, wire.encode_error(says.status, "as the books say"))
        answer = Answer(
            model=asked.ask.model,
            say=(says.words,) if says.words else (),
            tools=tuple(self._tool(step, asked) for step in says.uses),
            usage=says.usage,
        )
        if not asked.ask.stream:
            return _send(http, 200, says.headers, wire.encode_body(answer))
        stream = wire.encode_stream(answer)
        _begin(http, 200, {**says.headers, "content-type": "text/event-stream", "transfer-encoding": "chunked"})
        pieces = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (*stream.head, *(() if says.cut else stream.tail))]
        http.wfile.write(b"".join(pieces[:2]))
        time.sleep(says.interval_s)
        http.wfile.write(b"".join(pieces[2:]))
        if says.keeps_open:
            http.connection.settimeout(WAIT_S)
            http.connection.recv(1)
        if says.cut or says.keeps_open:
            http.close_connection = True
        else:
            http.wfile.write(b"0\r\n\r\n")
        return None

    def _tool(self, step: str | Use, asked: ReceivedCall) -> ToolUse:
        tool = choose_tool(step, asked.ask.tools, cwd=self._cwd)
        assert tool is not None, f"no tool for {step!r}"
        return tool


def plan_tool_calls(
    calls: int, *, usage: Callable[[int], Usage], command: str = "true"
) -> Callable[[ReceivedCall], PlannedAnswer]:
    """A conversation of so many calls: a tool in each but the last; the usage follows from the number of the call."""

    def plan(asked: ReceivedCall) -> PlannedAnswer:
        if asked.results < calls - 1:
            return PlannedAnswer(uses=(command,), usage=usage(asked.number))
        return PlannedAnswer(words="done", usage=usage(asked.number))

    return plan


def usage_of(number: int) -> Usage:
    """A usage that no other call of a test has, in any of its fields."""
    return Usage(
        input=1_000 + 17 * number,
        output=100 + 7 * number,
        cache_read=500 + 3 * number,
        cache_write=200 + 5 * number,
        reasoning=10 + number,
    )


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 100

    def get_request(self) -> tuple[socket.socket, Any]:
        plug, address = super().get_request()
        plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plug, address


def _results(body: Json) -> int:
    """How many results of tools a conversation holds, on either wire."""
    blocks = [block for message in list_objects(body.get("messages")) for block in list_objects(message.get("content"))]
    items = [*blocks, *list_objects(body.get("input"))]
    return sum(str(item.get("type")).endswith(("tool_result", "call_output")) for item in items)


def _stated_usage(wire: Wire, says: PlannedAnswer) -> Usage | None:
    """One wire opens with the input, whatever comes after it; the other states its usage last."""
    if says.status != 200:
        return None
    if not says.cut:
        return says.usage
    return msgspec.structs.replace(says.usage, output=1, reasoning=0) if wire.name == "messages" else None


def _begin(http: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str]) -> None:
    http.send_response(status)
    for name, value in headers.items():
        http.send_header(name, value)
    http.end_headers()


def _send(http: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str], body: bytes) -> None:
    _begin(http, status, {**headers, "content-type": "application/json", "content-length": str(len(body))})
    http.wfile.write(body)
