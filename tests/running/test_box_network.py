"""What a run is told when its network keeps it from a host: the flag that it is given would allow just that host."""

import asyncio
import socket
from contextlib import suppress

import pytest

from inspan.protocol.events import ErrorReported, Event
from inspan.protocol.network import parse_network
from inspan.protocol.plan import AgentProcess, Entry
from inspan.running.box_network import BoxNetwork
from tests.api.run_env import descriptors


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def build_process(network: str, *, ports: int) -> AgentProcess:
    return AgentProcess(
        argv=["agent"],
        env={},
        stdin=b"",
        keeps_stdin=False,
        conversation=False,
        preamble="",
        liveness_pipe=False,
        agent_depth=0,
        sandbox="bwrap",
        containment="bwrap",
        access="",
        entry=Entry(ports=list(range(ports))),
        network=parse_network(network),
    )


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("target", "host", "port"),
    [
        ("[::1]:18082", "::1", 18082),
        ("[2001:db8::1]:8080", "2001:db8::1", 8080),
        ("[2001:db8::1]:443", "2001:db8::1", 443),
        ("other.example:443", "other.example", 443),
        ("10.0.0.5:81", "10.0.0.5", 81),
    ],
)
async def test_the_flag_that_a_refusal_names_allows_that_host(target: str, host: str, port: int) -> None:
    told: list[Event] = []
    ours, theirs = socket.socketpair()
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    way_out = listeners[1].getsockname()[1]
    socket.send_fds(theirs, [b"\0"], [each.fileno() for each in listeners])
    network = BoxNetwork(build_process("allow=only.example", ports=2), record=told.extend)
    gateway = await network.open(ours.detach())
    reader, writer = await asyncio.open_connection("127.0.0.1", way_out)
    writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    await network.close()
    for each in (*listeners, theirs, *([gateway] if gateway else [])):
        each.close()
    (event,) = told
    assert isinstance(event, ErrorReported)
    assert f"kept it from {target}." in event.message
    assert f"inspan: {target} is not on the list".encode() in answer
    flag = event.message.partition("--net ")[2]
    assert parse_network(flag).find_rule(host, port)


@pytest.mark.anyio
async def test_an_opening_that_is_cancelled_at_any_step_leaves_no_open_socket() -> None:
    before, steps, cancelled = descriptors(), 1, True
    while cancelled:  # Until the opening is over before the cancel comes.
        ours, theirs = socket.socketpair()
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
        with theirs:
            socket.send_fds(theirs, [b"\0"], [each.fileno() for each in listeners])
        for each in listeners:
            each.close()
        network = BoxNetwork(
            build_process("allow=only.example,localhost:1,localhost:2", ports=4), record=lambda events: None
        )
        opening = asyncio.create_task(network.open(ours.detach()))
        for _ in range(steps):
            await asyncio.sleep(0)
        cancelled = opening.cancel()
        with suppress(asyncio.CancelledError):
            if gateway := await opening:
                gateway.close()
        await network.close()
        assert not descriptors() - before
        steps += 1
    assert steps > 4
