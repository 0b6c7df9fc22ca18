"""Many runs in one program: in one loop, in several loops, and from a program that has none."""

import asyncio
import gc
import threading
import warnings
from collections.abc import Callable

import msgspec
import pytest

import inspan
from inspan import AgentResult, Event, Task
from inspan.protocol.events import TextSaid
from tests.running.fake_agent import PRELUDE, Fake, find_processes

from .conftest import Play
from .run_env import RunEnv, descriptors, wait_until_async

_SPEAKS = "begin()\nfor number in range(30): say(f'{prompt} {number}')\nfinish()"


def test_twenty_runs_in_one_loop_do_not_mix(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent(_SPEAKS)
    before, heard = descriptors(), dict[str, list[Event]]()

    async def scene() -> list[AgentResult]:
        return await asyncio.gather(*(_one(run_env.task, f"run {number}", heard) for number in range(20)))

    results = asyncio.run(scene())
    assert [result.message for result in results] == [f"run {number} 29" for number in range(20)]
    assert len({result.run_id for result in results}) == 20
    _assert_each_heard_its_own(run_env, heard)
    assert not descriptors() - before
    assert find_processes(str(run_env.root / "puppet")) == []
    assert list(run_env.state.glob("active/*")) == []


def test_two_loops_in_two_threads_do_not_mix(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent(_SPEAKS)
    before, heard = descriptors(), dict[str, list[Event]]()
    results: dict[str, list[AgentResult]] = {}

    async def scene(name: str) -> list[AgentResult]:
        return await asyncio.gather(*(_one(run_env.task, f"{name} {number}", heard) for number in range(5)))

    def work(name: str) -> None:
        results[name] = asyncio.run(scene(name))

    threads = [threading.Thread(target=work, args=(name,)) for name in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    said = {name: [result.message for result in each] for name, each in results.items()}
    assert said == {name: [f"{name} {number} 29" for number in range(5)] for name in ("left", "right")}
    _assert_each_heard_its_own(run_env, heard)
    assert not descriptors() - before


def test_the_loop_goes_on_turning_while_programs_are_asked_for_their_version(
    run_env: RunEnv, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go = run_env.root / "asked", run_env.root / "go"
    slow = f"""
import os, sys, time
if sys.argv[1:] == ["--version"]:
    with open({str(asked)!r}, "a") as file: file.write("x")
    while not os.path.exists({str(go)!r}): time.sleep(0.01)
"""
    monkeypatch.setenv("INSPAN_CODEX_BIN", fake("puppet", slow + PRELUDE + "begin(); finish()"))
    monkeypatch.setattr("inspan.api.in_process._prepared_agents", set[str]())

    async def scene() -> list[AgentResult]:
        runs = [asyncio.create_task(inspan.run(run_env.task)) for _ in range(2)]
        await wait_until_async(lambda: asked.exists() and len(asked.read_text()) == 2, "questions")
        go.touch()
        return await asyncio.gather(*runs)

    assert [result.ok for result in asyncio.run(scene())] == [True, True]


def test_a_run_inside_a_loop_leaves_no_task_behind(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent(_SPEAKS)

    async def scene() -> set[str]:
        async def hear(event: Event) -> None:
            pass

        await inspan.run(run_env.task, on_event=hear)
        return {task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}}

    assert asyncio.run(scene()) == set()


def test_a_program_without_a_loop_has_one_door(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent("begin(); say(prompt); finish()")
    result = inspan.run_sync(inspan.run(run_env.task))
    assert (result.ok, result.message) == (True, "do it")
    run = inspan.run_sync(inspan.start(run_env.task))
    assert inspan.run_sync(run.wait()).message == "do it"
    session = inspan.create_agent_runner("codex", cwd=run_env.work).create_session()
    assert inspan.run_sync(session.send_message("and now?")).message == "and now?"


def test_the_door_for_programs_without_a_loop_is_shut_inside_one(run_env: RunEnv) -> None:
    async def scene() -> None:
        inspan.run_sync(inspan.run(run_env.task))

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(inspan.InspanError) as caught:
            asyncio.run(scene())
        told = caught.value.code, str(caught.value)
        del caught  # It holds the frames, and with them what was not awaited.
        gc.collect()
    assert told == ("bad_input", "run_sync '': a loop is running here already. Use await in place of run_sync.")
    assert [str(each.message) for each in warned] == [], "nothing was left un-awaited"
    assert not run_env.state.exists()


async def _one(task: Task, prompt: str, heard: dict[str, list[Event]]) -> AgentResult:
    heard[prompt] = []
    hear: Callable[[Event], None] = heard[prompt].append
    return await inspan.run(msgspec.structs.replace(task, prompt=prompt), on_event=hear)


def _assert_each_heard_its_own(run_env: RunEnv, heard: dict[str, list[Event]]) -> None:
    for prompt, events in heard.items():
        words = [event.text for event in events if isinstance(event, TextSaid)]
        assert words == [f"{prompt} {number}" for number in range(30)]
    logged = [run_env.events(folder) for folder in run_env.folders()]
    assert sorted(map(str, logged)) == sorted(map(str, heard.values()))
