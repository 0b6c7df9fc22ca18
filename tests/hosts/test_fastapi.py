"""FastAPI under uvicorn: who stays gets every event, who leaves ends the run, and the server goes on."""

import json
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import inspan
from inspan import RunEnded
from tests.api.conftest import Play
from tests.api.run_env import RunEnv
from tests.cli_env import WAIT_S, wait_until
from tests.running.fake_agent import find_processes

from .servers import Server, run_server

_APP = '''
import asyncio, json, os, threading, time
from contextlib import asynccontextmanager, suppress

import inspan
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

runs = set()


@asynccontextmanager
async def lifespan(app):
    yield
    for running in runs:
        running.cancel()
    await asyncio.gather(*runs, return_exceptions=True)


app = FastAPI(lifespan=lifespan)
runner = inspan.create_agent_runner("codex", cwd=os.environ["WORK"])
session = runner.create_session()


@app.get("/ok")
async def ok():
    return "ok"


@app.get("/events")
async def events():
    return StreamingResponse(lines(), media_type="application/x-ndjson")


async def lines():
    """The events of a run as they come, from a task that is cancelled when the client leaves."""
    heard = asyncio.Queue()

    async def run():
        try:
            await runner.exec("do it", on_event=heard.put)
        finally:
            heard.put_nowait(None)

    running = asyncio.create_task(run())
    runs.add(running)
    running.add_done_callback(runs.discard)
    try:
        while event := await heard.get():
            yield json.dumps({"kind": type(event).__name__}) + "\\n"
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@app.get("/answer")
async def answer():
    """A run that is awaited in the stream itself."""

    async def stream():
        yield "wait\\n"
        yield (await runner.exec("do it")).message

    return StreamingResponse(stream(), media_type="text/plain")


@app.get("/limit")
async def limit():
    async def hear(event):
        if type(event).__name__ == "TextSaid":
            moment.reschedule(0)

    try:
        async with asyncio.timeout(None) as moment:
            await runner.exec("do it", on_event=hear)
    except TimeoutError:
        return "timeout"


@app.get("/talk")
async def talk():
    return [(await session.send_message("x")).message for _ in range(2)]


@app.get("/left")
async def left():
    """What the server is left with, and the share of a moment in which it computes though nobody asks for anything."""
    begun, used = time.monotonic(), time.process_time()
    await asyncio.sleep(0.5)
    share = (time.process_time() - used) / (time.monotonic() - begun)
    tasks = [task.get_name() for task in asyncio.all_tasks() if "inspan" in task.get_name()]
    threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("inspan")]
    return {"share": share, "tasks": tasks, "threads": threads, "descriptors": len(os.listdir("/proc/self/fd"))}
'''
_SPEAKS = "begin(); say('hello'); finish()"
_DEAF = """
for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)
begin(); say('here'); open('here', 'w').close()
while True: time.sleep(86400)
"""
_GOES_ON = "begin(); say(' '.join(word for word in sys.argv if word in ('resume', 'thread-1')) or 'new'); finish()"
each_loop = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])


@each_loop
def test_a_client_that_stays_gets_every_event(run_env: RunEnv, use_fake_agent: Play, loop: str) -> None:
    use_fake_agent(_SPEAKS)
    with _run_app(run_env, loop) as server:
        with server.open_stream("/events") as answer:
            kinds = [json.loads(line)["kind"] for line in answer]
        assert server.get("/left")["tasks"] == []
    assert kinds == [type(event).__name__ for event in run_env.events()]
    assert kinds[-1] == "RunEnded"


@each_loop
@pytest.mark.parametrize("path", ["/events", "/answer"])
def test_a_client_that_leaves_ends_its_run_and_the_server_goes_on(
    run_env: RunEnv, use_fake_agent: Play, loop: str, path: str
) -> None:
    use_fake_agent(_DEAF)
    with _run_app(run_env, loop) as server:
        before = server.get("/left")
        for _ in range(2):
            with server.open_stream(path) as answer:
                answer.readline()
                wait_until((run_env.work / "here").exists, "agent")
            wait_until(lambda: _all_ended(run_env), "end of the run")
            (run_env.work / "here").unlink()
        assert find_processes(str(run_env.root / "puppet")) == []
        wait_until(lambda: not server.get("/left")["threads"], "end of the last thread")
        wait_until(lambda: server.get("/left")["descriptors"] <= before["descriptors"], "end of the last descriptor")
        left = server.get("/left")
        assert left["tasks"] == []
        assert left["share"] < 0.5, "somebody spins"
    assert [_end(run_env, folder) for folder in run_env.folders()] == [("cancelled", "interrupted")] * 2


@each_loop
def test_a_timeout_and_a_conversation_are_as_anywhere(run_env: RunEnv, use_fake_agent: Play, loop: str) -> None:
    use_fake_agent(_GOES_ON)
    with _run_app(run_env, loop) as server:
        assert server.get("/talk") == ["new", "resume thread-1"]
        use_fake_agent(_DEAF)
        assert server.get("/limit") == "timeout"
        assert server.get("/left")["tasks"] == []
    assert _end(run_env, run_env.folders()[-1]) == ("cancelled", "interrupted")


@each_loop
@pytest.mark.parametrize(
    ("path", "outcome"),
    [
        # The server waits for what its lifespan waits for, and leaves all else as it is.
        ("/events", ("cancelled", "interrupted")),
        ("/answer", ("lost", "supervisor_lost")),
    ],
)
def test_a_server_that_is_told_to_go_leaves_no_agent(
    run_env: RunEnv, use_fake_agent: Play, loop: str, path: str, outcome: tuple[str, str]
) -> None:
    use_fake_agent(_DEAF)
    with _run_app(run_env, loop, "--timeout-graceful-shutdown", "1") as server:
        with server.open_stream(path) as answer:
            answer.readline()
            wait_until((run_env.work / "here").exists, "agent")
            server.process.terminate()
            server.process.wait(WAIT_S)
    wait_until(lambda: not find_processes(str(run_env.root / "puppet")), "end of the agent")
    result = inspan.run_sync(inspan.find_run("@last-anywhere").wait())
    assert (result.outcome, result.reason) == outcome


def _run_app(run_env: RunEnv, loop: str, *more: str) -> AbstractContextManager[Server]:
    (run_env.root / "app.py").write_text(_APP)
    words = ("uvicorn", "app:app", "--fd", "FD", "--loop", loop, "--http", "h11", "--log-level", "warning", *more)
    return run_server(run_env.root, *words, env={"WORK": str(run_env.work)})


def _all_ended(run_env: RunEnv) -> bool:
    return not list(run_env.state.glob("active/*"))


def _end(run_env: RunEnv, folder: Path) -> tuple[str, str]:
    last = run_env.events(folder)[-1]
    assert isinstance(last, RunEnded)
    return last.outcome, last.reason
