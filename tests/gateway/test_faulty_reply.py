"""What a client sees of a fault on a real connection, while the upstream is read to its end."""

import asyncio
import http.client
import queue
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager

import msgspec
import pytest

from inspan.framing.http import RequestHead
from inspan.gateway.faults import FaultyReply, parse_fault, send_failure
from inspan.gateway.http.server import ClientHungUp, HttpReply, HttpServer
from inspan.gateway.wires import BY_NAME
from inspan.gateway.wires.arrays import to_array
from inspan.gateway.wires.wire import Answer, ToolUse
from inspan.protocol.usage import Usage

from .scripted_gateway import WAIT_S, WIRES, Response, error_kind

ANSWER = Answer(
    model="some-model",
    think=("hm",),
    say=("one ", "two"),
    tools=(ToolUse(name="look", arguments={"at": "me"}),),
    usage=Usage(input=1, output=2),
)
FORMS = [f"{wire} {form}" for wire in WIRES for form in ("stream", "body")] + ["generate array"]
REQUEST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
PARTED = ["as written", "at once", "byte by byte"]
on_every_form = pytest.mark.parametrize("form", FORMS)
however_parted = pytest.mark.parametrize("parted", PARTED)


class ServedAnswer(msgspec.Struct, kw_only=True):
    """How an answer went, as the upstream has it: what the client has seen of the fault, and how it was told."""

    problem: str
    told: str


def pieces_of(form: str, *, parted: str = "as written") -> tuple[bytes, ...]:
    """An answer in a form of a wire, parted as a provider might."""
    wire, kind = form.split()
    if kind == "body":
        pieces: tuple[bytes, ...] = (BY_NAME[wire].encode_body(ANSWER),)
    else:
        stream = BY_NAME[wire].encode_stream(ANSWER)
        stream = to_array(stream) if kind == "array" else stream
        pieces = (*stream.head, *stream.tail)
    whole = b"".join(pieces)
    others = {"at once": (whole,), "byte by byte": tuple(bytes((byte,)) for byte in whole)}
    return others.get(parted, pieces)


def headers_of(form: str) -> dict[str, str]:
    return {"content-type": "text/event-stream" if form.endswith("stream") else "application/json; charset=UTF-8"}


class Provider:
    """Serves one answer through a fault, and goes on to its end when the client has gone."""

    def __init__(self, rule: str, form: str, pieces: tuple[bytes, ...], *, length: bool = False) -> None:
        self._fault = parse_fault(rule)
        self._stream = not form.endswith("body")
        self._pieces = pieces
        self._headers = headers_of(form)
        if length:
            self._headers["content-length"] = str(sum(len(piece) for piece in pieces))
        self.begun = threading.Event()
        self.served: queue.Queue[ServedAnswer] = queue.Queue()

    async def handle(self, request: RequestHead, body: bytes, reply: HttpReply) -> None:
        problems = [""]
        faulty = FaultyReply(reply, self._fault, stream=self._stream, on_problem=problems.append)
        told = ""
        self.begun.set()
        try:
            told = await self._answer(faulty)
        except asyncio.CancelledError:
            told = "cancelled"
            raise
        finally:
            self.served.put(ServedAnswer(problem=problems[-1], told=told))

    async def _answer(self, reply: FaultyReply) -> str:
        steps: list[Callable[[], Awaitable[None]]] = [lambda: reply.start(200, self._headers)]
        steps += [lambda piece=piece: reply.write(piece) for piece in self._pieces]
        steps.append(reply.finish)
        told: list[bool] = []
        for step in steps:
            try:
                await step()
            except ClientHungUp:
                told.append(True)
            else:
                told.append(False)
        assert sorted(told) == told, "a client that has hung up does not come back"
        return "hung up" if told[-1] else "finished"


