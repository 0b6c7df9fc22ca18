"""One model call by HTTP, run as a script: the request comes on stdin, the answer leaves on stdout as lines of JSON.

It is the process of an agent that is an API, so that such a run is held, stopped and recorded as any other. It imports
`socket` and nothing heavier: to load http.client alone takes longer than a whole call here (41 ms against 24).

Stdin holds `name: value` lines, an empty line, and the body. `path` follows the `address`. The key stands in the first
of the variables `key-from` that is set. With `clock`, the time is told with the answer's head, for limits that count
from it.

Its own lines are objects with the one key `http`; all others are as the provider wrote them.
"""

import os
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_CONNECT_S = 30.0
_READ_BYTES = 256 * 1024
_MOST_BYTES = 64 * 1024 * 1024
_PORTS = {"http": 80, "https": 443}
# Those that say what the answer is, who can be asked about it, and when to come back.
_TOLD = ("content-type", "retry-after", "x-ratelimit-", "x-request-id", "request-id")
# For a Python that was built on another system and looks for them where that one had them.
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


class Broken(Exception):
    """The other side does not keep to HTTP, or left in the middle of it."""


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    head, _, body = sys.stdin.buffer.read().partition(b"\n\n")
    asked = dict(line.split(": ", 1) for line in head.decode().splitlines())
    begun = False
    try:
        answer = _send(asked, body)
        status, headers = answer.head()
        begun = True
        at = f',"at":{time.time():.3f}' if "clock" in asked else ""
        told = ",".join(f"{_quoted(n)}:{_quoted(v)}" for n, v in headers.items() if n.startswith(_TOLD))
        _write(f'{{"http":{{"status":{status},"headers":{{{told}}}{at}}}}}\n'.encode())
        _pass_on(answer, headers)
    except (OSError, Broken) as error:
        words = str(error) if isinstance(error, Broken) else error.strerror or str(error)
        _tell(**({"ended": "cut", "message": words} if begun else {"unreachable": f"{_host(asked)}: {words}"}))
        return 1
    _tell(ended="whole")
    return 0 if status == 200 else 1


class Answer:
    """What comes back on a connection."""

    def __init__(self, plug: socket.socket) -> None:
        self._plug = plug
        self._rest = b""
        self._at = 0

    def head(self) -> "tuple[int, dict[str, str]]":
        """The status and the headers, names in lower case; what only announces an answer is passed over."""
        status = 100
        headers: dict[str, str] = {}
        while status // 100 == 1:
            words = self._line().split(b" ", 2)
            if not words[0].startswith(b"HTTP/1.") or len(words) < 2 or not words[1].isdigit():
                raise Broken("this is no answer of HTTP")
            status, headers = int(words[1]), {}
            while line := self._line():
                name, _, value = line.decode("latin-1").partition(":")
                headers[name.strip().lower()] = value.strip()
        return status, headers

    def body(self, headers: "dict[str, str]") -> "Iterator[bytes]":
        """The body as it arrives; raises `Broken` where it ends too early."""
        if "chunked" in headers.get("transfer-encoding", "").lower():
            yield from self._chunks()
        elif headers.get("content-length", "").isdigit():
            yield from self._exactly(int(headers["content-length"]))
        else:
            while self._held or self._more():
                yield self._take(self._held)

    def _chunks(self) -> "Iterator[bytes]":
        while size := self._size():
            yield from self._exactly(size)
            self._line()
        while self._line():
            pass

    def _size(self) -> int:
        try:
            return int(self._line().partition(b";")[0], 16)
        except ValueError:
            raise Broken("a piece of the answer has no length") from None

    def _exactly(self, length: int) -> "Iterator[bytes]":
        while length:
            if not self._held and not self._more():
                raise Broken("the connection was closed in the middle of the answer")
            piece = self._take(length)
            length -= len(piece)
            yield piece

    def _line(self) -> bytes:
        while (end := self._rest.find(b"\n", self._at)) < 0:
            if self._held > _READ_BYTES:
                raise Broken("a line of the answer's head does not end")
            if not self._more():
                raise Broken("the connection was closed before the answer was whole")
        line, self._at = self._rest[self._at : end], end + 1
        return line.rstrip(b"\r")

    def _take(self, most: int) -> bytes:
        taken = self._rest[self._at : self._at + most]
        self._at += len(taken)
        return taken

    @property
    def _held(self) -> int:
        """How much has been received and not yet taken."""
        return len(self._rest) - self._at

    def _more(self) -> bool:
        data = self._plug.recv(_READ_BYTES)
        self._rest, self._at = self._rest[self._at :] + data, 0
        return bool(data)


