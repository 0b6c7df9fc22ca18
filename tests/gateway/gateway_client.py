"""A gateway before a live upstream, on a thread of its own, so that tests can be the agent with plain sockets."""

import asyncio
import http.client
import json
import queue
import socket
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from inspan.gateway import Gateway, ModelCall
from inspan.gateway.http.server import Limits, log_fault
from inspan.gateway.live import LiveUpstream
from inspan.gateway.usage_meter import Room
from tests.cli_env import wait_until

from .provider import WAIT_S
from .scripted_gateway import Response, exchange

TOKEN = "run-token-1"
KEY = "sk-the-real-key"
PATH = "/v1/messages?beta=true"
ASK = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}).encode()


class GatewayClient:
    """Opens on entering, closes on leaving; every wait in it is bounded."""

    def __init__(
        self,
        base_url: str,
        *,
        key: str = KEY,
        limits: Limits | None = None,
        answers_room: Room | None = None,
        on_fault: Callable[[Exception], None] = log_fault,
        **options: Any,
    ) -> None:
        self._base_url = base_url
        self._key = key
        self._limits = limits
        self._answers_room = answers_room
        self._on_fault = on_fault
        self._options = options
        self._calls: queue.Queue[ModelCall] = queue.Queue()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._upstream: LiveUpstream | None = None
        self._gateway: Gateway | None = None

    def __enter__(self) -> "GatewayClient":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(WAIT_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_S)
        self._loop.close()

    @property
    def gateway(self) -> Gateway:
        assert self._gateway is not None
        return self._gateway

    @property
    def connections(self) -> int:
        return self.gateway.connections

    def wait_until_alone(self) -> None:
        """Until it knows that every agent has left; what it does for one that has may go on."""
        connections = self.gateway._server._shared.connections  # pyright: ignore[reportPrivateUsage]  nobody else asks
        wait_until(lambda: all(each.is_lost for each in list(connections)), "gateway that knows it")

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(WAIT_S)

    def next_call(self) -> ModelCall:
        return self._calls.get(timeout=WAIT_S)

    def calls_so_far(self) -> list[ModelCall]:
        """Those not yet taken; complete only once it is closed."""
        return [self._calls.get_nowait() for _ in range(self._calls.qsize())]

    def ask(
        self,
        path: str = PATH,
        *,
        method: str = "POST",
        body: bytes = ASK,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            return exchange(connection, method, path, body=body, headers=headers or {"x-api-key": TOKEN})
        finally:
            connection.close()

    def begin(self) -> socket.socket:
        """An agent that has asked and can leave at any moment."""
        plug = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)
        head = f"POST {PATH} HTTP/1.1\r\nhost: x\r\nx-api-key: {TOKEN}\r\ncontent-length: {len(ASK)}\r\n\r\n"
        plug.sendall(head.encode() + ASK)
        return plug

    async def _open(self) -> None:
        self._upstream = LiveUpstream(base_url=self._base_url, key=self._key, **self._options)
        self._gateway = Gateway(
            token=TOKEN,
            upstream=self._upstream,
            on_call=self._calls.put,
            limits=self._limits,
            answers_room=self._answers_room,
            on_fault=self._on_fault,
        )
        await self._gateway.open(self._listener)

    async def _close(self) -> None:
        if self._gateway:
            await self._gateway.close()
        if self._upstream:
            await self._upstream.close()
