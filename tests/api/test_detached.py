"""Runs with a supervisor of their own: started and left, found, followed, stopped, and told as runs in-process are."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

import inspan
from inspan import AgentResult, Event, Run, RunEnded
from inspan.errors import AgentFailed, BadInput, RunCancelled, RunNotFound
from inspan.protocol.events import TextSaid
from inspan.protocol.ids import make_short_name
from tests.cli_env import kill_process, list_pids, open_files, processes_of, wait_until

from .conftest import Play
from .run_env import RunEnv, descriptors, wait_until_async

_WAITS = "begin(); say('here')\nwhile not os.path.exists('go'): time.sleep(0.01)\nsay('gone on'); finish()"
_STARTER = """
import asyncio, sys
import inspan
run = asyncio.run(inspan.start(inspan.Task(prompt="do it", cwd=sys.argv[1], agent="codex")))
print(run.run_id)
"""


def test_a_run_goes_on_when_the_program_that_started_it_has_ended(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent(_WAITS)
    done = subprocess.run(
        [sys.executable, "-c", _STARTER, str(run_env.work)], capture_output=True, text=True, check=True
    )
    run_id = done.stdout.strip()
    run = inspan.find_run(run_id)
    assert (run.run_id, repr(run)) == (run_id, f"Run({run_id!r})")
    wait_until(lambda: processes_of(run_id), "agent")
    (run_env.work / "go").touch()
    result = asyncio.run(run.wait())
    assert (result.run_id, result.ok, result.message) == (run_id, True, "gone on")


def test_a_run_has_the_name_that_a_program_gives_it(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent("begin(); finish()")
    runner = inspan.create_agent_runner("codex", cwd=run_env.work)

    async def scene() -> list[str]:
        first = await (await inspan.start(msgspec.structs.replace(run_env.task, name="first"))).wait()
        return [first.run_id, (await runner.exec("do it", name="second")).run_id]

    ids = asyncio.run(scene())
    for names in (("first", "second"), ("@2", "@1"), tuple(map(make_short_name, ids))):
        assert [inspan.find_run(name, cwd=run_env.work).run_id for name in names] == ids
    with pytest.raises(BadInput) as caught:
        asyncio.run(runner.exec("do it", name="first"))
    assert caught.value.message == f"name 'first': run {ids[0]} of this project has it."
    with pytest.raises(BadInput) as caught:
        asyncio.run(runner.exec("do it", name="a b"))
    assert caught.value.message == "name 'a b': it contains the character ' '."
    assert [folder.name for folder in run_env.folders()] == ids


def test_a_program_that_stays_collects_no_dead_supervisors(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent("begin(); finish()")

    async def scene() -> None:
        for _ in range(3):
            await (await inspan.start(run_env.task)).wait()

    before = _children()
    asyncio.run(scene())
    wait_until(lambda: _children() <= before, "end of the last supervisor")


def test_a_follower_gets_each_event_when_it_happens_and_then_the_end(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent(_WAITS)

    async def scene() -> list[Event]:
        run, followed = await inspan.start(run_env.task), list[Event]()
        async for event in inspan.follow(run):
            followed.append(event)
            if isinstance(event, TextSaid):
                (run_env.work / "go").touch()
        return followed

    before = descriptors()
    assert asyncio.run(scene()) == run_env.events()
    assert not descriptors() - before


def test_a_run_is_followed_from_a_number_on_by_any_of_its_names(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent("begin(); say('hello'); finish()")

    async def scene() -> Run:
        run = await inspan.start(run_env.task)
        await run.wait()
        return run

    run = asyncio.run(scene())
    events = run_env.events()
    for name in (run, run.run_id, run.run_id[:-2], "@last"):
        for number in (1, 3, len(events), len(events) + 1):
            followed = asyncio.run(_all(inspan.follow(name, from_number=number, cwd=run_env.work)))
            assert followed == events[number - 1 :], (name, number)


def test_a_follower_that_leaves_early_leaves_no_descriptor(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent(_WAITS)
    before = descriptors()

    async def scene() -> Run:
        run = await inspan.start(run_env.task)
        async for event in inspan.follow(run):
            if isinstance(event, TextSaid):
                break
        waiting = asyncio.create_task(run.wait())
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert processes_of(run.run_id), "who stops waiting does not stop the run"
        return run

    run = asyncio.run(scene())
    assert not descriptors() - before
    (run_env.work / "go").touch()
    assert asyncio.run(run.wait()).ok


def test_a_run_that_loses_its_supervisor_is_told_as_lost_and_never_as_a_success(
    run_env: RunEnv, use_fake_agent: Play
) -> None:
    use_fake_agent(_WAITS)

    async def scene() -> tuple[list[Event], AgentResult]:
        run, followed = await inspan.start(run_env.task), list[Event]()
        async for event in inspan.follow(run):
            followed.append(event)
            if isinstance(event, TextSaid):
                kill_process(_supervisor(run_env))
        return followed, await run.wait()

    followed, result = asyncio.run(asyncio.wait_for(scene(), 60))
    assert followed == run_env.events()
    assert isinstance(followed[-1], RunEnded)
    assert (result.outcome, result.reason, result.ok, result.status) == ("lost", "supervisor_lost", False, "failed")
    with pytest.raises(AgentFailed) as caught:
        result.check()
    assert (caught.value.reason, caught.value.run_id) == ("supervisor_lost", result.run_id)
    # What was killed is gone as soon as it gets its turn.
    wait_until(lambda: not processes_of(result.run_id), "empty house")


@pytest.mark.parametrize(("now", "reason"), [(False, "stopped"), (True, "killed")])
def test_a_run_can_be_stopped(run_env: RunEnv, use_fake_agent: Play, now: bool, reason: str) -> None:
    use_fake_agent(_WAITS)

    async def scene() -> tuple[AgentResult, bool]:
        run = await inspan.start(run_env.task)
        await wait_until_async(lambda: any(isinstance(event, TextSaid) for event in run_env.events()), "first words")
        assert await run.stop(now=now)
        return await run.wait(), await run.stop()

    result, again = asyncio.run(scene())
    assert (result.outcome, result.reason, again) == ("cancelled", reason, False)
    with pytest.raises(RunCancelled):
        result.check()


def test_a_run_that_nobody_knows_is_not_found(run_env: RunEnv) -> None:
    for look in (inspan.find_run, inspan.follow):
        with pytest.raises(RunNotFound) as caught:
            look("20990101-000000000-1")
        assert caught.value.next_step


@pytest.mark.parametrize(
    "acts",
    [
        pytest.param("begin(); say('hello'); finish()", id="done"),
        pytest.param("begin(); say('hello'); sys.exit(3)", id="crashed"),
        pytest.param("put(type='turn.failed', error={'message': 'status: 429 Too Many'}); sys.exit(1)", id="limited"),
    ],
)
def test_a_detached_run_comes_to_the_same_result_as_one_in_process(
    run_env: RunEnv, use_fake_agent: Play, acts: str
) -> None:
    use_fake_agent(acts)

    async def scene() -> tuple[AgentResult, AgentResult]:
        return await inspan.run(run_env.task), await (await inspan.start(run_env.task)).wait()

    here, detached = asyncio.run(scene())
    assert _strip_names(detached) == _strip_names(here)


def test_an_answer_that_was_redacted_is_no_answer_any_more_but_no_fault_either(
    run_env: RunEnv, use_fake_agent: Play
) -> None:
    secret = "sesame-open-0123456789"
    use_fake_agent(f"begin(); say(json.dumps('{secret}')); finish()")
    task = msgspec.structs.replace(
        run_env.task, mode="complete", env={"DOOR_TOKEN": secret}, output_schema={"type": "string", "maxLength": 22}
    )

    async def scene() -> tuple[AgentResult, AgentResult]:
        return await inspan.run(task), await (await inspan.start(task)).wait()

    here, detached = asyncio.run(scene())
    assert (here.ok, here.answer) == (True, secret)
    assert (detached.ok, detached.message, detached.answer) == (
        True,
        '"[REDACTED:DOOR_TOKEN]"',
        "[REDACTED:DOOR_TOKEN]",
    )
    short = msgspec.structs.replace(task, output_schema={"type": "string", "pattern": "^sesame-"})
    result = asyncio.run(_run_detached(short))
    assert (result.ok, result.answer) == (True, None)


async def _run_detached(task: inspan.Task) -> AgentResult:
    return await (await inspan.start(task)).wait()


async def _all(events: AsyncIterator[Event]) -> list[Event]:
    return [event async for event in events]


def _strip_names(result: AgentResult) -> AgentResult:
    return msgspec.structs.replace(
        result,
        run_id="",
        folder="",
        attempts=(),
        duration_s=0.0,
        next_step=result.next_step.replace(make_short_name(result.run_id), "RUN"),
    )


def _children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def _supervisor(run_env: RunEnv) -> int:
    (folder,) = run_env.folders()
    lock = str(folder / "lock")
    return wait_until(
        lambda: [pid for pid in list_pids() if pid != os.getpid() and lock in open_files(pid)], "supervisor"
    )[0]
