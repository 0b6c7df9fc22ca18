"""Stopping a run that lives in somebody's program: from its own loop, from another thread, and at the shell."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest

import inspan
from inspan import AgentResult, RunEnded, Task
from inspan.protocol.events import ErrorReported
from tests.api.conftest import Play
from tests.api.run_env import RunEnv
from tests.running.fake_agent import find_processes

from .hosts import EventRecorder, Host, assert_nothing_left, each_loop

Stop = Callable[[str, bool], Awaitable[bool]]
_STAYS = "begin(); say('here')\nwhile True: time.sleep(86400)"


async def _from_the_loop(run_id: str, now: bool) -> bool:
    return await inspan.find_run(run_id).stop(now=now)


async def _from_a_thread(run_id: str, now: bool) -> bool:
    heard: list[bool] = []
    thread = threading.Thread(target=lambda: heard.append(asyncio.run(inspan.find_run(run_id).stop(now=now))))
    thread.start()
    await asyncio.to_thread(thread.join)
    return heard[0]


async def _at_the_shell(run_id: str, now: bool) -> bool:
    argv = [sys.executable, "-m", "inspan", "kill" if now else "stop", run_id]
    shell = await asyncio.to_thread(subprocess.run, argv, capture_output=True, check=False)
    return shell.returncode == 0


@each_loop
@pytest.mark.parametrize("stop", [_from_the_loop, _from_a_thread, _at_the_shell])
@pytest.mark.parametrize(("now", "reason"), [(False, "stopped"), (True, "killed")])
def test_a_run_in_a_program_can_be_stopped(
    run_env: RunEnv, use_fake_agent: Play, host: Host, stop: Stop, now: bool, reason: str
) -> None:
    use_fake_agent(_STAYS)

    async def scene() -> tuple[bool, AgentResult]:
        ears = EventRecorder()
        call = asyncio.create_task(inspan.run(run_env.task, on_event=ears.record))
        run_id = (await ears.wait_for_start()).run_id
        await ears.wait_for_text()
        return await stop(run_id, now), await call

    with assert_nothing_left():
        heard, result = host(scene)
    assert (heard, result.outcome, result.reason) == (True, "cancelled", reason)
    assert find_processes(str(run_env.root / "puppet")) == []


@each_loop
def test_a_run_that_has_ended_does_not_hear_it(run_env: RunEnv, use_fake_agent: Play, host: Host) -> None:
    use_fake_agent("begin(); say('done'); finish()")

    async def scene() -> bool:
        result = await inspan.run(run_env.task)
        return await inspan.find_run(result.run_id).stop()

    with assert_nothing_left():
        assert not host(scene)


def test_a_program_without_a_place_for_sockets_still_gets_its_run(
    run_env: RunEnv, use_fake_agent: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_agent("begin(); say('done'); finish()")
    with TemporaryDirectory(dir="/tmp") as runtime:  # A longer path would not be used for sockets.
        Path(runtime, "inspan").write_text("a file where the folder should be")
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        result = inspan.run_sync(inspan.run(run_env.task))
    assert result.ok
    (told,) = (event for event in run_env.events() if isinstance(event, ErrorReported))
    assert told.message.startswith("the run cannot be stopped from elsewhere")


def test_of_two_runs_only_the_one_that_is_meant_is_stopped(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent("begin(); say('here')\nwhile not os.path.exists(prompt): time.sleep(0.01)\nfinish()")

    async def scene() -> list[AgentResult]:
        ears, tasks = [EventRecorder(), EventRecorder()], [_with_prompt(run_env, name) for name in ("left", "right")]
        calls = [
            asyncio.create_task(inspan.run(task, on_event=each.record)) for task, each in zip(tasks, ears, strict=True)
        ]
        for each in ears:
            await each.wait_for_text()
        assert await inspan.find_run((await ears[0].wait_for_start()).run_id).stop()
        (run_env.work / "right").touch()
        return await asyncio.gather(*calls)

    assert [result.reason for result in asyncio.run(scene())] == ["stopped", "done"]
    assert all(isinstance(run_env.events(folder)[-1], RunEnded) for folder in run_env.folders())


def _with_prompt(run_env: RunEnv, prompt: str) -> Task:
    return msgspec.structs.replace(run_env.task, prompt=prompt)
