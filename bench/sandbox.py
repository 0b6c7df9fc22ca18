"""What a sandbox costs: a start in it against containment alone, a request through its proxy, and 200 boxes at once."""

import asyncio
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from bench.stage.rows import Row, at_most_alone
from inspan.containment.containment import METHODS
from inspan.contracts.sandbox import Box
from inspan.gateway.egress import EgressProxy
from inspan.protocol.network import NetworkPolicy, parse_network
from inspan.sandboxes.bwrap import SANDBOX
from inspan.sandboxes.bwrap.view import _list_private  # pyright: ignore[reportPrivateUsage]
from inspan.transports.process import Spawned, spawn

if TYPE_CHECKING:
    from inspan.system.entry import Setup

_MOST_START_MS, _MOST_PROXY_MS = 10.0, 1.0
_ENV = {"PATH": os.environ.get("PATH", os.defpath)}


def measure(*, quick: bool = False) -> list[Row]:
    """All in one run, in turn: contained, boxed by a supervisor, boxed by a program with threads of its own."""
    rounds, boxes = (10, 20) if quick else (100, 200)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        return [*_measure_start(folder, rounds), _measure_many(folder, boxes), asyncio.run(_measure_proxy(rounds * 3))]


def _measure_start(folder: str, rounds: int) -> list[Row]:
    ways: dict[str, Callable[[], Spawned]] = {
        "contained": lambda: _start(("/bin/true",), folder, boxed=False),
        "forked": lambda: _start(("/bin/true",), folder, forks=True),
        "script": lambda: _start(("/bin/true",), folder, forks=False),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            begun = time.perf_counter()
            _finish(way())
            times[name].append((time.perf_counter() - begun) * 1e3)
    middle = {name: statistics.median(each) for name, each in times.items()}
    note = (
        f"`true` from start to end, median of {rounds}, in turn; peer: containment alone, {middle['contained']:.2f} ms"
    )
    return [
        _added(
            "sandbox_start_added", middle["forked"], middle["contained"], bar=_MOST_START_MS, note=f"supervisor; {note}"
        ),
        _added(
            "sandbox_start_added_in_process",
            middle["script"],
            middle["contained"],
            bar=None,
            note=f"in a program; {note}",
        ),
    ]


def _measure_many(folder: str, count: int) -> Row:
    begun = time.perf_counter()
    started = [_start(("/bin/sleep", "600"), folder, forks=True) for _ in range(count)]
    for each in started:
        _receive(each)
    up = time.perf_counter() - begun
    for each in started:
        os.kill(each.pid, 9)
        _finish(each)
    note = f"{count} boxes alive at a time, until each has its network; ended and reaped afterwards"
    return at_most_alone(f"sandbox_{count}_boxes_s", up, bar=None, unit="s", note=note)


def _start(argv: tuple[str, ...], folder: str, *, boxed: bool = True, forks: bool = True) -> Spawned:
    box = Box(cwd=folder, root=os.geteuid() == 0, private=boxed, home="/root", network=NetworkPolicy(reach="gateway"))
    if not boxed:
        return spawn(list(METHODS[0].wrap(argv, box)), _ENV, stdin=b"", liveness_pipe=False)
    _list_private.cache_clear()  # Each run is a start of its own, in which the machine is looked at once.
    isolation = SANDBOX.isolate(box)
    setup: Setup = {
        "groups": [],
        "isolated": True,
        "ports": [8080, 8081],
        "filter": isolation.filter if isolation else b"",
        "scoped": False,
    }
    return spawn(list(SANDBOX.wrap(argv, box)), _ENV, stdin=b"", liveness_pipe=False, setup=setup, forks=forks)


def _receive(started: Spawned) -> None:
    with socket.socket(fileno=started.link) as link:
        link.setblocking(True)
        _, fds, _, _ = socket.recv_fds(link, 1, 2)
    for fd in fds:
        os.close(fd)
    started.link = -1


def _finish(started: Spawned) -> None:
    os.waitpid(started.pid, 0)
    for fd in (started.stdout, started.stderr, started.link):
        if fd >= 0:
            os.close(fd)


async def _measure_proxy(rounds: int) -> Row:
    """A small answer over a new connection, straight and through the proxy."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    policy = parse_network(f"allow=127.0.0.1:{port}")
    proxy = EgressProxy(policy, proxies={}, on_refused=lambda host, port: None)
    listener = socket.create_server(("127.0.0.1", 0))
    await proxy.open(listener)
    straight = f"GET / HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n"
    through = straight.replace("GET /", f"GET http://127.0.0.1:{port}/")
    times: dict[str, list[float]] = {"straight": [], "through": []}
    for _ in range(rounds):
        times["straight"].append(await _ask(port, straight))
        times["through"].append(await _ask(listener.getsockname()[1], through))
    await proxy.close()
    server.close()
    middle = {name: statistics.median(each) for name, each in times.items()}
    note = f"a request over a new connection, median of {rounds}; straight {middle['straight']:.2f} ms"
    return _added("egress_added", middle["through"], middle["straight"], bar=_MOST_PROXY_MS, note=note)


async def _ask(port: int, request: str) -> float:
    begun = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode())
    assert (await reader.read()).endswith(b"ok")
    writer.close()
    return (time.perf_counter() - begun) * 1e3


def _added(name: str, ours: float, without: float, *, bar: float | None, note: str) -> Row:
    return at_most_alone(f"{name}_ms", ours - without, bar=bar, unit="ms", note=note)
