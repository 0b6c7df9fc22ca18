"""In every host: a run completes through the gateway, ends when it is cancelled, and leaves nothing behind."""

import asyncio
import socket
from pathlib import Path

import msgspec
import pytest

import inspan
from inspan import AgentResult, Event, Limits, RunEnded, Task
from tests.agents.provider import Provider
from tests.api.conftest import Play
from tests.api.run_env import RunEnv
from tests.cli_env import processes_of, wait_until
from tests.running.fake_agent import find_processes

from .hosts import EventRecorder, Host, assert_nothing_left, await_cancelled, each_host, gather_all, other_tasks

_WORKS = """
[[call]]
write = {path = "made.txt", content = "made"}
[[call]]
say = "I have made it."
"""
_HOLDS = "[[call]]\nrun = 'touch started; sleep 600'\n"
# The puppet tells the thread that it was asked to go on with.
_GOES_ON = "begin(); say(' '.join(word for word in sys.argv if word in ('resume', 'thread-1')) or 'new'); finish()"
_DEAF = """
for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)
begin(); say('here')
while True: time.sleep(86400)
"""
_SAYS = "[[call]]\nsay = 'from the provider'\nrepeat = 'always'\n"


@each_host
def test_a_run_completes_through_the_gateway(run_env: RunEnv, host: Host) -> None:
    task = _scripted_task(run_env, _WORKS)

    async def scene() -> tuple[AgentResult, set[str]]:
        return await inspan.run(task), other_tasks()

    with assert_nothing_left():
        result, tasks = host(scene)
    assert (result.outcome, result.message, result.model_calls, result.error) == ("completed", "I have made it.", 2, "")
    assert (run_env.work / "made.txt").read_text() == "made"
    assert tasks == set()


@each_host
def test_an_api_is_asked_recorded_and_replayed(run_env: RunEnv, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "sk-given-Qw8Zr5Tn2Lx9Vk4Hd7Pj")
    listener = socket.create_server(("127.0.0.1", 0))
    tape = run_env.root / "tape.jsonl"

    async def scene(url: str) -> list[AgentResult]:
        runner = inspan.create_agent_runner(
            "openai-compatible", cwd=run_env.work, profile="clean", model="llama", base_url=url
        )
        return [
            await runner.complete("hello", model_from=model_from)
            for model_from in ("", f"record:{tape}", f"replay:{tape}")
        ]

    with Provider(_SAYS, cwd=str(run_env.work), listener=listener) as provider, assert_nothing_left():
        results = host(lambda: scene(f"{provider.url}/v1"))
    assert [(result.message, result.error) for result in results] == [("from the provider", "")] * 3


@each_host
def test_a_cancelled_run_is_ended_and_its_log_says_so(run_env: RunEnv, host: Host) -> None:
    task = _scripted_task(run_env, _HOLDS)

    async def scene() -> tuple[str, set[str]]:
        ears = EventRecorder()
        call = asyncio.create_task(inspan.run(task, on_event=ears.record))
        run_id = (await ears.wait_for_start()).run_id
        await ears.wait_for_tool()
        call.cancel()
        await await_cancelled(call)
        assert processes_of(run_id) == []
        return run_id, other_tasks()

    with assert_nothing_left():
        _, tasks = host(scene)
    assert _end(run_env) == ("cancelled", "interrupted")
    assert (tasks, list(run_env.state.glob("active/*"))) == (set(), [])


@each_host
def test_a_deaf_agent_is_ended_by_a_timeout_of_the_caller(run_env: RunEnv, use_fake_agent: Play, host: Host) -> None:
    use_fake_agent(_DEAF)

    async def scene() -> None:
        ears = EventRecorder()

        async def call() -> None:
            await inspan.run(run_env.task, on_event=ears.record)

        async def passes() -> None:
            async with asyncio.timeout(None) as limit:
                running = asyncio.create_task(ears.wait_for_text())
                running.add_done_callback(lambda _: limit.reschedule(0))
                await call()

        with pytest.raises(TimeoutError):
            await passes()

    with assert_nothing_left():
        host(scene)
    assert _end(run_env) == ("cancelled", "interrupted")
    assert find_processes(str(run_env.root / "puppet")) == []


@each_host
def test_a_limit_of_the_run_holds(run_env: RunEnv, use_fake_agent: Play, host: Host) -> None:
    use_fake_agent("begin(); say('here')\nwhile True: time.sleep(86400)")
    task = msgspec.structs.replace(run_env.task, limits=Limits(timeout_s=0.5))

    async def scene() -> AgentResult:
        return await inspan.run(task)

    with assert_nothing_left():
        result = host(scene)
    assert (result.outcome, result.reason) == ("timed_out", "run_timeout")


@each_host
def test_two_runs_at_once_do_not_mix(run_env: RunEnv, host: Host) -> None:
    tasks = [_scripted_task(run_env, f"[[call]]\nsay = '{name}'\n", name=name) for name in ("left", "right")]

    async def scene() -> list[AgentResult]:
        return await gather_all(*(inspan.run(task) for task in tasks))

    with assert_nothing_left():
        results = host(scene)
    assert [result.message for result in results] == ["left", "right"]


@each_host
def test_a_conversation_goes_on(run_env: RunEnv, use_fake_agent: Play, host: Host) -> None:
    use_fake_agent(_GOES_ON)
    session = inspan.create_agent_runner("codex", cwd=run_env.work).create_session()

    async def scene() -> list[str]:
        return [(await session.send_message("x")).message for _ in range(2)]

    with assert_nothing_left():
        said = host(scene)
    assert said == ["new", "resume thread-1"]


@each_host
def test_a_supervised_run_is_started_followed_and_stopped(run_env: RunEnv, host: Host) -> None:
    task = _scripted_task(run_env, _HOLDS)

    async def scene() -> tuple[list[Event], bool]:
        run, heard, stopped = await inspan.start(task), list[Event](), False
        async for event in inspan.follow(run):
            heard.append(event)
            if type(event).__name__ == "ToolStarted":
                stopped = await run.stop(now=True)
        assert (await run.wait()).reason == "killed"
        return heard, stopped

    with assert_nothing_left():
        heard, stopped = host(scene)
    assert stopped
    assert heard == run_env.events()


@each_host
def test_a_start_that_is_cancelled_leaves_no_run_that_goes_on(run_env: RunEnv, host: Host) -> None:
    task = _scripted_task(run_env, _HOLDS)

    async def scene() -> None:
        await (await inspan.start(_scripted_task(run_env, _SAYS, name="warm"))).wait()
        for turns in (1, 2, 3, 5, 8, 40):
            call = asyncio.create_task(inspan.start(task))
            for _ in range(turns):
                await asyncio.sleep(0.002)
            call.cancel()
            try:
                run = await call
            except asyncio.CancelledError:
                continue
            assert await run.stop(now=True)
            await run.wait()

    with assert_nothing_left():
        host(scene)
    wait_until(lambda: not list(run_env.state.glob("active/*")), "end of every run")
    assert [folder.name for folder in run_env.folders() if processes_of(folder.name)] == []


def _scripted_task(run_env: RunEnv, scenario: str, name: str = "scenario") -> Task:
    return Task(prompt="do it", cwd=str(run_env.work), agent="scripted", model_from=run_env.scenario(scenario, name))


def _end(run_env: RunEnv, folder: Path | None = None) -> tuple[str, str]:
    last = run_env.events(folder)[-1]
    assert isinstance(last, RunEnded)
    return last.outcome, last.reason
