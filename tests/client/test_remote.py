"""What only the client of a server meets: servers that are not there, are another's, or come back."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from inspan import Budget, Client, Limits, Task
from inspan.errors import AnswerLost, BadInput, ServerRefused, ServerUnreachable
from tests.cli.scenarios import release_tool, start_waiting_run
from tests.cli_env import WAIT_S, CliEnv
from tests.server.server_process import ServerProcess, choose_port

pytestmark = pytest.mark.anyio
Answer = Callable[[int, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def find_free_port() -> int:
    """One that the next server on it may find taken again: then its test says so."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


async def test_a_stream_goes_on_where_it_broke_when_the_server_comes_back(
    cli_env: CliEnv, caplog: pytest.LogCaptureFixture
) -> None:
    first = ServerProcess(cli_env, "--port", str(choose_port()))
    run = start_waiting_run(cli_env)
    client = Client(f"http://127.0.0.1:{first.port}", token=first.token)
    numbers, seen = list[int](), asyncio.Event()

    async def follow() -> None:
        async for record in client.runs.events(run):
            numbers.append(record.number)
            if record.kind == "tool_started":
                seen.set()

    following = asyncio.create_task(follow())
    async with asyncio.timeout(WAIT_S):
        await seen.wait()
    first.process.kill()
    first.wait()
    second = ServerProcess(cli_env, "--port", str(first.port))
    assert second.token == first.token
    release_tool(cli_env)
    async with asyncio.timeout(WAIT_S):
        await following
    assert numbers == list(range(1, len(cli_env.events(run)) + 1))
    assert {record.name for record in caplog.records if record.name.startswith("inspan")} == {"inspan.client"}
    second.close()


async def test_a_server_that_stays_away_is_told_after_the_time_that_was_given(cli_env: CliEnv) -> None:
    server = ServerProcess(cli_env)
    run = start_waiting_run(cli_env)
    client = Client(f"http://127.0.0.1:{server.port}", token=server.token, reconnect_s=0.2)
    records = client.runs.events(run)
    await anext(records)
    server.close()
    with pytest.raises(ServerUnreachable, match="does not answer"):
        async for _ in records:
            pass
    release_tool(cli_env)


async def test_nobody_at_an_address_is_told(cli_env: CliEnv) -> None:
    client = Client(f"http://127.0.0.1:{find_free_port()}", token="x", reconnect_s=0)
    with pytest.raises(ServerUnreachable) as raised:
        await client.runs.list()
    assert raised.value.retry_helps and "inspan serve" in raised.value.next_step
    with pytest.raises(ServerUnreachable):
        await anext(client.runs.events("x"))


async def test_a_wrong_token_is_refused(cli_env: CliEnv) -> None:
    server = ServerProcess(cli_env)
    client = Client(f"http://127.0.0.1:{server.port}", token="wrong")
    with pytest.raises(ServerRefused) as raised:
        await client.runs.list()
    assert raised.value.status == 401
    with pytest.raises(ServerRefused):
        await anext(client.runs.events("x"))
    server.close()


async def test_the_link_that_a_server_prints_is_its_address_with_its_token(cli_env: CliEnv) -> None:
    server = ServerProcess(cli_env)
    client = Client(f"http://127.0.0.1:{server.port}/#token={server.token}")
    assert await client.runs.list() == []
    assert server.token not in repr(client)
    server.close()


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:7117/?token=s3cret",
        "http://127.0.0.1:7117/#key=s3cret",
        "http://127.0.0.1:7117/?a#token=s3cret",
        "http://u:s3cret@127.0.0.1:7117/",
        "http://u:s3/cret@127.0.0.1:7117/s3cret@x",
        "http://u:p://s3cret@127.0.0.1:7117/",
        "u:s3cret@127.0.0.1:7117",
        "ftp://127.0.0.1/#token=s3cret",
        "127.0.0.1:7117/#token=s3cret",
    ],
)
@pytest.mark.parametrize("token", ["", "t"])
def test_a_secret_in_an_address_is_not_shown(url: str, token: str) -> None:
    with pytest.raises(BadInput) as caught:
        Client(url, token=token)
    error: BaseException | None = caught.value
    while error:
        assert "s3cret" not in f"{error} {vars(error)}"
        error = error.__cause__


