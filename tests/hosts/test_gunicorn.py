"""gunicorn with `--preload`: inspan is imported, a runner made and a run done before the workers are forked."""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest

from inspan import RunEnded
from tests.api.conftest import Play
from tests.api.run_env import RunEnv
from tests.cli_env import wait_until
from tests.running.fake_agent import find_processes

from .servers import Server, run_server

_APP = """
import asyncio, json, os, threading

import inspan

runner = inspan.create_agent_runner("codex", cwd=os.environ["WORK"])
session = runner.create_session()
MASTER = os.getpid()
# Whatever threads, locks and caches a run leaves behind, the workers are forked with.
FIRST = inspan.run_sync(runner.exec("first")).message


async def limited():
    async def hear(event):
        if type(event).__name__ == "TurnStarted":
            moment.reschedule(0)

    try:
        async with asyncio.timeout(None) as moment:
            await runner.exec("stay", on_event=hear)
    except TimeoutError:
        return "timeout"


async def supervised():
    run = await inspan.start(inspan.Task(prompt="supervised", cwd=os.environ["WORK"], agent="codex"))
    return (await run.wait()).message


async def both():
    return [result.message for result in await asyncio.gather(runner.exec("left"), runner.exec("right"))]


def talk():
    return [inspan.run_sync(session.send_message(text)).message for text in ("one", "two")]


def left():
    threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("inspan")]
    return {"threads": threads, "descriptors": len(os.listdir("/proc/self/fd"))}


ANSWERS = {
    "/ok": lambda: "ok",
    "/first": lambda: FIRST,
    "/both": lambda: inspan.run_sync(both()),
    "/limit": lambda: inspan.run_sync(limited()),
    "/supervised": lambda: inspan.run_sync(supervised()),
    "/talk": talk,
    "/left": left,
    "/worker": lambda: os.getpid() != MASTER,
}


def app(environ, start_response):
    body = json.dumps(ANSWERS[environ["PATH_INFO"]]()).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
"""
_ACTS = """
begin()
if prompt.strip() == 'stay':
    for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)
    while True: time.sleep(86400)
say(prompt.strip() + (' again' if 'resume' in sys.argv else ''))
finish()
"""
each_worker = pytest.mark.parametrize("worker", ["sync", "gthread"])


@each_worker
def test_workers_that_were_forked_run_agents(run_env: RunEnv, use_fake_agent: Play, worker: str) -> None:
    use_fake_agent(_ACTS)
    with _run_app(run_env, worker, "1") as server:
        assert (server.get("/worker"), server.get("/first")) == (True, "first")
        before = server.get("/left")
        assert server.get("/both") == ["left", "right"]
        assert server.get("/talk") == ["one", "two again"]
        assert server.get("/supervised") == "supervised"
        assert server.get("/limit") == "timeout"
        wait_until(lambda: not server.get("/left")["threads"], "end of the last thread")
        # A thread may still be closing the connection of the question before.
        wait_until(lambda: server.get("/left")["descriptors"] <= before["descriptors"], "end of the last descriptor")
    ends = [event for folder in run_env.folders() for event in run_env.events(folder) if isinstance(event, RunEnded)]
    assert sorted(event.reason for event in ends) == ["done"] * 6 + ["interrupted"]
    assert find_processes(str(run_env.root / "puppet")) == []
    assert list(run_env.state.glob("active/*")) == []


@each_worker
def test_several_workers_run_at_once(run_env: RunEnv, use_fake_agent: Play, worker: str) -> None:
    use_fake_agent(_ACTS)
    with _run_app(run_env, worker, "3") as server, ThreadPoolExecutor(6) as clients:
        answers = [answer.result() for answer in [clients.submit(server.get, "/both") for _ in range(6)]]
    assert answers == [["left", "right"]] * 6
    assert len({folder.name.rpartition("-")[2] for folder in run_env.folders()} - {str(os.getpid())}) >= 2


def _run_app(run_env: RunEnv, worker: str, workers: str) -> AbstractContextManager[Server]:
    (run_env.root / "app.py").write_text(_APP)
    words = ("gunicorn", "app:app", "--preload", "--bind", "fd://FD", "--worker-class", worker, "--workers", workers)
    patient = ("--timeout", "240", "--graceful-timeout", "240")
    return run_server(run_env.root, *words, *patient, env={"WORK": str(run_env.work), "PYTHONWARNINGS": "error"})
