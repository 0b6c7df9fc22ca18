"""A provider of models that notes how each caller has named itself, and lets anybody in."""

import http.client
import socket
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from tests.gateway.scripted_gateway import TOKEN, WAIT_S, ScriptedGateway

_HOP = {"host", "connection", "content-length", "transfer-encoding", "accept-encoding"}
_NAMES = ("x-api-key", "authorization", "chatgpt-account-id")


@dataclass(frozen=True, kw_only=True)
class ReceivedRequest:
    """A request: its path, and by which headers the caller named itself."""

    path: str
    names: dict[str, str]


class Provider:
    """Plays a scenario on a listener of somebody else's making; opens on entering, closes on leaving.

    `heard` is all that anybody has sent.
    """

    def __init__(self, scenario: str, *, cwd: str, listener: socket.socket) -> None:
        self.requests: list[ReceivedRequest] = []
        self.heard = ""
        self._stage = ScriptedGateway(scenario, cwd=cwd)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(), bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = listener
        self._server.server_address = listener.getsockname()
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    @property
    def calls(self) -> list[dict[str, str]]:
        """How the caller of each model call named itself."""
        return [
            visit.names for visit in self.requests if visit.path.partition("?")[0].endswith(("/messages", "/responses"))
        ]

    def __enter__(self) -> "Provider":
        self._stage.__enter__()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join(WAIT_S)
        self._server.server_close()
        self._stage.__exit__(kind, error, trace)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                provider.forward(self)

            do_GET = do_HEAD = do_POST

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler

    def forward(self, request: BaseHTTPRequestHandler) -> None:
        """Notes who asks, and asks the stage in the name of somebody whom it knows."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.requests.append(
            ReceivedRequest(path=request.path, names={name: headers[name] for name in _NAMES if name in headers})
        )
        body = request.rfile.read(int(headers.get("content-length", 0)))
        self.heard += f"{request.requestline}\n{headers}\n{body.decode(errors='replace')}\n"
        known = {"x-api-key": TOKEN} if "x-api-key" in headers else {"authorization": f"Bearer {TOKEN}"}
        asked = {name: value for name, value in headers.items() if name not in _HOP} | known
        connection = http.client.HTTPConnection("127.0.0.1", self._stage.port, timeout=WAIT_S)
        try:
            connection.request(request.command, request.path, body, asked)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        request.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP:
                request.send_header(name, value)
        request.send_header("content-length", str(len(content)))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(content)