@contextmanager
def run_server(handle: Callable[[RequestHead, bytes, HttpReply], Awaitable[None]]) -> Generator[int]:
    """A server on its own thread; gives its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    port: int = listener.getsockname()[1]
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = HttpServer(lambda head: head, handle)
    asyncio.run_coroutine_threadsafe(server.open(listener), loop).result(WAIT_S)
    try:
        yield port
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(WAIT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT_S)
        loop.close()


def send_request(port: int) -> Response:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    try:
        connection.request("POST", "/", b"{}")
        answer = connection.getresponse()
        return Response(status=answer.status, headers=dict(answer.getheaders()), body=answer.read())
    finally:
        connection.close()


def read_until_cut(form: str, *, parted: str, length: bool = False) -> bytes:
    """What a client has when the connection is cut on it."""
    provider = Provider("call 1: cut", form, pieces_of(form, parted=parted), length=length)
    with run_server(provider.handle) as port:
        with pytest.raises(http.client.IncompleteRead) as broken:
            send_request(port)
        assert provider.served.get(timeout=WAIT_S) == ServedAnswer(problem="cut", told="hung up")
    return broken.value.partial


@on_every_form
@however_parted
@pytest.mark.parametrize("length", [True, False], ids=["with-length", "without-length"])
def test_a_cut_comes_after_the_first_byte_and_before_the_last(form: str, parted: str, length: bool) -> None:
    whole = sum(len(piece) for piece in pieces_of(form))
    part = len(read_until_cut(form, parted=parted, length=length))
    assert part == (whole + 1) // 2 if form.endswith("body") else 0 < part < whole


@on_every_form
def test_the_place_of_a_cut_does_not_depend_on_how_the_answer_is_parted(form: str) -> None:
    assert len({len(read_until_cut(form, parted=parted)) for parted in PARTED}) == 1


@pytest.mark.parametrize("form", [form for form in FORMS if form.endswith("stream")])
def test_a_stream_is_cut_in_its_second_event(form: str) -> None:
    part = read_until_cut(form, parted="as written")
    assert part.count(b"\n\n") == 1
    assert not part.endswith(b"\n\n")


def test_a_body_of_many_lines_is_cut_in_its_middle_all_the_same() -> None:
    body = b'{\n  "a": 1,\n  "b": 2,\n  "c": 3\n}\n'
    provider = Provider("call 1: cut", "generate body", (body,))
    with run_server(provider.handle) as port, pytest.raises(http.client.IncompleteRead) as broken:
        send_request(port)
    assert broken.value.partial == body[: (len(body) + 1) // 2]


@on_every_form
def test_a_cut_before_the_headers_leaves_no_answer_at_all(form: str) -> None:
    provider = Provider("call 1: cut before-headers", form, pieces_of(form))
    with run_server(provider.handle) as port:
        with pytest.raises(http.client.RemoteDisconnected):
            send_request(port)
        assert provider.served.get(timeout=WAIT_S) == ServedAnswer(problem="cut", told="hung up")


@on_every_form
@however_parted
@pytest.mark.parametrize("place", ["before-headers", "mid-stream"])
def test_after_a_stall_of_some_time_comes_the_rest(form: str, parted: str, place: str) -> None:
    pieces = pieces_of(form, parted=parted)
    provider = Provider(f"call 1: stall 50ms {place}", form, pieces)
    began_at = time.monotonic()
    with run_server(provider.handle) as port:
        assert send_request(port).body == b"".join(pieces)
        assert time.monotonic() - began_at >= 0.05
        assert provider.served.get(timeout=WAIT_S) == ServedAnswer(problem="", told="finished")


@on_every_form
@pytest.mark.parametrize("place", ["before-headers", "mid-stream"])
def test_a_stall_without_end_lasts_until_the_client_goes(form: str, place: str) -> None:
    pieces = pieces_of(form)
    shown = b"" if place == "before-headers" else b"".join(pieces)[: _middle(form, pieces)]
    provider = Provider(f"call 1: stall {place}", form, pieces, length=True)
    with run_server(provider.handle) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as client:
            client.sendall(REQUEST)
            assert provider.begun.wait(WAIT_S)
            received = b""
            while shown and not received.endswith(b"\r\n\r\n" + shown):
                received += client.recv(65536)
            assert provider.served.empty()
        assert provider.served.get(timeout=WAIT_S) == ServedAnswer(problem="stalled", told="cancelled")


def test_a_stall_without_end_ends_when_the_server_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    # Closing does not have to give up on it: that would take longer than this test waits.
    monkeypatch.setattr("inspan.gateway.http.server._CLOSE_TIMEOUT_S", 10 * WAIT_S)
    provider = Provider("call 1: stall before-headers", "chat stream", pieces_of("chat stream"))
    with socket.socket() as client:
        with run_server(provider.handle) as port:
            client.connect(("127.0.0.1", port))
            client.sendall(REQUEST)
            assert provider.begun.wait(WAIT_S)
    assert provider.served.get(timeout=WAIT_S) == ServedAnswer(problem="stalled", told="cancelled")


@on_every_form
def test_garbage_is_a_page_while_the_answer_is_read_to_its_end(form: str) -> None:
    provider = Provider("call 1: garbage", form, pieces_of(form), length=True)
    with run_server(provider.handle) as port:
        response = send_request(port)
        assert provider.served.get(timeout=WAIT_S) == ServedAnswer(problem="garbage", told="finished")
    assert (response.status, response.headers["content-type"]) == (200, "text/html")
    assert response.body.startswith(b"<!DOCTYPE html>")


@on_every_form
def test_a_slow_answer_is_whole_and_each_of_its_pieces_late(form: str) -> None:
    pieces = pieces_of(form)
    provider = Provider("call 1: slow 5ms", form, pieces)
    began_at = time.monotonic()
    with run_server(provider.handle) as port:
        assert send_request(port).body == b"".join(pieces)
    assert time.monotonic() - began_at >= 0.005 * len(pieces)


@pytest.mark.parametrize("rule", ["cut", "stall 1ms", "stall", "slow 1ms", "garbage"])
def test_what_the_upstream_cuts_is_cut(rule: str) -> None:
    fault = parse_fault(f"call 1: {rule}")

    async def breaks_off(request: RequestHead, body: bytes, reply: HttpReply) -> None:
        faulty = FaultyReply(reply, fault, stream=True)
        await faulty.start(200, {"content-type": "text/event-stream"})
        await faulty.write(b"data: 1\n\n")
        faulty.cut()
        with pytest.raises(ClientHungUp):
            await faulty.write(b"data: 2\n\n")

    with run_server(breaks_off) as port, pytest.raises((http.client.IncompleteRead, http.client.RemoteDisconnected)):
        send_request(port)


class HangingUpReply:
    """A client that hangs up on the first piece of a body."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        self.heard.append(status)

    async def write(self, data: bytes) -> None:
        self.heard.append(data)
        raise ClientHungUp

    async def finish(self) -> None:
        self.heard.append("finish")

    def cut(self) -> None:
        self.heard.append("cut")

    def note(self, problem: str) -> None:
        self.heard.append(problem)


