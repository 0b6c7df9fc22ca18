"""One model call by HTTP, run as a script: the request comes on stdin, the answer leaves on stdout as lines of JSON.

It is the process of an agent that is an API, so that such a run is held, stopped and recorded as any other. It imports
`socket`, the reader of answers and nothing heavier: to load http.client alone takes longer than a whole call here.

Stdin holds `name: value` lines, an empty line, and the body. `path` follows the `address`. The key stands in the first
of the variables `key-from` that is set. With `clock`, the time is told with the answer's head, for limits that count
from it.

With `--serve` it makes one call after the other, for a conversation.

Its own lines are objects with the one key `http`; all others are as the provider wrote them.
"""

import os
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from inspan.framing.http import AnswerHead, AnswerReader
from inspan.framing.proxy import basic_authorization, find_proxy, proxy_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_CONNECT_S = 30.0
_READ_BYTES = 256 * 1024
_MAX_BYTES = 64 * 1024 * 1024
_PORTS = {"http": 80, "https": 443}
# Those that say what the answer is, who can be asked about it, and when to come back.
_REPORTED_HEADERS = ("content-type", "retry-after", "x-ratelimit-", "x-request-id", "request-id")
# For a Python that was built on another system and looks for them where that one had them.
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


class HttpError(Exception):
    """The other side does not keep to HTTP, or left in the middle of it."""


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if "--serve" in sys.argv:
        return _serve()
    head, _, body = sys.stdin.buffer.read().partition(b"\n\n")
    return _make_call(_parse_head(head), body)


def _serve() -> int:
    """One call after the other, each with the `length` of its body, until stdin ends; empty lines between them say
    nothing."""
    head = b""
    while line := sys.stdin.buffer.readline():
        head += line
        if line == b"\n" and head.strip():
            asked = _parse_head(head)
            _make_call(asked, sys.stdin.buffer.read(int(asked["length"])))
        if line == b"\n":
            head = b""
    return 0


def _parse_head(head: bytes) -> "dict[str, str]":
    return dict(line.split(": ", 1) for line in head.decode().splitlines() if line)


def _make_call(asked: "dict[str, str]", body: bytes) -> int:
    begun = False
    try:
        answer = _send(asked, body)
        head = answer.read_head()
        status, headers = head.status, head.headers
        begun = True
        at = f',"at":{time.time():.3f}' if "clock" in asked else ""
        told = ",".join(
            f"{_quote_json(n)}:{_quote_json(v)}" for n, v in headers.items() if n.startswith(_REPORTED_HEADERS)
        )
        _write(f'{{"http":{{"status":{status},"headers":{{{told}}}{at}}}}}\n'.encode())
        _forward_body(answer, headers)
    except (OSError, HttpError) as error:
        words = str(error) if isinstance(error, HttpError) else error.strerror or str(error)
        _write_message(
            **({"ended": "cut", "message": words} if begun else {"unreachable": f"{_format_origin(asked)}: {words}"})
        )
        return 1
    _write_message(ended="whole")
    return 0 if status == 200 else 1


class Response:
    """What comes back on a connection, to a request of this method."""

    def __init__(self, plug: socket.socket, method: str) -> None:
        self._socket = plug
        self._reader = AnswerReader(method)
        self._first_chunk = b""

    def read_head(self) -> AnswerHead:
        """Raises `HttpError` where none comes, or what comes is not HTTP."""
        while self._reader.head is None:
            self._check()
            self._first_chunk = self._receive("the connection was closed before the answer was whole")
        return self._reader.head

    def iter_body(self) -> "Iterator[bytes]":
        """The body as it arrives; raises `HttpError` where it ends too early, or breaks."""
        piece = self._first_chunk
        while True:
            if piece:
                yield piece
            self._check()
            if self._reader.is_done:
                return
            piece = self._receive("the connection was closed in the middle of the answer")

    def _check(self) -> None:
        if self._reader.problem:
            raise HttpError(f"the answer {self._reader.problem}")

    def _receive(self, ended: str) -> bytes:
        """What has come of the body; `ended` says what it means that nothing comes any more."""
        data = self._socket.recv(_READ_BYTES)
        if data:
            return self._reader.feed(data)
        self._reader.feed_eof()
        if not self._reader.is_done:
            raise HttpError(ended)
        return b""


