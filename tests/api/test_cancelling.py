"""Cancelling a call at any moment: nothing that was begun stays, and a log that was begun has an end."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import inspan
from inspan import Event, Limits, RunEnded, Task
from inspan.protocol.events import EndingBegan
from inspan.protocol.limits import ShutdownTimeouts
from tests.cli_env import wait_until
from tests.running.fake_agent import find_processes

from .conftest import Play
from .run_env import RunEnv, descriptors, wait_until_async

_DEAF = """
for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)
begin()
say('here')
while True: time.sleep(86400)
"""

# What a cancelled call would have become: a run here, or a run with a supervisor.
_WAYS: dict[str, Callable[[Task], object]] = {"run": inspan.run, "start": inspan.start}


@pytest.mark.parametrize("way", _WAYS)
def test_a_call_that_is_cancelled_before_it_begins_leaves_no_trace(
    run_env: RunEnv, use_fake_agent: Play, way: str
) -> None:
    use_fake_agent("begin(); finish()")
    before = descriptors()

    async def scene() -> None:
        call = asyncio.create_task(_call(way, run_env.task))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(scene())
    assert not run_env.state.exists()
    assert not descriptors() - before


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("times", [1, 3])
def test_a_call_that_is_cancelled_while_it_waits_for_a_key_leaves_no_trace(
    run_env: RunEnv, use_fake_agent: Play, way: str, times: int
) -> None:
    use_fake_agent("begin(); finish()")
    asked, go = run_env.root / "asked", run_env.root / "go"
    command = f"touch {asked}; until test -e {go}; do sleep 0.02; done; echo key-for-the-agent"
    task = msgspec.structs.replace(run_env.task, key_from=f"cmd:{command}")
    before = descriptors()

    async def scene() -> None:
        call = asyncio.create_task(_call(way, task))
        await wait_until_async(asked.exists, "question for the key")
        for _ in range(times):
            call.cancel()
            await asyncio.sleep(0.01)
        assert not call.done(), "who prepares is waited for"
        go.touch()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(asyncio.wait_for(scene(), 60))
    assert run_env.list_leftovers() == []
    assert not descriptors() - before
    assert find_processes(str(run_env.root)) == []


def test_a_call_that_is_cancelled_while_a_bad_key_comes_is_cancelled_all_the_same(
    run_env: RunEnv, use_fake_agent: Play
) -> None:
    use_fake_agent("begin(); finish()")
    asked, go = run_env.root / "asked", run_env.root / "go"
    command = f"touch {asked}; until test -e {go}; do sleep 0.02; done; exit 1"
    task = msgspec.structs.replace(run_env.task, key_from=f"cmd:{command}")

    async def scene() -> None:
        call = asyncio.create_task(inspan.run(task))
        await wait_until_async(asked.exists, "question for the key")
        call.cancel()
        go.touch()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(scene())
    assert run_env.list_leftovers() == []


def test_a_call_that_is_cancelled_while_the_run_ends_only_makes_it_quicker(
    run_env: RunEnv, use_fake_agent: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_agent(_DEAF)
    patient = ShutdownTimeouts(interrupt_s=100.0, terminate_s=100.0)
    monkeypatch.setattr("inspan.running.execution.ShutdownTimeouts", lambda: patient)
    task = msgspec.structs.replace(run_env.task, limits=Limits(timeout_s=0.5))
    before, heard = descriptors(), list[Event]()

    async def scene() -> None:
        ending = asyncio.Event()

        async def hear(event: Event) -> None:
            heard.append(event)
            if isinstance(event, EndingBegan):
                ending.set()

        call = asyncio.create_task(inspan.run(task, on_event=hear))
        await asyncio.wait_for(ending.wait(), 60)
        for _ in range(5):
            call.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(scene())
    wait_until(lambda: not find_processes(str(run_env.root / "puppet")), "empty house")
    (ended,) = (event for event in run_env.events() if isinstance(event, RunEnded))
    assert (ended.outcome, ended.reason) == ("timed_out", "run_timeout")
    assert ended.duration_s < patient.interrupt_s, "a deaf agent would have been asked for longer"
    assert heard == run_env.events()
    assert not descriptors() - before
    assert list(run_env.state.glob("active/*")) == []


@pytest.mark.parametrize("turns", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", ["function", "coroutine function"])
def test_a_loop_that_shuts_down_while_a_run_ends_lets_it_end(
    run_env: RunEnv, use_fake_agent: Play, turns: int, kind: str
) -> None:
    use_fake_agent(_DEAF)
    heard: list[Event] = []

    async def scene() -> None:
        said = asyncio.Event()
        loop = asyncio.get_running_loop()

        def hear(event: Event) -> None:
            heard.append(event)
            if type(event).__name__ == "TextSaid":
                loop.call_soon_threadsafe(said.set)

        async def hear_in_the_loop(event: Event) -> None:
            hear(event)

        chosen = hear if kind == "function" else hear_in_the_loop
        call = asyncio.create_task(inspan.run(run_env.task, on_event=chosen))
        await asyncio.wait_for(said.wait(), 60)
        call.cancel()
        for _ in range(turns):
            await asyncio.sleep(0)
        # The program has ended without waiting for its run: the loop cancels every task that is left.

    asyncio.run(scene())
    (ended,) = (event for event in run_env.events() if isinstance(event, RunEnded))
    assert (ended.outcome, ended.reason) == ("cancelled", "interrupted")
    assert heard == run_env.events()
    assert find_processes(str(run_env.root / "puppet")) == []
    assert list(run_env.state.glob("active/*")) == []


def test_a_call_that_is_cancelled_while_its_function_still_listens_is_cancelled_afterwards(
    run_env: RunEnv, use_fake_agent: Play
) -> None:
    use_fake_agent("begin(); say('hello'); finish()")
    heard: list[Event] = []
    go = run_env.root / "go"

    def hear(event: Event) -> None:
        wait_until(go.exists, "go")
        heard.append(event)

    async def scene() -> None:
        call = asyncio.create_task(inspan.run(run_env.task, on_event=hear))
        await wait_until_async(run_env.has_ended, "end")
        call.cancel()
        await asyncio.sleep(0.05)
        assert not call.done()
        go.touch()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(scene())
    assert heard == run_env.events()
    assert isinstance(heard[-1], RunEnded)
    assert (heard[-1].outcome, heard[-1].reason) == ("completed", "done"), "it had ended before"


@pytest.mark.parametrize("step", ["inspan.planning.prepare.begin_log", "inspan.api.in_process.resume_log"])
def test_a_log_that_cannot_be_begun_leaves_no_trace(
    run_env: RunEnv, use_fake_agent: Play, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    use_fake_agent("begin(); finish()")

    def refuse(path: str, *record: bytes) -> None:
        raise inspan.InspanError(f"{path} cannot be written.")

    monkeypatch.setattr(step, refuse)
    before = descriptors()
    with pytest.raises(inspan.InspanError, match="cannot be written"):
        asyncio.run(
            inspan.run(msgspec.structs.replace(run_env.task, model_from=run_env.scenario("[[call]]\nsay = 'x'\n")))
        )
    assert run_env.list_leftovers() == []
    assert not descriptors() - before


@pytest.mark.parametrize("way", ["bwrap", "unshare", "reaper"])
def test_a_working_folder_that_vanishes_during_the_run_is_no_fault_of_the_harness(
    run_env: RunEnv, use_fake_agent: Play, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSPAN_CONTAINMENT", way)
    use_fake_agent(
        "begin(); say('here')\nwhile os.path.exists(os.environ['INSPAN_WORKTREE_PATH']): time.sleep(0.01)\nfinish()"
    )

    async def scene() -> inspan.AgentResult:
        async def hear(event: Event) -> None:
            if type(event).__name__ == "TextSaid":
                Path(run_env.work).rmdir()

        return await inspan.run(run_env.task, on_event=hear)

    result = asyncio.run(scene())
    assert (result.outcome, result.reason, result.error) == ("completed", "done", "")
    assert not run_env.work.exists()
    assert list(run_env.state.glob("active/*")) == []


async def _call(way: str, task: Task) -> None:
    await _WAYS[way](task)  # pyright: ignore[reportGeneralTypeIssues]  either gives something to wait for