def _send(asked: "dict[str, str]", body: bytes) -> Answer:
    scheme, host, port, path = _parts(asked["address"])
    proxy = _proxy(scheme, host)
    near = _parts(proxy) if proxy else (scheme, host, port, "")
    try:
        plug = socket.create_connection((near[1], near[2]), timeout=_CONNECT_S)
    except UnicodeError:
        raise Broken("no host can have this name") from None
    plug.settimeout(None)
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    named = f"[{host}]" if ":" in host else host
    authority = named if port == _PORTS[scheme] else f"{named}:{port}"
    login = _login(proxy) if proxy else ""
    if proxy and scheme == "https":
        plug.sendall(f"CONNECT {named}:{port} HTTP/1.1\r\nhost: {named}:{port}\r\n{login}\r\n".encode("ascii"))
        status, _ = Answer(plug).head()
        if status // 100 != 2:
            raise Broken(f"the proxy answered {status}")
    if scheme == "https":
        plug = _secured(plug, host)
    target = path + asked["path"]
    if proxy and scheme == "http":
        target = f"http://{authority}{target}"
    key = next((os.environ[name] for name in asked.get("key-from", "").split() if os.environ.get(name)), "")
    if not (key.isascii() and key.isprintable()):
        raise Broken("the key cannot stand in a header")
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
    return Answer(plug)


def _host(asked: "dict[str, str]") -> str:
    try:
        scheme, host, port, _ = _parts(asked["address"])
    except Broken:
        return "the provider"
    return f"{scheme}://{host}:{port}"


def _parts(url: str) -> "tuple[str, str, int, str]":
    """Scheme, host, port and path of an address."""
    scheme, mark, rest = url.strip().partition("://")
    authority, _, path = rest.partition("/")
    host, _, port = authority.rpartition("@")[2].rpartition(":")
    if not (port.isascii() and port.isdigit()):
        host, port = authority.rpartition("@")[2], ""
    if not mark or scheme.lower() not in _PORTS or not host:
        raise Broken("this is no address of a provider")
    trimmed = f"/{path}".rstrip("/")
    return scheme.lower(), host.strip("[]"), int(port or _PORTS[scheme.lower()]), trimmed


def _proxy(scheme: str, host: str) -> str:
    """The proxy on the way to a host, if the variables that programs agree on name one; loopback never has one."""
    known = {name.lower(): value for name, value in os.environ.items() if name.lower().endswith("_proxy") and value}
    url = known.get(f"{scheme}_proxy") or known.get("all_proxy") or ""
    if not url or host in ("localhost", "::1") or host.startswith("127."):
        return ""
    for entry in known.get("no_proxy", "").replace(",", " ").split():
        name = entry.lower().rpartition(":")[0] or entry.lower()
        name = name.removeprefix("*").removeprefix(".")
        if entry == "*" or host == name or (name and host.endswith(f".{name}")):
            return ""
    return url if "://" in url else f"http://{url}"


def _login(proxy: str) -> str:
    user = proxy.partition("://")[2].partition("/")[0].rpartition("@")[0]
    if not user:
        return ""
    from base64 import b64encode  # Start-up time: few have such a proxy.
    from urllib.parse import unquote_to_bytes

    return f"proxy-authorization: Basic {b64encode(unquote_to_bytes(user)).decode()}\r\n"


def _secured(plug: socket.socket, host: str) -> socket.socket:
    import ssl  # Start-up time: behind a gateway nothing is encrypted.

    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    known = () if paths.cafile or paths.capath else tuple(filter(os.path.exists, _BUNDLES))[:1]
    for file in (*known, *filter(None, (os.environ.get("NODE_EXTRA_CA_CERTS"),))):
        context.load_verify_locations(file)
    try:
        return context.wrap_socket(plug, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise Broken(f"its certificate is not trusted: {error.verify_message}") from error


def _pass_on(answer: Answer, headers: "dict[str, str]") -> None:
    kind = headers.get("content-type", "")
    if "text/event-stream" in kind:
        _pass_events(answer.body(headers))
        return
    received = bytearray()
    for piece in answer.body(headers):
        received += piece
        _refuse_endless(len(received))
    body = bytes(received).strip()
    if "json" in kind or body[:1] in (b"{", b"["):
        # In JSON a break of lines stands between values only.
        _write(b" ".join(body.splitlines()) + b"\n" if body else b"")
    elif body:
        _tell(text=body.decode(errors="replace"))


def _pass_events(pieces: "Iterator[bytes]") -> None:
    """The data of each event as a line; breaks inside of it are between values of JSON."""
    rest, data, length = bytearray(), list[bytes](), 0
    for piece in pieces:
        rest += piece
        _refuse_endless(len(rest) + length)
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


def _refuse_endless(length: int) -> None:
    if length > _MOST_BYTES:
        raise Broken(f"more than {_MOST_BYTES // 2**20} MB in one piece")


def _tell(**fields: str) -> None:
    told = ",".join(f"{_quoted(name)}:{_quoted(value)}" for name, value in fields.items())
    _write(f'{{"http":{{{told}}}}}\n'.encode())


def _quoted(text: str) -> str:
    escaped = {'"': '\\"', "\\": "\\\\"}
    return '"' + "".join(escaped.get(c) or (c if c >= " " else f"\\u{ord(c):04x}") for c in text) + '"'


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    sys.exit(main())
