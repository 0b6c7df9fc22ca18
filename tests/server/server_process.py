"""A real server in a process of its own, and clients of it."""

import http.client
import json
import os
import secrets
import select
import signal
import socket
import ssl
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli_env import WAIT_S, CliEnv

PREFIX = "/api/v1"


def choose_port() -> int:
    """One for a server that ends and comes back: below those that the system gives to whoever asks for any."""
    first_given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = first_given - 1 - secrets.randbelow(min(10_000, first_given - 1024))
        with socket.socket() as trial:
            try:
                trial.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of a problem; a problem is complete."""
        assert self.headers["content-type"] == "application/problem+json"
        problem = self.json
        assert problem["type"] == f"urn:inspan:{problem['code']}"
        assert problem["status"] == self.status
        assert problem["request_id"] == self.headers["x-request-id"]
        assert problem["title"] and problem["detail"]
        return problem["code"]


class SentEvent(NamedTuple):
    """One event of a stream; `id` is empty where it has none."""

    id: str
    kind: str
    data: Any


class EventClient:
    """Reads a stream event by event."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._connection = connection
        self.response = response
        self.last_id = ""

    def read(self) -> SentEvent | None:
        """The next event with data; `None` once the stream is over."""
        event, kind, data = "", "", ""
        while line := self.response.readline().decode():
            name, _, value = line.rstrip("\n").partition(":")
            value = value.removeprefix(" ")
            if name == "id":
                event = self.last_id = value
            elif name == "event":
                kind = value
            elif name == "data":
                data = value
            elif line == "\n" and data:
                return SentEvent(event, kind, json.loads(data))
        return None

    def read_to_end(self) -> list[SentEvent]:
        """All that is left."""
        return list(iter(self.read, None))

    def read_until(self, kind: str) -> list[SentEvent]:
        """Everything up to the first event of this kind, and that."""
        found: list[SentEvent] = []
        while event := self.read():
            found.append(event)
            if event.kind == kind:
                return found
        raise AssertionError(f"the stream ended without {kind}: {found}")

    def close(self) -> None:
        self._connection.close()
        self.response.close()


class ServerProcess:
    """`inspan serve` on a port that was free; the fixture ends it."""

    def __init__(self, env: CliEnv, *arguments: str, variables: Mapping[str, str] | None = None) -> None:
        self._env = env
        port = () if "--port" in arguments else ("--port", "0")
        self.process = env.start("serve", "--json", *port, *arguments, env={**(variables or {})})
        assert self.process.stdout
        ready = select.select([self.process.stdout], [], [], WAIT_S)[0]
        line = self.process.stdout.readline() if ready else b""
        if not line:
            raise AssertionError(self.process.communicate(timeout=WAIT_S)[1].decode())
        self.told: dict[str, Any] = json.loads(line)
        self.port: int = self.told["port"]
        self.token: str = self.told["token"]
        self._clients: list[EventClient] = []

    def connect(self) -> http.client.HTTPConnection:
        if self.told["url"].startswith("https:"):
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=WAIT_S, context=context)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)

    def ask(
        self,
        method: str,
        path: str,
        *,
        json_body: Any = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
    ) -> Answer:
        """One request on a connection of its own, below the prefix of the API; an empty token is none."""
        given = dict(headers or {})
        if token != "":
            given.setdefault("Authorization", f"Bearer {token or self.token}")
        if json_body is not None:
            body = json.dumps(json_body).encode()
            given.setdefault("Content-Type", "application/json")
        connection = self.connect()
        try:
            connection.request(method, path if path.startswith("//") else PREFIX + path, body=body, headers=given)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path: str, **more: Any) -> Answer:
        return self.ask("GET", path, **more)

    def post(self, path: str, json_body: Any = None, **more: Any) -> Answer:
        return self.ask("POST", path, json_body=json_body, **more)

    def page(self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> Answer:
        """A request outside of the API, without a token."""
        connection = self.connect()
        try:
            connection.request(method, path, headers=dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def follow(self, path: str, *, last_id: str = "", headers: Mapping[str, str] | None = None) -> EventClient:
        """A stream that is open."""
        connection = self.connect()
        given = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        if last_id:
            given["Last-Event-ID"] = last_id
        connection.request("GET", PREFIX + path, headers=given)
        response = connection.getresponse()
        if response.status != 200:
            raise AssertionError(response.read().decode())
        assert response.headers["content-type"].startswith("text/event-stream")
        client = EventClient(connection, response)
        self._clients.append(client)
        return client

    def memory_kb(self) -> int:
        """What the process holds now."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))

    def count_threads(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Ends it by a signal; gives its exit code and what it said on stderr."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        try:
            _, err = self.process.communicate(timeout=WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, err.decode()

    def close(self) -> None:
        for client in self._clients:
            client.close()
        if self.process.poll() is None:
            code, err = self.stop()
            assert (code, err[:2000]) == (0, ""), f"{code}: {err[:2000]}"
