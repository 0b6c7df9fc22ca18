"""The same tools over HTTP, on loopback and on a thread of its own."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from inspan.testing.tool_server import handle_message


class WebServer:
    """Serves from entering to leaving, and keeps the headers of every request."""

    def __init__(self) -> None:
        self.headers: list[dict[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.headers))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/mcp"

    def __enter__(self) -> "WebServer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(seen: list[dict[str, str]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            seen.append({name.lower(): value for name, value in self.headers.items()})
            reply = handle_message(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self._send(202 if reply is None else 200, b"" if reply is None else json.dumps(reply).encode())

        def do_GET(self) -> None:
            self._send(405, b"")

        do_DELETE = do_GET

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
