"""Open sessions in the hosts that programs run in: loops of other makers, scopes that cancel, clients that leave."""

import asyncio
from collections.abc import AsyncIterator, Callable

import anyio
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

from inspan import RunEnded
from tests.api.run_env import RunEnv, wait_until_async
from tests.running.open_session import ECHO, OBEYS, open_puppet

from .hosts import Host, assert_nothing_left, each_host, in_anyio, in_anyio_on_uvloop, other_tasks

Fake = Callable[[str, str], str]
both = pytest.mark.parametrize("host", [in_anyio, in_anyio_on_uvloop], ids=["asyncio", "uvloop"])


@each_host
def test_a_session_is_held_in_every_host(run_env: RunEnv, fake: Fake, host: Host) -> None:
    async def scene() -> tuple[list[str], set[str]]:
        async with open_puppet(run_env, fake, ECHO) as session:
            told = [(await session.send_message(text)).message for text in ("one", "two")]
        return told, other_tasks()

    with assert_nothing_left():
        assert host(scene) == (["got one", "got two"], set())


@both
def test_a_scope_that_is_left_ends_the_session(run_env: RunEnv, fake: Fake, host: Host) -> None:
    async def scene() -> tuple[bool, set[str]]:
        with anyio.move_on_after(None) as scope:
            async with open_puppet(run_env, fake, OBEYS) as session:
                sent = await session.follow_up("wait")
                scope.cancel()
                await sent
        return scope.cancelled_caught, other_tasks()

    with assert_nothing_left():
        assert host(scene) == (True, set())
    (ended,) = [event for event in run_env.events() if isinstance(event, RunEnded)]
    assert (ended.outcome, ended.reason) == ("cancelled", "interrupted")


def test_a_client_that_leaves_a_stream_ends_its_session(run_env: RunEnv, fake: Fake) -> None:
    async def stream(_: object) -> StreamingResponse:
        async def lines() -> AsyncIterator[str]:
            async with open_puppet(run_env, fake, OBEYS) as session:
                async for record in await session.follow_up("wait"):
                    yield f"{record.kind}\n"

        return StreamingResponse(lines())

    async def scene() -> bytes:
        app = Starlette(routes=[Route("/", stream)])
        server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
        serving = asyncio.get_running_loop().create_task(server.serve())
        await wait_until_async(lambda: server.started, "server")
        port = server.servers[0].sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
        told = await reader.readuntil(b"message_sent")
        writer.close()
        await wait_until_async(run_env.has_ended, "end")
        server.should_exit = True
        await serving
        return told

    assert asyncio.run(scene()).startswith(b"HTTP/1.1 200")
    (ended,) = [event for event in run_env.events() if isinstance(event, RunEnded)]
    assert ended.outcome == "cancelled"
