"""Cancelling a call at any moment: nothing that was begun stays, and a log that was begun has an end."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import inspan
from inspan import Event, Limits, RunEnded, Task
from inspan.protocol.events import EndingBegan
from tests.engine.puppet import marked
from tests.house import until

from .conftest import Play
from .stage import Stage, descriptors, until_apart

_DEAF = """
for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)
begin()
say('here')
while True: time.sleep(86400)
"""

# What a cancelled call would have become: a run here, or a run with a supervisor.
_WAYS: dict[str, Callable[[Task], object]] = {"run": inspan.run, "start": inspan.start}


@pytest.mark.parametrize("way", _WAYS)
def test_a_call_that_is_cancelled_before_it_begins_leaves_no_trace(stage: Stage, play: Play, way: str) -> None:
    play("begin(); finish()")
    before = descriptors()

    async def scene() -> None:
        call = asyncio.create_task(_called(way, stage.task))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(scene())
    assert not stage.state.exists()
    assert descriptors() == before


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("times", [1, 3])
def test_a_call_that_is_cancelled_while_it_waits_for_a_key_leaves_no_trace(
    stage: Stage, play: Play, way: str, times: int
) -> None:
    play("begin(); finish()")
    asked, go = stage.root / "asked", stage.root / "go"
    command = f"touch {asked}; until test -e {go}; do sleep 0.02; done; echo key-for-the-agent"
    task = msgspec.structs.replace(stage.task, key_from=f"cmd:{command}")
    before = descriptors()

    async def scene() -> None:
        call = asyncio.create_task(_called(way, task))
        await until_apart(asked.exists, "question for the key")
        for _ in range(times):
            call.cancel()
            await asyncio.sleep(0.01)
        assert not call.done(), "who prepares is waited for"
        go.touch()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(asyncio.wait_for(scene(), 60))
    assert stage.left() == []
    assert descriptors() == before
    assert marked(str(stage.root)) == []


def test_a_call_that_is_cancelled_while_a_bad_key_comes_is_cancelled_all_the_same(stage: Stage, play: Play) -> None:
    play("begin(); finish()")
    asked = stage.root / "asked"
    task = msgspec.structs.replace(stage.task, key_from=f"cmd:touch {asked}; sleep 0.1; exit 1")

    async def scene() -> None:
        call = asyncio.create_task(inspan.run(task))
        await until_apart(asked.exists, "question for the key")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(scene())
    assert stage.left() == []


def test_a_call_that_is_cancelled_while_the_run_ends_only_makes_it_quicker(stage: Stage, play: Play) -> None:
    play(_DEAF)
    task = msgspec.structs.replace(stage.task, limits=Limits(timeout_s=0.5))
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
    until(lambda: not marked(str(stage.root / "puppet")), "empty house")
    (ended,) = (event for event in stage.events() if isinstance(event, RunEnded))
    assert (ended.outcome, ended.reason) == ("timed_out", "run_timeout")
    assert ended.duration_s < 3, "a deaf agent would have been asked for longer"
    assert heard == stage.events()
    assert descriptors() == before
    assert list(stage.state.glob("active/*")) == []


@pytest.mark.parametrize("turns", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", ["function", "coroutine function"])
def test_a_loop_that_shuts_down_while_a_run_ends_lets_it_end(stage: Stage, play: Play, turns: int, kind: str) -> None:
    play(_DEAF)
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
        call = asyncio.create_task(inspan.run(stage.task, on_event=chosen))
        await asyncio.wait_for(said.wait(), 60)
        call.cancel()
        for _ in range(turns):
            await asyncio.sleep(0)
        # The program has ended without waiting for its run: the loop cancels every task that is left.

    asyncio.run(scene())
    (ended,) = (event for event in stage.events() if isinstance(event, RunEnded))
    assert (ended.outcome, ended.reason) == ("cancelled", "interrupted")
    assert heard == stage.events()
    assert marked(str(stage.root / "puppet")) == []
    assert list(stage.state.glob("active/*")) == []


def test_a_call_that_is_cancelled_while_its_function_still_listens_is_cancelled_afterwards(
    stage: Stage, play: Play
) -> None:
    play("begin(); say('hello'); finish()")
    heard: list[Event] = []
    go = stage.root / "go"

    def hear(event: Event) -> None:
        until(go.exists, "go")
        heard.append(event)

    async def scene() -> None:
        call = asyncio.create_task(inspan.run(stage.task, on_event=hear))
        await until_apart(stage.ended, "end")
        call.cancel()
        await asyncio.sleep(0.05)
        assert not call.done()
        go.touch()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(scene())
    assert heard == stage.events()
    assert isinstance(heard[-1], RunEnded)
    assert (heard[-1].outcome, heard[-1].reason) == ("completed", "done"), "it had ended before"


def test_a_log_that_cannot_be_begun_leaves_no_trace(stage: Stage, play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    play("begin(); finish()")

    def refuse(path: str) -> None:
        raise inspan.InspanError(f"{path} cannot be written.")

    monkeypatch.setattr("inspan.engine.embed.RunLog", refuse)
    before = descriptors()
    with pytest.raises(inspan.InspanError, match="cannot be written"):
        asyncio.run(inspan.run(msgspec.structs.replace(stage.task, model_from=stage.scenario("[[call]]\nsay = 'x'\n"))))
    assert stage.left() == []
    assert descriptors() == before


@pytest.mark.parametrize("way", ["bwrap", "unshare", "reaper"])
def test_a_working_folder_that_vanishes_during_the_run_is_no_fault_of_the_harness(
    stage: Stage, play: Play, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSPAN_CONTAINMENT", way)
    play("begin(); say('here')\nwhile os.path.exists(os.environ['INSPAN_WORKTREE_PATH']): time.sleep(0.01)\nfinish()")

    async def scene() -> inspan.Result:
        async def hear(event: Event) -> None:
            if type(event).__name__ == "TextSaid":
                Path(stage.work).rmdir()

        return await inspan.run(stage.task, on_event=hear)

    result = asyncio.run(scene())
    assert (result.outcome, result.reason, result.error) == ("completed", "done", "")
    assert not stage.work.exists()
    assert list(stage.state.glob("active/*")) == []


async def _called(way: str, task: Task) -> None:
    await _WAYS[way](task)  # pyright: ignore[reportGeneralTypeIssues]  either gives something to wait for
