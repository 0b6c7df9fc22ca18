"""A run inside somebody's own program: the same promises, and the program's own mistakes kept apart from ours."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

import inspan
from inspan import Event, Limits, Result, RunEnded, Usage
from inspan.protocol.events import EndingBegan, ErrorReported, RunStarted, TextSaid
from inspan.stores import index
from tests.api.stage import Stage, descriptors, set_stage
from tests.engine.puppet import Fake, marked, puppet
from tests.house import processes_of, until

_STAYS = "begin()\nsay('here')\nwhile True: time.sleep(86400)"


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return set_stage(tmp_path, monkeypatch)


@pytest.fixture(params=["bwrap", "unshare", "reaper"])
def contained(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSPAN_CONTAINMENT", request.param)


@pytest.fixture
def play(stage: Stage, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def chosen(acts: str) -> None:
        for name, value in puppet(fake, acts).items():
            monkeypatch.setenv(name, value)

    return chosen


@pytest.mark.usefixtures("contained")
def test_a_run_gives_its_last_event_and_leaves_nothing_behind(
    stage: Stage, play: Callable[[str], None], tmp_path: Path
) -> None:
    play("begin(); say('hello'); finish()")
    before, heard = descriptors(), list[Event]()
    result = asyncio.run(inspan.run(stage.task, on_event=heard.append))
    assert (result.outcome, result.reason, result.exit_code, result.message) == ("completed", "done", 0, "hello")
    assert stage.events() == heard
    _assert_told_by(result, heard[-1])
    assert descriptors() == before
    assert marked(str(tmp_path / "puppet")) == []
    assert [row.outcome for row in index.newest(str(stage.state))] == ["completed"]
    assert list(stage.state.glob("active/*")) == []


@pytest.mark.usefixtures("contained")
def test_cancelling_the_call_ends_the_run_and_then_the_call(
    stage: Stage, play: Callable[[str], None], tmp_path: Path
) -> None:
    play(_STAYS)
    before = descriptors()

    async def scene() -> None:
        said = asyncio.Event()
        running = asyncio.create_task(inspan.run(stage.task, on_event=_when_it_speaks(said)))
        await asyncio.wait_for(said.wait(), 60)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert marked(str(tmp_path / "puppet")) == []

    asyncio.run(scene())
    last = stage.events()[-1]
    assert isinstance(last, RunEnded)
    assert (last.outcome, last.reason) == ("cancelled", "interrupted")
    assert descriptors() == before


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
        running = asyncio.create_task(inspan.run(stage.task, on_event=_when_it_speaks(said)))
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
    play("begin(); say('hello')\nwhile not os.path.exists('go'): time.sleep(0.01)\nfinish()")
    heard: list[Event] = []
    problems: list[dict[str, object]] = []
    # It is the complaint in the log that lets the agent go on, where one can still be written.
    go = TextSaid if moment is RunEnded else ErrorReported

    def hear(event: Event) -> None:
        heard.append(event)
        if isinstance(event, go):
            (stage.work / "go").touch()
        if isinstance(event, moment):
            raise error

    async def scene() -> Result:
        asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
        return await inspan.run(stage.task, on_event=hear)

    result = asyncio.run(scene())
    events = stage.events()
    assert (result.outcome, result.reason) == ("completed", "done")
    _assert_told_by(result, events[-1])
    assert [type(event) for event in events].count(RunEnded) == 1
    assert heard == events, "it goes on being called"
    complaints = [event.message for event in events if isinstance(event, ErrorReported)]
    expected = [] if moment is RunEnded else [f"the event callback raised {error!r}; it goes on being called"]
    assert complaints == expected
    assert problems == [{"message": "inspan: the event callback raised", "exception": error}]


def test_runs_at_once_in_one_loop_do_not_mix(stage: Stage, play: Callable[[str], None]) -> None:
    play("begin()\nfor number in range(50): say(f'{prompt} {number}')\nfinish()")

    async def scene() -> list[Result]:
        tasks = [msgspec.structs.replace(stage.task, prompt=f"run {number}") for number in range(4)]
        return await asyncio.gather(*(inspan.run(task) for task in tasks))

    results = asyncio.run(scene())
    assert [each.outcome for each in results] == ["completed"] * 4
    said = [[event.text for event in stage.events(folder) if isinstance(event, TextSaid)] for folder in stage.folders()]
    assert sorted(said) == [[f"run {run} {number}" for number in range(50)] for run in range(4)]


def test_limits_hold_without_a_supervisor(stage: Stage, play: Callable[[str], None], tmp_path: Path) -> None:
    play(_STAYS)
    limits = Limits(timeout_s=1.0)
    result = asyncio.run(inspan.run(msgspec.structs.replace(stage.task, limits=limits)))
    assert (result.outcome, result.reason) == ("timed_out", "run_timeout")
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
    before = descriptors()
    with pytest.raises(inspan.InspanError):
        asyncio.run(inspan.run(stage.task))
    assert descriptors() == before
    assert stage.folders() == []


def test_a_wrapper_that_cannot_be_started_is_an_outcome(
    stage: Stage, play: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    play("begin(); finish()")
    monkeypatch.setenv("INSPAN_CONTAINMENT", "unshare")
    monkeypatch.setattr("inspan.sandboxes.containment.find", "/no/such/{}".format)
    before, heard = descriptors(), list[Event]()
    result = asyncio.run(inspan.run(stage.task, on_event=heard.append))
    assert (result.outcome, result.reason) == ("failed", "environment")
    assert "cannot be started: No such file or directory" in result.error
    _assert_told_by(result, stage.events()[-1])
    assert heard == stage.events()
    assert descriptors() == before


def _assert_told_by(result: Result, last: Event) -> None:
    """The result is what the last event of the log says."""
    assert isinstance(last, RunEnded)
    assert (result.outcome, result.reason, result.error, result.next_step, result.exit_code) == (
        last.outcome,
        last.reason,
        last.message,
        last.next,
        last.exit_code,
    )
    assert (result.duration_s, result.session_id, result.tokens, result.model_calls, list(result.files_changed)) == (
        last.duration_s,
        last.session_id,
        last.usage or Usage(),
        last.model_calls,
        last.files_changed,
    )


def _when_it_speaks(said: asyncio.Event) -> Callable[[Event], Awaitable[None]]:
    async def hear(event: Event) -> None:
        if isinstance(event, TextSaid):
            said.set()

    return hear
