"""Servers that run inspan for their clients: real ones, each a process of its own on a port that the system gives."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli_env import WAIT_S, wait_until


class Server:
    """A server that answers; `get` asks it for JSON."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int) -> None:
        self.process = process
        self.port = port

    def get(self, path: str) -> Any:
        status, body = self._ask(path)
        assert status == 200, body
        return json.loads(body)

    @contextmanager
    def open_stream(self, path: str) -> Generator[http.client.HTTPResponse]:
        """An answer that is read piece by piece; leaving drops the connection, whatever of it is still to come."""
        with self._connect() as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            try:
                yield answer
            finally:
                answer.close()

    def answers(self) -> bool:
        try:
            return self._ask("/ok")[0] == 200
        except OSError:
            return False

    def _ask(self, path: str) -> tuple[int, bytes]:
        with self._connect() as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()

    @contextmanager
    def _connect(self) -> Generator[http.client.HTTPConnection]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            yield connection
        finally:
            connection.close()


@contextmanager
def run_server(folder: Path, *argv: str, env: dict[str, str] | None = None) -> Generator[Server]:
    """Runs a server until the end of the block; `FD` in its arguments is the number of its listener."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        fd, port = listener.fileno(), listener.getsockname()[1]
        with open(folder / "server.log", "wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *(word.replace("FD", str(fd)) for word in argv)],
                cwd=folder,
                env={**os.environ, **(env or {})},
                pass_fds=[fd],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    server = Server(process, port)
    try:
        wait_until(lambda: server.answers() or process.poll() is not None, "server")
        yield server
        process.send_signal(signal.SIGTERM)
        process.wait(WAIT_S)
    except BaseException:
        print((folder / "server.log").read_text())
        raise
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