def _send(asked: "dict[str, str]", body: bytes) -> Response:
    scheme, host, port, path = _parse_url(asked["address"])
    proxy = find_proxy(scheme, host.lower(), port, proxy_variables(os.environ))
    near = _parse_url(proxy) if proxy else (scheme, host, port, "")
    if proxy and near[0] != "http":
        raise HttpError(f"a proxy that speaks {near[0]} is not supported")
    try:
        plug = socket.create_connection((near[1], near[2]), timeout=_CONNECT_S)
    except UnicodeError:
        raise HttpError("no host can have this name") from None
    plug.settimeout(None)
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    named = f"[{host}]" if ":" in host else host
    authority = named if port == _PORTS[scheme] else f"{named}:{port}"
    login = basic_authorization(proxy.partition("://")[2].partition("/")[0].rpartition("@")[0])
    login = f"proxy-authorization: {login}\r\n" if login else ""
    if proxy and scheme == "https":
        plug.sendall(f"CONNECT {named}:{port} HTTP/1.1\r\nhost: {named}:{port}\r\n{login}\r\n".encode("ascii"))
        status = Response(plug, "CONNECT").read_head().status
        if status // 100 != 2:
            raise HttpError(f"the proxy answered {status}")
    if scheme == "https":
        plug = _wrap_tls(plug, host)
    target = path + asked["path"]
    if proxy and scheme == "http":
        target = f"http://{authority}{target}"
    key = next((os.environ[name] for name in asked.get("key-from", "").split() if os.environ.get(name)), "")
    if not (key.isascii() and key.isprintable()):
        raise HttpError("the key cannot be sent in a header")
    lines = [
        f"POST {target} HTTP/1.1",
        f"host: {authority}",
        "content-type: application/json",
        "accept: text/event-stream, application/json",
        "accept-encoding: identity",
        "connection: close",
        "user-agent: inspan",
        f"content-length: {len(body)}",
        *([f"authorization: Bearer {key}"] if key else []),
    ]
    plug.sendall(("\r\n".join(lines) + "\r\n" + (login if scheme == "http" else "") + "\r\n").encode() + body)
    return Response(plug, "POST")


def _format_origin(asked: "dict[str, str]") -> str:
    try:
        scheme, host, port, _ = _parse_url(asked["address"])
    except HttpError:
        return "the provider"
    return f"{scheme}://{host}:{port}"


def _parse_url(url: str) -> "tuple[str, str, int, str]":
    """Scheme, host, port and path of an address."""
    scheme, mark, rest = url.strip().partition("://")
    authority, _, path = rest.partition("/")
    host, _, port = authority.rpartition("@")[2].rpartition(":")
    if not (port.isascii() and port.isdigit()):
        host, port = authority.rpartition("@")[2], ""
    if not mark or scheme.lower() not in _PORTS or not host:
        raise HttpError("this is not an address of a provider")
    trimmed = f"/{path}".rstrip("/")
    return scheme.lower(), host.strip("[]"), int(port or _PORTS[scheme.lower()]), trimmed


def _wrap_tls(plug: socket.socket, host: str) -> socket.socket:
    import ssl  # Start-up time: behind a gateway nothing is encrypted.

    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    known = () if paths.cafile or paths.capath else tuple(filter(os.path.exists, _BUNDLES))[:1]
    for file in (*known, *filter(None, (os.environ.get("NODE_EXTRA_CA_CERTS"),))):
        context.load_verify_locations(file)
    try:
        return context.wrap_socket(plug, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise HttpError(f"its certificate is not trusted: {error.verify_message}") from error


def _forward_body(answer: Response, headers: "dict[str, str]") -> None:
    kind = headers.get("content-type", "")
    if "text/event-stream" in kind:
        _forward_events(answer.iter_body())
        return
    received = bytearray()
    for piece in answer.iter_body():
        received += piece
        _check_length(len(received))
    body = bytes(received).strip()
    if "json" in kind or body[:1] in (b"{", b"["):
        # In JSON a break of lines stands between values only.
        _write(b" ".join(body.splitlines()) + b"\n" if body else b"")
    elif body:
        _write_message(text=body.decode(errors="replace"))


def _forward_events(pieces: "Iterator[bytes]") -> None:
    """The data of each event as a line; breaks inside of it are between values of JSON."""
    rest, data, length = bytearray(), list[bytes](), 0
    for piece in pieces:
        rest += piece
        _check_length(len(rest) + length)
        if b"\n" not in piece:
            continue
        *lines, tail = bytes(rest).split(b"\n")
        rest = bytearray(tail)
        told: list[bytes] = []
        for line in lines:
            line = line.rstrip(b"\r")
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
                length += len(data[-1])
            elif not line and data:
                told.append(b" ".join(data) + b"\n")
                data, length = [], 0
        _write(b"".join(told))
    if rest.startswith(b"data:"):
        data.append(bytes(rest[5:].strip()))
    if data:
        _write(b" ".join(data) + b"\n")


def _check_length(length: int) -> None:
    if length > _MAX_BYTES:
        raise HttpError(f"more than {_MAX_BYTES // 2**20} MB in one piece")


def _write_message(**fields: str) -> None:
    told = ",".join(f"{_quote_json(name)}:{_quote_json(value)}" for name, value in fields.items())
    _write(f'{{"http":{{{told}}}}}\n'.encode())


def _quote_json(text: str) -> str:
    escaped = {'"': '\\"', "\\": "\\\\"}
    return '"' + "".join(escaped.get(c) or (c if c >= " " else f"\\u{ord(c):04x}") for c in text) + '"'


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    sys.exit(main())
