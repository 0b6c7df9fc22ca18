"""The network of a run that has one of its own: what listens in it, and what it was refused."""

import asyncio
import socket

from inspan.gateway.egress import EgressProxy, PortForward
from inspan.protocol.events import ErrorReported, Event
from inspan.protocol.network import USUAL_PORTS, HostRule, format_place
from inspan.protocol.plan import AgentProcess
from inspan.system import forking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_HAND_OVER_S = 20.0
_MAX_REPORTS = 50


class BoxNetwork:
    """Takes the listeners that were made on the way into a box, serves the way out, and gives the gateway's."""

    def __init__(self, process: AgentProcess, *, record: "Callable[[Sequence[Event]], None]") -> None:
        self._process = process
        self._record = record
        self._servers: list[EgressProxy | PortForward] = []
        self._refused: set[tuple[str, int]] = set()

    async def open(self, link: int) -> socket.socket | None:
        """The gateway's listener; None where the process ended before it had made one."""
        entry, network = self._process.entry, self._process.network
        received = await receive_listeners(link, count=len(entry.ports) if entry else 0)
        if entry is None or len(received) < len(entry.ports):
            return None
        gateway, *listeners = received
        self._servers = [EgressProxy(network, proxies=entry.proxies, on_refused=self._on_refused)]
        self._servers += [PortForward(host, port) for port, host in network.local_ports.items()]
        try:
            await open_servers(self._servers, listeners)
        except BaseException:
            gateway.close()
            raise
        return gateway

    async def close(self) -> None:
        for server in self._servers:
            await server.close()

    def _on_refused(self, host: str, port: int) -> None:
        """Each host is told of once: an agent must not be able to fill the log."""
        if (host, port) in self._refused or len(self._refused) >= _MAX_REPORTS:
            return
        self._refused.add((host, port))
        rule = HostRule(host=host, port=None if port in USUAL_PORTS else port)
        message = f"The sandbox kept it from {format_place(host, port)}. To allow it: --net allow={rule}"
        self._record([ErrorReported(message=message)])


async def open_servers(servers: "Sequence[EgressProxy | PortForward]", listeners: "Sequence[socket.socket]") -> None:
    """Has each of them serve its listener. Whoever is cancelled meanwhile has to close the servers, nothing else."""
    waiting = list(listeners)
    try:
        for server in servers:
            await server.open(waiting.pop(0))
    finally:
        for listener in waiting:
            listener.close()


async def receive_listeners(link: int, *, count: int) -> list[socket.socket]:
    """The sockets that were made on the way into a box, which the caller then owns; none where it never got there."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    with socket.socket(fileno=link) as end:  # Closed, too, where nobody waits for it any more.
        loop.add_reader(link, lambda: None if readable.done() else readable.set_result(None))
        try:
            async with asyncio.timeout(_HAND_OVER_S):
                await readable
        except TimeoutError:
            return []
        finally:
            loop.remove_reader(link)
            forking.disown(link)
        _, fds, _, _ = socket.recv_fds(end, 1, count)
    made = [forking.own_socket(socket.socket(fileno=fd)) for fd in fds]
    for each in made:
        each.setblocking(False)
        each.set_inheritable(False)
    return made
