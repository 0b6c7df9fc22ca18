"""A run inside somebody's own program: the same promises, and the program's own mistakes kept apart from ours."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

import inspan
from inspan import AgentResult, Event, Limits, RunEnded, Usage
from inspan.protocol.events import EndingBegan, ErrorReported, RunStarted, TextSaid
from inspan.stores import index
from tests.api.run_env import RunEnv, descriptors, make_run_env
from tests.cli_env import processes_of, wait_until
from tests.running.fake_agent import Fake, fake_agent_env, find_processes

_STAYS = "begin()\nsay('here')\nwhile True: time.sleep(86400)"


@pytest.fixture
def run_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunEnv:
    return make_run_env(tmp_path, monkeypatch)


@pytest.fixture(params=["bwrap", "unshare", "reaper"])
def each_containment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSPAN_CONTAINMENT", request.param)


@pytest.fixture
def use_fake_agent(run_env: RunEnv, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def chosen(acts: str) -> None:
        for name, value in fake_agent_env(fake, acts).items():
            monkeypatch.setenv(name, value)

    return chosen


@pytest.mark.usefixtures("each_containment")
def test_a_run_gives_its_last_event_and_leaves_nothing_behind(
    run_env: RunEnv, use_fake_agent: Callable[[str], None], tmp_path: Path
) -> None:
    use_fake_agent("begin(); say('hello'); finish()")
    before, heard = descriptors(), list[Event]()
    result = asyncio.run(inspan.run(run_env.task, on_event=heard.append))
    assert (result.outcome, result.reason, result.exit_code, result.message) == ("completed", "done", 0, "hello")
    assert run_env.events() == heard
    _assert_told_by(result, heard[-1])
    assert not descriptors() - before
    assert find_processes(str(tmp_path / "puppet")) == []
    assert [row.outcome for row in index.list_newest(str(run_env.state))] == ["completed"]
    assert list(run_env.state.glob("active/*")) == []


@pytest.mark.usefixtures("each_containment")
def test_cancelling_the_call_ends_the_run_and_then_the_call(
    run_env: RunEnv, use_fake_agent: Callable[[str], None], tmp_path: Path
) -> None:
    use_fake_agent(_STAYS)
    before = descriptors()

    async def scene() -> None:
        said = asyncio.Event()
        running = asyncio.create_task(inspan.run(run_env.task, on_event=_set_on_text(said)))
        await asyncio.wait_for(said.wait(), 60)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert find_processes(str(tmp_path / "puppet")) == []

    asyncio.run(scene())
    last = run_env.events()[-1]
    assert isinstance(last, RunEnded)
    assert (last.outcome, last.reason) == ("cancelled", "interrupted")
    assert not descriptors() - before


def test_a_timeout_of_the_calling_program_ends_the_run(run_env: RunEnv, use_fake_agent: Callable[[str], None]) -> None:
    use_fake_agent(_STAYS)

    async def scene() -> None:
        async with asyncio.timeout(None) as limit:

            async def hear(event: Event) -> None:
                if isinstance(event, TextSaid):
                    limit.reschedule(0)

            await inspan.run(run_env.task, on_event=hear)

    with pytest.raises(TimeoutError):
        asyncio.run(scene())
    assert isinstance(run_env.events()[-1], RunEnded)


def test_a_program_that_cancels_twice_leaves_no_agent_and_an_ended_log(
    run_env: RunEnv, use_fake_agent: Callable[[str], None], tmp_path: Path
) -> None:
    use_fake_agent(_STAYS)

    async def scene() -> None:
        said = asyncio.Event()
        running = asyncio.create_task(inspan.run(run_env.task, on_event=_set_on_text(said)))
        await asyncio.wait_for(said.wait(), 60)
        running.cancel()
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(scene())
    wait_until(lambda: not find_processes(str(tmp_path / "puppet")), "empty house")
    assert isinstance(run_env.events()[-1], RunEnded)


@pytest.mark.parametrize("error", [ValueError("mine"), BrokenPipeError(32, "mine"), KeyError()])
@pytest.mark.parametrize("moment", [RunStarted, TextSaid, RunEnded])
def test_a_callback_that_raises_costs_no_run(
    run_env: RunEnv, use_fake_agent: Callable[[str], None], error: Exception, moment: type[Event]
) -> None:
    use_fake_agent("begin(); say('hello')\nwhile not os.path.exists('go'): time.sleep(0.01)\nfinish()")
    heard: list[Event] = []
    problems: list[dict[str, object]] = []
    # It is the complaint in the log that lets the agent go on, where one can still be written.
    go = TextSaid if moment is RunEnded else ErrorReported

    def hear(event: Event) -> None:
        heard.append(event)
        if isinstance(event, go):
            (run_env.work / "go").touch()
        if isinstance(event, moment):
            raise error

    async def scene() -> AgentResult:
        asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
        return await inspan.run(run_env.task, on_event=hear)

    result = asyncio.run(scene())
    events = run_env.events()
    assert (result.outcome, result.reason) == ("completed", "done")
    _assert_told_by(result, events[-1])
    assert [type(event) for event in events].count(RunEnded) == 1
    assert heard == events, "it is still called"
    complaints = [event.message for event in events if isinstance(event, ErrorReported)]
    expected = [] if moment is RunEnded else [f"the event callback raised {error!r}; it is still called"]
    assert complaints == expected
    assert problems == [{"message": "inspan: the event callback raised", "exception": error}]


def test_runs_at_once_in_one_loop_do_not_mix(run_env: RunEnv, use_fake_agent: Callable[[str], None]) -> None:
    use_fake_agent("begin()\nfor number in range(50): say(f'{prompt} {number}')\nfinish()")

    async def scene() -> list[AgentResult]:
        tasks = [msgspec.structs.replace(run_env.task, prompt=f"run {number}") for number in range(4)]
        return await asyncio.gather(*(inspan.run(task) for task in tasks))

    results = asyncio.run(scene())
    assert [each.outcome for each in results] == ["completed"] * 4
    said = [
        [event.text for event in run_env.events(folder) if isinstance(event, TextSaid)] for folder in run_env.folders()
    ]
    assert sorted(said) == [[f"run {run} {number}" for number in range(50)] for run in range(4)]


def test_limits_hold_without_a_supervisor(
    run_env: RunEnv, use_fake_agent: Callable[[str], None], tmp_path: Path
) -> None:
    use_fake_agent(_STAYS)
    limits = Limits(timeout_s=1.0)
    result = asyncio.run(inspan.run(msgspec.structs.replace(run_env.task, limits=limits)))
    assert (result.outcome, result.reason) == ("timed_out", "run_timeout")
    assert [event.reason for event in run_env.events() if isinstance(event, EndingBegan)] == ["run_timeout"]
    assert find_processes(str(tmp_path / "puppet")) == []


@pytest.mark.parametrize("way", ["bwrap", "unshare", "reaper"])
def test_the_agent_dies_with_the_program_that_runs_it(
    run_env: RunEnv, use_fake_agent: Callable[[str], None], tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSPAN_CONTAINMENT", way)
    use_fake_agent(_STAYS)
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(inspan.run(run_env.task))
        finally:
            os._exit(1)
    wait_until(lambda: run_env.folders() and (run_env.folders()[0] / "events.jsonl").exists(), "log")
    wait_until(lambda: any(isinstance(event, TextSaid) for event in run_env.events()), "first words")
    assert find_processes(str(tmp_path / "puppet"))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    (folder,) = run_env.folders()
    wait_until(lambda: not processes_of(folder.name) and not find_processes(str(tmp_path / "puppet")), "empty house")


def test_what_cannot_be_started_raises_and_leaves_no_descriptor(
    run_env: RunEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSPAN_CODEX_BIN", "/no/such/program")
    before = descriptors()
    with pytest.raises(inspan.InspanError):
        asyncio.run(inspan.run(run_env.task))
    assert not descriptors() - before
    assert run_env.folders() == []


def test_a_wrapper_that_cannot_be_started_is_an_outcome(
    run_env: RunEnv, use_fake_agent: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_agent("begin(); finish()")
    monkeypatch.setenv("INSPAN_CONTAINMENT", "unshare")
    monkeypatch.setattr("inspan.containment.containment.find_helper", "/no/such/{}".format)
    before, heard = descriptors(), list[Event]()
    result = asyncio.run(inspan.run(run_env.task, on_event=heard.append))
    assert (result.outcome, result.reason) == ("failed", "environment")
    assert "cannot be started: No such file or directory" in result.error
    _assert_told_by(result, run_env.events()[-1])
    assert heard == run_env.events()
    assert not descriptors() - before


def _assert_told_by(result: AgentResult, last: Event) -> None:
    """The result is what the last event of the log says."""
    assert isinstance(last, RunEnded)
    assert (result.outcome, result.reason, result.error, result.next_step, result.exit_code) == (
        last.outcome,
        last.reason,
        last.message,
        last.next,
        last.exit_code,
    )
    assert (
        result.duration_s,
        result.session_id,
        result.tokens_used,
        result.model_calls,
        list(result.files_changed),
    ) == (
        last.duration_s,
        last.session_id,
        last.usage or Usage(),
        last.model_calls,
        last.files_changed,
    )


def _set_on_text(said: asyncio.Event) -> Callable[[Event], Awaitable[None]]:
    async def hear(event: Event) -> None:
        if isinstance(event, TextSaid):
            said.set()

    return hear
