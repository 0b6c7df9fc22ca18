"""A server from its socket to its end: bound before anything is promised, and over at once when it is told so."""

import asyncio
import errno
import gc
import logging
import resource
import signal
import socket
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

import uvicorn

from inspan.client.operations import OPERATIONS, Operation
from inspan.errors import BadInput

from .app import build_app
from .connection import Connection
from .hub import Hub
from .rim import LineFormatter
from .settings import ServerSettings
from .token_file import TokenFile

_BACKLOG = 2048
_PORTS_TRIED = 100
# What is still being answered when the server is told to end gets so long.
_GRACE_S = 2
_FIRST_REQUEST_S = 30.0
_SWEEP_S = 5.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def bind(host: str, port: int, *, is_fixed: bool) -> socket.socket:
    """A socket that listens, on this port or, unless it `is_fixed`, on the next that is free; raises `BadInput`."""
    for candidate in range(port, port + 1 if is_fixed or port == 0 else port + _PORTS_TRIED):
        try:
            return _listen(host, candidate)
        except OSError as error:
            if is_fixed or error.errno != errno.EADDRINUSE:
                raise _bind_error(host, candidate, error) from error
    raise BadInput("--port", port, f"neither it nor the {_PORTS_TRIED - 1} behind it are free.", next_step="Name one.")


def _listen(host: str, port: int) -> socket.socket:
    ((family, kind, protocol, _, address), *_) = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    listener = socket.socket(family, kind, protocol)
    try:
        # Also where connections of the server before are still being taken down: this keeps no one else's port.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        # Only now is the port taken: two that bound it at once learn here who has it.
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    listener.set_inheritable(False)
    return listener


def _bind_error(host: str, port: int, error: OSError) -> BadInput:
    if error.errno == errno.EADDRINUSE:
        return BadInput("--port", port, "another program listens there.", next_step="Name another, or none.")
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return BadInput("--host", host, "this machine has no such address.", next_step="Leave --host out.")
    return BadInput("--port", port, f"{(error.strerror or str(error)).lower()}.", next_step="Name another.")


def serve(
    listener: socket.socket,
    settings: ServerSettings,
    *,
    tokens: TokenFile,
    on_ready: Callable[[], object],
    certificate: str = "",
    key: str = "",
    operations: Iterable[Operation] = OPERATIONS,
) -> None:
    """Serves until a signal ends it. `on_ready` is called once clients are heard."""
    gc.enable()  # This may go on for days.
    _set_up_logging()
    _raise_file_limit()
    config = uvicorn.Config(
        app="",  # It is made in the loop that it lives in.
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE_S,
        ssl_certfile=certificate or None,
        ssl_keyfile=key or None,
    )
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_serve(config, listener, settings, tokens, on_ready, tuple(operations)))


async def _serve(
    config: uvicorn.Config,
    listener: socket.socket,
    settings: ServerSettings,
    tokens: TokenFile,
    on_ready: Callable[[], object],
    operations: tuple[Operation, ...],
) -> None:
    hub = Hub(settings.state, tokens=tokens)
    config.app = build_app(settings, operations, tokens=tokens, hub=hub)
    async with hub.open():
        await _Server(config, hub, on_ready).serve(sockets=[listener])


class _Server(uvicorn.Server):
    """Ends when it is told so, and its streams with it; who tells it twice waits for nothing."""

    def __init__(self, config: uvicorn.Config, hub: Hub, on_ready: Callable[[], object]) -> None:
        super().__init__(config)
        self._hub = hub
        self._on_ready = on_ready
        self._swept_at = 0.0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._swept_at > _SWEEP_S:
            self._swept_at = now
            for connection in tuple(self.server_state.connections):
                if isinstance(connection, Connection) and connection.is_idle_since(now - _FIRST_REQUEST_S):
                    connection.abort()
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        loop = asyncio.get_running_loop()
        taken = [each for each in _SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
        for each in taken:
            loop.add_signal_handler(each, self._end)
        try:
            yield
        finally:
            for each in taken:
                loop.remove_signal_handler(each)

    def _end(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
        self._hub.close()


def _set_up_logging() -> None:
    """What is worth a person's time goes to stderr, a line each; a program that embeds this has its own handlers."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter("inspan: %(message)s"))
    for name in ("inspan.server", "uvicorn.error"):
        found = logging.getLogger(name)
        if not found.handlers:
            found.addHandler(handler)
        found.propagate = False
    logging.getLogger("inspan.server").setLevel(logging.WARNING)
    # It warns of each broken request, which are the client's affair.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)


def _raise_file_limit() -> None:
    """As many followers as the system lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
