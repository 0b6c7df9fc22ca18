"""The run's own tools for an agent that takes MCP servers on stdin and stdout only: a thin program between the two.

The agent starts it. Each line that it is given goes to the run's gateway as one request, and what comes back goes out
as lines. Standard library only, and nothing of ours: it starts in a moment, and knows no more than an address and a
token, both from its environment. It ends with its stdin.
"""

import http.client
import json
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

URL_VARIABLE, TOKEN_VARIABLE = "INSPAN_TOOLS_URL", "INSPAN_TOOLS_TOKEN"
_ANSWER_S = 30.0
_CALL_S = 3600.0
_MAX_AT_ONCE = 64
_SERVER_ERROR = -32000
_JSON = "application/json"


class Bridge:
    """Carries messages to one address; calls at once, as the agent makes them, so that one can be cancelled."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        self._host, self._port, self._path = parts.hostname or "", parts.port or 80, parts.path
        self._token = token
        self._output = threading.Lock()
        self._room = threading.Semaphore(_MAX_AT_ONCE)

    def forward(self, line: bytes) -> None:
        """Takes one message; a request is answered by a thread of its own."""
        message = _read_message(line)
        if message.get("id") is None:
            self._exchange(line, message)  # In order: a cancellation comes after what it cancels.
            return
        self._room.acquire()
        threading.Thread(target=self._answer, args=(line, message), daemon=True).start()

    def _answer(self, line: bytes, message: dict[str, Any]) -> None:
        try:
            self._exchange(line, message)
        finally:
            self._room.release()

    def _exchange(self, line: bytes, message: dict[str, Any]) -> None:
        try:
            for answer in self._request(line, limit_s=_CALL_S if message.get("method") == "tools/call" else _ANSWER_S):
                self._write(answer)
        except (OSError, http.client.HTTPException) as error:
            if message.get("id") is not None:
                problem = {"code": _SERVER_ERROR, "message": f"the run's tools cannot be reached: {error}"}
                self._write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": problem}).encode())

    def _request(self, body: bytes, *, limit_s: float) -> Iterator[bytes]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=limit_s)
        try:
            headers = {
                "Authorization": f"Bearer {self._token}",
                "Content-Type": _JSON,
                "Accept": f"{_JSON}, text/event-stream",
            }
            connection.request("POST", self._path, body=body, headers=headers)
            reply = connection.getresponse()
            if reply.headers.get_content_type() == "text/event-stream":
                yield from _iter_events(reply)
            elif text := reply.read().strip():
                if reply.headers.get_content_type() != _JSON:
                    raise http.client.HTTPException(f"status {reply.status}")
                yield text
        finally:
            connection.close()

    def _write(self, line: bytes) -> None:
        with self._output:
            sys.stdout.buffer.write(line.replace(b"\n", b" ") + b"\n")
            sys.stdout.buffer.flush()


def _iter_events(reply: http.client.HTTPResponse) -> Iterator[bytes]:
    """The messages of a stream of events; each has one line of data."""
    for line in reply:
        if line.startswith(b"data:"):
            yield line[len(b"data:") :].strip()


def _read_message(line: bytes) -> dict[str, Any]:
    """What is needed of a message to carry it; whether it is a good one is for the other end to say."""
    try:
        value = json.loads(line)
    except ValueError:
        return {"id": 0}
    return value if isinstance(value, dict) else {"id": 0}  # pyright: ignore[reportUnknownVariableType]  any JSON


def main() -> None:
    bridge = Bridge(os.environ.pop(URL_VARIABLE), os.environ.pop(TOKEN_VARIABLE))
    try:
        for line in sys.stdin.buffer:
            if line.strip():
                bridge.forward(line)
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    os._exit(0)  # Calls that go on have nobody any more who could hear of them.


if __name__ == "__main__":
    main()