@asynccontextmanager
async def answering(answer: Answer) -> AsyncGenerator[int]:
    """The port of a server that does this with each connection; it is told the number of the connection."""
    count, taking = 0, set[asyncio.Task[Any]]()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        taking.update(task for task in (asyncio.current_task(),) if task)
        try:
            await answer(count, reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        for task in taking:
            task.cancel()
        await asyncio.gather(*taking, return_exceptions=True)


def always(head: str, body: bytes) -> Answer:
    """The same for each request."""

    async def answer(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {head}\r\nconnection: close\r\n\r\n".encode() + body)
        await writer.drain()

    return answer


RECORD = b'id: 1\nevent: run_started\ndata: {"run_id":"r","n":1,"t":1.0,"event":{"kind":"text_said","text":"x"}}\n\n'


@pytest.mark.parametrize(
    ("head", "body", "words"),
    [
        ("200 OK\r\ncontent-type: text/html", b"hello", "is not a stream"),
        ("200 OK\r\ncontent-type: text/event-stream", b"", "broke off"),
        ("200 OK\r\ncontent-type: text/event-stream", b"retry: 1000\n\n", "broke off"),
        ("200 OK\r\ncontent-type: text/event-stream", RECORD, "broke off"),
        ("504 Gateway Timeout\r\ncontent-type: text/html", b"late", "says 504"),
    ],
    ids=["page", "nothing", "no event", "the same again", "gateway"],
)
async def test_a_stream_that_never_gets_on_is_told(head: str, body: bytes, words: str) -> None:
    async with answering(always(head, body)) as port, asyncio.timeout(WAIT_S):
        client = Client(f"http://127.0.0.1:{port}", token="x", reconnect_s=0.4)
        with pytest.raises(ServerUnreachable, match=words):
            async for _ in client.runs.events("x"):
                pass
        with pytest.raises(ServerUnreachable, match=words):
            await client.runs.wait("x")


async def test_a_server_of_something_else_is_told() -> None:
    async with answering(always("200 OK\r\ncontent-type: text/html\r\ncontent-length: 5", b"hello")) as port:
        with pytest.raises(ServerRefused, match="strange answer"):
            await Client(f"http://127.0.0.1:{port}", token="x").runs.list()


BUSY = b'{"type":"x","title":"x","status":503,"detail":"It is full.","code":"too_many","next":"Wait.","request_id":"r"}'


async def test_what_stands_before_a_server_may_say_that_it_is_not_there(cli_env: CliEnv) -> None:
    server = ServerProcess(cli_env)
    run = cli_env.run("scripted", '[[call]]\nsay = "hello"\n').run_id

    async def answer(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if number == 2:
            await always("502 Bad Gateway\r\ncontent-type: text/html", b"<html>")(number, reader, writer)
        elif number == 3:
            await always("503 Service Unavailable\r\nretry-after: 1", BUSY)(number, reader, writer)
        else:
            await pass_on(server.port, reader, writer, most=400 if number == 1 else None)

    async with answering(answer) as port, asyncio.timeout(WAIT_S):
        client = Client(f"http://127.0.0.1:{port}", token=server.token)
        numbers = [record.number async for record in client.runs.events(run)]
    assert numbers == list(range(1, len(cli_env.events(run)) + 1))
    server.close()


@pytest.mark.parametrize("lost", [1, 1000])
async def test_a_start_whose_answer_is_lost_starts_once(cli_env: CliEnv, lost: int) -> None:
    server = ServerProcess(cli_env)

    async def answer(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await pass_on(server.port, reader, writer, most=0 if number <= lost else None)

    path = cli_env.scenario('[[call]]\nsay = "hello"\n').removeprefix("script:")
    (cli_env.work / "hello.toml").write_text(Path(path).read_text())
    model_from = f"script:{cli_env.work}/hello.toml"
    task = Task(prompt="x", cwd=str(cli_env.work), agent="scripted", model_from=model_from)
    async with answering(answer) as port, asyncio.timeout(WAIT_S):
        client = Client(f"http://127.0.0.1:{port}", token=server.token, reconnect_s=60 if lost == 1 else 0.2)
        if lost == 1:
            assert (await client.runs.start(task)).run_id
        else:
            with pytest.raises(AnswerLost, match="its answer was lost") as raised:
                await client.runs.start(task)
            assert not raised.value.retry_helps and "list of runs" in raised.value.next_step
    there = Client(f"http://127.0.0.1:{server.port}", token=server.token)
    (run,) = await there.runs.list()
    await there.runs.wait(run.run_id)
    server.close()


async def pass_on(port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, most: int | None) -> None:
    """One request to the server, and of its answer so much; with 0, once it is there."""
    there, to_there = await asyncio.open_connection("127.0.0.1", port)
    head = await reader.readuntil(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    to_there.write(head + await reader.readexactly(length))
    try:
        while piece := await there.read(65536):
            writer.write(piece if most is None else piece[:most])
            await writer.drain()
            if most is not None:
                break
    finally:
        to_there.close()


async def test_output_that_is_no_utf_8_comes_byte_for_byte(cli_env: CliEnv) -> None:
    server = ServerProcess(cli_env)
    run = cli_env.run("scripted", '[[call]]\nsay = "hello"\n').run_id
    path = cli_env.folder(run) / "stderr"
    data = b"caf\xc3\xa9 \xff\xfe raw \x00" + bytes(range(256)) * 300
    path.write_bytes(data)
    client = Client(f"http://127.0.0.1:{server.port}", token=server.token)
    assert b"".join([piece.data async for piece in client.runs.output(run, "stderr")]) == data
    assert b"".join([piece.data async for piece in client.runs.output(run, "stderr", offset=4)]) == data[4:]
    server.close()


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("task.budgets.run.usd", {"budgets": {"run": Budget(usd=float("nan"))}}),
        ("task.budgets.run.usd", {"budgets": {"run": Budget(usd=float("inf"))}}),
        ("task.limits.timeout_s", {"limits": Limits(timeout_s=float("inf"))}),
        ("task.prompt", {"prompt": "half \ud800"}),
        ("task.env.TASK_X", {"env": {"TASK_X": "half \ud800"}}),
    ],
)
async def test_what_cannot_be_sent_is_refused_before_anything_is(field: str, changes: dict[str, Any]) -> None:
    client = Client(f"http://127.0.0.1:{find_free_port()}", token="t")
    given: dict[str, Any] = {"prompt": "x", "cwd": "/", "agent": "scripted", **changes}
    task = Task(**given)
    with pytest.raises(BadInput) as caught:
        await client.runs.start(task)
    assert caught.value.field == field
