"""A run inside somebody's own program: the same promises, and the program's own mistakes kept apart from ours."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import inspan
from inspan import Event, Limits, RunEnded, Task
from inspan.protocol.events import EndingBegan, ErrorReported, RunStarted, TextSaid
from inspan.stores import index
from inspan.stores.log import read_log
from tests.engine.puppet import Fake, marked, puppet
from tests.house import processes_of, until

_STAYS = "begin()\nsay('here')\nwhile True: time.sleep(86400)"


class Stage:
    """Where in-process runs happen: their state folder and the task that is changed for each."""

    def __init__(self, root: Path) -> None:
        self.state = root / "state" / "inspan"
        self.task = Task(prompt="do it", cwd=str(root / "work"), agent="codex")

    def folders(self) -> list[Path]:
        return sorted(self.state.glob("projects/*/*/runs/*"))

    def events(self) -> list[Event]:
        (folder,) = self.folders()
        return [record.event for record in read_log(str(folder / "events.jsonl"))]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    (tmp_path / "work").mkdir()
    for name in ("STATE", "CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return Stage(tmp_path)


@pytest.fixture(params=["bwrap", "unshare", "reaper"])
def contained(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSPAN_CONTAINMENT", request.param)


@pytest.fixture
def play(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def chosen(acts: str) -> None:
        for name, value in puppet(fake, acts).items():
            monkeypatch.setenv(name, value)

    return chosen


def _descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


@pytest.mark.usefixtures("contained")
def test_a_run_gives_its_last_event_and_leaves_nothing_behind(
    stage: Stage, play: Callable[[str], None], tmp_path: Path
) -> None:
    play("begin(); say('hello'); finish()")
    before, heard = _descriptors(), list[Event]()
    ended = asyncio.run(inspan.run(stage.task, on_event=heard.append))
    assert (ended.outcome, ended.reason, ended.exit_code) == ("completed", "done", 0)
    assert stage.events() == heard
    assert heard[-1] == ended
    assert _descriptors() == before
    assert marked(str(tmp_path / "puppet")) == []
    assert [row.outcome for row in index.newest(str(stage.state))] == ["completed"]
    assert list(stage.state.glob("active/*")) == []


@pytest.mark.usefixtures("contained")
def test_cancelling_the_call_ends_the_run_and_then_the_call(
    stage: Stage, play: Callable[[str], None], tmp_path: Path
) -> None:
    play(_STAYS)
    before = _descriptors()

    async def scene() -> None:
        said = asyncio.Event()
        running = asyncio.create_task(
            inspan.run(stage.task, on_event=lambda event: said.set() if isinstance(event, TextSaid) else None)
        )
        await asyncio.wait_for(said.wait(), 60)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert marked(str(tmp_path / "puppet")) == []

    asyncio.run(scene())
    last = stage.events()[-1]
    assert isinstance(last, RunEnded)
    assert (last.outcome, last.reason) == ("cancelled", "interrupted")
    assert _descriptors() == before


def test_a_timeout_of_the_calling_program_ends_the_run(stage: Stage, play: Callable[[str], None]) -> None:
    play(_STAYS)

    async def scene() -> None:
        async with asyncio.timeout(1):
            await inspan.run(stage.task)

    with pytest.raises(TimeoutError):
        asyncio.run(scene())
    assert isinstance(stage.events()[-1], RunEnded)


def test_a_program_that_cancels_twice_leaves_no_agent_and_an_ended_log(
    stage: Stage, play: Callable[[str], None], tmp_path: Path
) -> None:
    play(_STAYS)

    async def scene() -> None:
        said = asyncio.Event()
        running = asyncio.create_task(
            inspan.run(stage.task, on_event=lambda event: said.set() if isinstance(event, TextSaid) else None)
        )
        await asyncio.wait_for(said.wait(), 60)
        running.cancel()
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(scene())
    until(lambda: not marked(str(tmp_path / "puppet")), "empty house")
    assert isinstance(stage.events()[-1], RunEnded)


@pytest.mark.parametrize("error", [ValueError("mine"), BrokenPipeError(32, "mine"), KeyError()])
@pytest.mark.parametrize("moment", [RunStarted, TextSaid, RunEnded])
def test_a_callback_that_raises_costs_no_run(
    stage: Stage, play: Callable[[str], None], error: Exception, moment: type[Event]
) -> None:
    play("begin(); say('hello'); finish()")
    heard: list[Event] = []

    def hear(event: Event) -> None:
        heard.append(event)
        if isinstance(event, moment):
            raise error

    ended = asyncio.run(inspan.run(stage.task, on_event=hear))
    events = stage.events()
    assert (ended.outcome, ended.reason) == ("completed", "done")
    assert events[-1] == ended
    assert [event for event in events if isinstance(event, RunEnded)] == [ended]
    assert isinstance(heard[-1], moment), "it is not called again"
    complaints = [event.message for event in events if isinstance(event, ErrorReported)]
    expected = [] if moment is RunEnded else [f"the event callback raised {error!r} and is not called again"]
    assert complaints == expected


def test_runs_at_once_in_one_loop_do_not_mix(stage: Stage, play: Callable[[str], None]) -> None:
    play("begin()\nfor number in range(50): say(f'{prompt} {number}')\nfinish()")

    async def scene() -> list[RunEnded]:
        tasks = [msgspec.structs.replace(stage.task, prompt=f"run {number}") for number in range(4)]
        return await asyncio.gather(*(inspan.run(task) for task in tasks))

    ended = asyncio.run(scene())
    assert [each.outcome for each in ended] == ["completed"] * 4
    said = [
        [record.event.text for record in read_log(str(folder / "events.jsonl")) if isinstance(record.event, TextSaid)]
        for folder in stage.folders()
    ]
    assert sorted(said) == [[f"run {run} {number}" for number in range(50)] for run in range(4)]


def test_limits_hold_without_a_supervisor(stage: Stage, play: Callable[[str], None], tmp_path: Path) -> None:
    play(_STAYS)
    limits = Limits(timeout_s=1.0)
    ended = asyncio.run(inspan.run(msgspec.structs.replace(stage.task, limits=limits)))
    assert (ended.outcome, ended.reason) == ("timed_out", "run_timeout")
    assert [event.reason for event in stage.events() if isinstance(event, EndingBegan)] == ["run_timeout"]
    assert marked(str(tmp_path / "puppet")) == []


@pytest.mark.parametrize("way", ["bwrap", "unshare", "reaper"])
def test_the_agent_dies_with_the_program_that_runs_it(
    stage: Stage, play: Callable[[str], None], tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSPAN_CONTAINMENT", way)
    play(_STAYS)
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(inspan.run(stage.task))
        finally:
            os._exit(1)
    until(lambda: stage.folders() and (stage.folders()[0] / "events.jsonl").exists(), "log")
    until(lambda: any(isinstance(event, TextSaid) for event in stage.events()), "first words")
    assert marked(str(tmp_path / "puppet"))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    (folder,) = stage.folders()
    until(lambda: not processes_of(folder.name) and not marked(str(tmp_path / "puppet")), "empty house")


def test_what_cannot_be_started_raises_and_leaves_no_descriptor(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSPAN_CODEX_BIN", "/no/such/program")
    before = _descriptors()
    with pytest.raises(inspan.InspanError):
        asyncio.run(inspan.run(stage.task))
    assert _descriptors() == before
    assert stage.folders() == []


def test_a_wrapper_that_cannot_be_started_is_an_outcome(
    stage: Stage, play: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    play("begin(); finish()")
    monkeypatch.setenv("INSPAN_CONTAINMENT", "unshare")
    monkeypatch.setattr("inspan.sandboxes.containment.find", "/no/such/{}".format)
    before = _descriptors()
    ended = asyncio.run(inspan.run(stage.task))
    assert (ended.outcome, ended.reason) == ("failed", "environment")
    assert "cannot be started: No such file or directory" in ended.message
    assert stage.events()[-1] == ended
    assert _descriptors() == before
