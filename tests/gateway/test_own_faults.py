"""What breaks in the gateway itself: it is told as such, and never as a failure of the network or the provider."""

import asyncio
import socket
from pathlib import Path

import pytest

import inspan
from inspan import AgentResult, Task
from inspan.framing.http import RequestHead
from inspan.gateway.http.server import HttpReply, HttpServer
from inspan.gateway.scripts.script import ScriptUpstream
from inspan.gateway.upstream import Reply, Request
from tests.api.run_env import make_run_env

from .provider import WAIT_S


def _admit(head: RequestHead) -> RequestHead:
    return head


async def _breaks(head: RequestHead, body: bytes, reply: HttpReply) -> None:
    raise KeyError("oops")


@pytest.mark.parametrize("family", ["tcp", "unix"])
def test_a_server_tells_what_broke_and_closes_the_connection(tmp_path: Path, family: str) -> None:
    faults: list[Exception] = []

    async def scene() -> bytes:
        server, listener = HttpServer(_admit, _breaks, on_fault=faults.append), _listener(family, tmp_path)
        await server.open(listener)
        opened = _unix if family == "unix" else asyncio.open_connection
        reader, writer = await opened(*_address(listener))
        try:
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            return await asyncio.wait_for(_rest(reader), WAIT_S)
        finally:
            writer.close()
            await server.close()

    assert asyncio.run(scene()) == b""
    # A socket that is not one of TCP's takes none of its options: what a loop gives for a socket may refuse anything.
    kinds = {"tcp": KeyError, "unix": OSError}
    assert [isinstance(fault, kinds[family]) for fault in faults] == [True]


def test_an_upstream_that_breaks_is_a_fault_of_inspan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = make_run_env(tmp_path, monkeypatch)

    async def broken(self: ScriptUpstream, request: Request, reply: Reply) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(ScriptUpstream, "answer", broken)
    model = stage.scenario("[[call]]\nsay = 'x'\n")
    heard: list[str] = []

    async def scene() -> AgentResult:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(repr(context["exception"])))
        return await inspan.run(Task(prompt="x", cwd=str(stage.work), agent="scripted", model_from=model))

    result = asyncio.run(scene())
    assert (result.outcome, result.reason) == ("failed", "harness")
    assert result.error == "inspan's gateway broke: KeyError('oops')"
    assert heard[0] == "KeyError('oops')"


async def _unix(path: str, _: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_unix_connection(path)


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


def _listener(family: str, folder: Path) -> socket.socket:
    if family == "tcp":
        return socket.create_server(("127.0.0.1", 0))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(folder / "s"))
    listener.listen()
    return listener


def _address(listener: socket.socket) -> tuple[str, int]:
    name = listener.getsockname()
    return (name, 0) if isinstance(name, str) else name
