"""A provider on loopback that does as it is told: well, badly, slowly or not at all. Keeps what it was asked."""

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

WAIT_S = 120.0


@dataclass(frozen=True, kw_only=True)
class ReceivedRequest:
    """A request as it arrived; header names in lower case."""

    line: str
    headers: Mapping[str, str]
    body: bytes
    raw: bytes


class ProviderConnection:
    """One connection, as an act sees it."""

    def __init__(self, plug: socket.socket) -> None:
        self._plug = plug
        self._rest = b""
        self.is_open = True
        self.asked: ReceivedRequest | None = None

    def send(self, data: bytes) -> None:
        self._plug.sendall(data)

    def receive(self) -> bytes:
        data = self._rest or self._plug.recv(1 << 20)
        self._rest = b""
        return data

    def close(self) -> None:
        self.is_open = False

    def reset(self) -> None:
        """Closes so that the other side sees an error, not an end."""
        self._plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.is_open = False

    def secure(self, context: ssl.SSLContext) -> None:
        self._plug = context.wrap_socket(self._plug, server_side=True)

    def tunnel_to(self, port: int) -> None:
        """Passes bytes between this connection and another one until either side ends."""
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as other:
            other.sendall(self._rest)
            back = threading.Thread(target=_pump, args=(other, self._plug))
            back.start()
            _pump(self._plug, other)
            back.join(WAIT_S)
        self.is_open = False

    def take_request(self, *, whole: bool) -> ReceivedRequest | None:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = self.receive()
            if not piece:
                return None
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        line, *rows = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (row.partition(":") for row in rows)}
        length = int(headers.get("content-length", "0"))
        pieces = [body]
        missing = length - len(body)
        while whole and missing > 0:
            piece = self.receive()
            if not piece:
                return None
            pieces.append(piece)
            missing -= len(piece)
        data = b"".join(pieces)
        self._rest = data[length:]
        return ReceivedRequest(line=line, headers=headers, body=data[:length], raw=head + b"\r\n\r\n" + data[:length])

    def shut(self) -> None:
        self._plug.close()


Act = Callable[[ProviderConnection], None]


class Provider:
    """Opens on entering. Each request is answered by the next act; the last one is repeated.

    One that does not `hear out` answers as soon as it has the head of a request.
    """

    def __init__(self, *acts: Act, tls: ssl.SSLContext | None = None, reads_body: bool = True) -> None:
        self._acts = list(acts)
        self._tls = tls
        self._hears_out = reads_body
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=300)
        self._listener.settimeout(0.05)
        self._lines: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._is_closing = False
        self._lock = threading.Lock()
        self.port: int = self._listener.getsockname()[1]
        self.asked: list[ReceivedRequest] = []
        self.connections = 0

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> "Provider":
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closing = True
        for plug in self._lines:
            _ignore_errors(plug.shutdown, socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(WAIT_S)
        self._listener.close()

    def _start(self, work: Callable[..., None], *given: object) -> None:
        thread = threading.Thread(target=work, args=given)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._is_closing:
            try:
                plug, _ = self._listener.accept()
            except TimeoutError:
                continue
            plug.settimeout(WAIT_S)
            plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            self._lines.append(plug)
            if self._is_closing:
                _ignore_errors(plug.shutdown, socket.SHUT_RDWR)
            self._start(self._serve, plug)

    def _serve(self, plug: socket.socket) -> None:
        line = ProviderConnection(plug)
        try:
            if self._tls:
                line.secure(self._tls)
            while line.is_open:
                asked = line.take_request(whole=self._hears_out)
                if asked is None:
                    break
                with self._lock:
                    self.asked.append(asked)
                    act = self._acts.pop(0) if len(self._acts) > 1 else self._acts[0]
                line.asked = asked
                act(line)
        except OSError:
            pass
        finally:
            line.shut()
            plug.close()


@contextmanager
def refusing_address() -> Generator[str]:
    """An address that refuses: the port is taken, so that nobody else gets it, and nobody listens there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def says(*pieces: bytes) -> Act:
    """Sends these bytes as they are, and keeps the connection."""

    def act(line: ProviderConnection) -> None:
        for piece in pieces:
            line.send(piece)

    return act


def then(*acts: Act) -> Act:
    """One after the other."""

    def act(line: ProviderConnection) -> None:
        for each in acts:
            each(line)

    return act


def closes(line: ProviderConnection) -> None:
    line.close()


def resets(line: ProviderConnection) -> None:
    line.reset()


def waits(seconds: float) -> Act:
    return lambda line: time.sleep(seconds)


def waits_for(event: threading.Event) -> Act:
    def act(line: ProviderConnection) -> None:
        event.wait(WAIT_S)

    return act


def head(status: int = 200, **headers: str) -> bytes:
    rows = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Fine\r\n{rows}\r\n".encode("latin-1")


def full_response(body: bytes, *, status: int = 200, kind: str = "application/json") -> bytes:
    """An answer whose length is known."""
    return head(status, content_type=kind, content_length=str(len(body))) + body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def stream(*events: bytes) -> bytes:
    """An answer in chunks, one for each event."""
    return head(content_type="text/event-stream", transfer_encoding="chunked") + b"".join(map(chunk, [*events, b""]))


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
    except OSError:
        pass
    _ignore_errors(target.shutdown, socket.SHUT_WR)


def _ignore_errors(do: Callable[[int], None], given: int) -> None:
    try:
        do(given)
    except OSError:
        pass


@dataclass(frozen=True, kw_only=True)
class Authority:
    """A certificate authority of this test run, and a server certificate that it signed."""

    ca_file: str
    context: ssl.SSLContext


def authority(folder: Path, *, names: str = "DNS:localhost,IP:127.0.0.1") -> Authority:
    """Made on the spot with the openssl program."""
    ca_key, ca, key, request, certificate = (str(folder / name) for name in ("ca.key", "ca", "key", "request", "cert"))
    extensions = folder / "extensions"
    extensions.write_text(f"subjectAltName={names}\nbasicConstraints=CA:FALSE\n")
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    _openssl("req", "-x509", *new_key, "-keyout", ca_key, "-out", ca, "-subj", "/CN=a test authority", "-days", "2")
    _openssl("req", *new_key, "-keyout", key, "-out", request, "-subj", "/CN=a provider")
    signed = ["-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-days", "2", "-extfile", str(extensions)]
    _openssl("x509", "-req", "-in", request, *signed, "-out", certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return Authority(ca_file=ca, context=context)


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=WAIT_S)