@pytest.mark.parametrize("rule", ["slow 1ms", "stall 1ms before-headers"])
def test_nothing_more_is_tried_on_a_client_that_has_hung_up(rule: str) -> None:
    client = HangingUpReply()
    faulty = FaultyReply(client, parse_fault(f"call 1: {rule}"), stream=True, on_problem=lambda problem: None)

    async def answer() -> None:
        await faulty.start(200, {})
        for _ in range(3):
            with pytest.raises(ClientHungUp):
                await faulty.write(b"a")
        with pytest.raises(ClientHungUp):
            await faulty.finish()

    asyncio.run(answer())
    assert client.heard == [200, b"a"]


def test_after_a_stall_that_was_cancelled_nothing_reaches_the_client() -> None:
    client = HangingUpReply()
    faulty = FaultyReply(client, parse_fault("call 1: stall before-headers"), stream=True)

    async def answer() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(faulty.start(200, {}), timeout=0.01)
        with pytest.raises(ClientHungUp):
            await faulty.write(b"a")

    asyncio.run(answer())
    assert client.heard == ["stalled"]


def test_an_answer_without_a_body_is_cut_before_its_end() -> None:
    provider = Provider("call 1: cut", "chat body", ())
    with run_server(provider.handle) as port, pytest.raises(http.client.IncompleteRead):
        send_request(port)


def test_an_answer_without_a_body_may_stall() -> None:
    provider = Provider("call 1: stall 1ms", "chat body", ())
    with run_server(provider.handle) as port:
        assert send_request(port).body == b""


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("rule", "status", "headers"),
    [
        ("429", 429, {}),
        ("529", 529, {}),
        ("418", 418, {}),
        ("503 retry-after 1m", 503, {"retry-after": "60"}),
        ("429 retry-after 1500ms", 429, {"retry-after": "2", "retry-after-ms": "1500"}),
    ],
)
def test_a_status_comes_in_the_words_of_the_provider(
    wire: str, rule: str, status: int, headers: dict[str, str]
) -> None:
    fault = parse_fault(f"every 1: {rule}")

    async def fails(request: RequestHead, body: bytes, reply: HttpReply) -> None:
        await send_failure(fault, BY_NAME[wire], reply)

    with run_server(fails) as port:
        response = send_request(port)
    assert response.status == status
    assert {name: value for name, value in response.headers.items() if name.startswith("retry")} == headers
    usual = msgspec.json.decode(BY_NAME[wire].encode_error(status, "any"))
    assert error_kind(wire, response.json) == error_kind(wire, usual)
    assert response.json["error"]["message"]


def _middle(form: str, pieces: tuple[bytes, ...]) -> int:
    """Where an answer is spoilt that comes piece by piece."""
    if form.endswith("body"):
        return (len(pieces[0]) + 1) // 2
    if form.endswith("stream"):
        return (2 * len(pieces[0]) + len(pieces[1])) // 2
    lines = b"".join(pieces).split(b"\n")
    return (2 * (len(lines[0]) + 1) + len(lines[1]) + 1) // 2
