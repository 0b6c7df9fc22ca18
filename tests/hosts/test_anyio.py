"""Cancel scopes of anyio, which cancel again at every turn of the loop until their task has left."""

import asyncio
from pathlib import Path

import anyio
import msgspec
import pytest

import inspan
from inspan import Event, RunEnded
from tests.api.conftest import Play
from tests.api.run_env import RunEnv, wait_until_async
from tests.cli_env import wait_until
from tests.running.fake_agent import find_processes

from .hosts import EventRecorder, Host, assert_nothing_left, in_anyio, in_anyio_on_uvloop, other_tasks

_DEAF = """
for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)
begin(); say('here')
while True: time.sleep(86400)
"""
# How often a task may be told that it is cancelled before it has left: a few turns of the loop, not each one.
_FEW = 3
both = pytest.mark.parametrize("host", [in_anyio, in_anyio_on_uvloop], ids=["asyncio", "uvloop"])


@both
def test_a_scope_that_is_left_ends_the_run(run_env: RunEnv, use_fake_agent: Play, host: Host) -> None:
    use_fake_agent(_DEAF)

    async def scene() -> tuple[bool, int, set[str]]:
        ears, told = EventRecorder(), 0
        with anyio.move_on_after(None) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(_cancel_when_it_speaks, ears, scope)
                try:
                    await inspan.run(run_env.task, on_event=ears.record)
                finally:
                    told = _count_cancellations()
        return scope.cancelled_caught, told, other_tasks()

    with assert_nothing_left():
        caught, told, tasks = host(scene)
    assert (caught, tasks) == (True, set())
    assert told <= _FEW
    _assert_interrupted(run_env)


@both
def test_a_deadline_that_passes_ends_the_run_and_is_told(run_env: RunEnv, use_fake_agent: Play, host: Host) -> None:
    use_fake_agent(_DEAF)

    async def scene() -> None:
        ears = EventRecorder()
        with pytest.raises(TimeoutError):
            with anyio.fail_after(None) as scope:
                async with asyncio.TaskGroup() as group:
                    call = group.create_task(ears.wait_for_text())
                    call.add_done_callback(lambda _: setattr(scope, "deadline", anyio.current_time()))
                    await inspan.run(run_env.task, on_event=ears.record)

    with assert_nothing_left():
        host(scene)
    _assert_interrupted(run_env)


@both
def test_a_task_group_whose_other_task_fails_ends_its_runs(run_env: RunEnv, use_fake_agent: Play, host: Host) -> None:
    use_fake_agent(_DEAF)

    async def scene() -> set[str]:
        ears = [EventRecorder(), EventRecorder()]

        async def fail() -> None:
            for each in ears:
                await each.wait_for_text()
            raise KeyError("on purpose")

        with pytest.raises(ExceptionGroup) as caught:
            async with anyio.create_task_group() as group:
                group.start_soon(fail)
                for each in ears:
                    group.start_soon(_run, run_env, each)
        assert [repr(error) for error in caught.value.exceptions] == ["KeyError('on purpose')"]
        return other_tasks()

    with assert_nothing_left():
        assert host(scene) == set()
    for folder in run_env.folders():
        _assert_interrupted(run_env, folder)
    assert len(run_env.folders()) == 2


@both
def test_a_cancellation_of_asyncio_inside_a_cancelled_scope_is_not_lost(
    run_env: RunEnv, use_fake_agent: Play, host: Host
) -> None:
    use_fake_agent("begin(); say('hello'); finish()")
    go = run_env.root / "go"

    async def scene() -> bool:
        def hear(event: Event) -> None:
            wait_until(go.exists, "go")

        async def call() -> None:
            with anyio.CancelScope() as scope:
                scopes.append(scope)
                await inspan.run(run_env.task, on_event=hear)
            went_on.append(True)

        scopes, went_on = list[anyio.CancelScope](), list[bool]()
        calling = asyncio.create_task(call())
        await wait_until_async(run_env.has_ended, "end of the log")
        scopes[0].cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        calling.cancel()
        await asyncio.sleep(0)
        assert not calling.done()
        assert calling.cancelling() <= _FEW + 1
        go.touch()
        with pytest.raises(asyncio.CancelledError):
            await calling
        return bool(went_on)

    with assert_nothing_left():
        assert not host(scene)


@both
def test_a_key_that_is_waited_for_in_a_cancelled_scope_leaves_no_trace(
    run_env: RunEnv, use_fake_agent: Play, host: Host
) -> None:
    use_fake_agent("begin(); finish()")
    asked, go = run_env.root / "asked", run_env.root / "go"
    command = f"touch {asked}; until test -e {go}; do sleep 0.02; done; echo key-for-the-agent"
    task = msgspec.structs.replace(run_env.task, key_from=f"cmd:{command}")

    async def scene() -> int:
        told = 0

        async def call() -> None:
            nonlocal told
            try:
                await inspan.run(task)
            finally:
                told = _count_cancellations()

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await wait_until_async(asked.exists, "question for the key")
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.05)
            go.touch()
        return told

    with assert_nothing_left():
        assert host(scene) <= _FEW
    assert run_env.list_leftovers() == []


@both
def test_a_start_in_a_cancelled_scope_leaves_nothing_that_goes_on(
    run_env: RunEnv, use_fake_agent: Play, host: Host
) -> None:
    use_fake_agent(_DEAF)

    async def scene() -> None:
        for moment_s in (0.001, 0.005, 0.02, 0.05):
            with anyio.move_on_after(moment_s):
                run = await inspan.start(run_env.task)
                with anyio.CancelScope(shield=True):
                    assert await run.stop(now=True)
                    await run.wait()

    with assert_nothing_left():
        host(scene)
    wait_until(lambda: not find_processes(str(run_env.root / "puppet")), "end of the agents")


async def _run(run_env: RunEnv, ears: EventRecorder) -> None:
    await inspan.run(run_env.task, on_event=ears.record)


async def _cancel_when_it_speaks(ears: EventRecorder, scope: anyio.CancelScope) -> None:
    await ears.wait_for_text()
    scope.cancel()


def _count_cancellations() -> int:
    task = asyncio.current_task()
    assert task
    return task.cancelling()


def _assert_interrupted(run_env: RunEnv, folder: Path | None = None) -> None:
    last = run_env.events(folder)[-1]
    assert isinstance(last, RunEnded)
    assert (last.outcome, last.reason) == ("cancelled", "interrupted")
    assert find_processes(str(run_env.root / "puppet")) == []
    assert list(run_env.state.glob("active/*")) == []
