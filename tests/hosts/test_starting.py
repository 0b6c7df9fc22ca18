"""Starting many runs at once: the loop goes on turning, and no run gets what is another's."""

import asyncio
import os
import threading
from typing import Any

import pytest

import inspan
from inspan import AgentResult, Run, Task
from tests.api.conftest import Play
from tests.api.run_env import RunEnv

from .hosts import Host, assert_nothing_left, each_host, each_loop, in_a_thread

_MANY = 20


class Turns:
    """Counts the turns of a loop, and notes the count at moments of interest."""

    def __init__(self) -> None:
        self.count = 0
        self.marks: list[int] = []

    async def __call__(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)

    async def marked(self, call: Any) -> Any:
        result = await call
        self.marks.append(self.count)
        return result


@each_host
@pytest.mark.parametrize("way", ["start", "run"])
def test_the_loop_turns_between_any_two_starts(run_env: RunEnv, use_fake_agent: Play, host: Host, way: str) -> None:
    use_fake_agent("begin(); finish()")

    async def scene() -> tuple[list[int], int]:
        await inspan.run(run_env.task)  # From now on nobody has to be asked for a version.
        turns = Turns()
        turning = asyncio.create_task(turns())
        begun = [asyncio.create_task(turns.marked(_begin(way, run_env.task))) for _ in range(_MANY)]
        await asyncio.sleep(0)
        before = turns.count
        ended = await asyncio.gather(*begun)
        turning.cancel()
        assert all(each.ok for each in ended if isinstance(each, AgentResult)), ended
        return turns.marks, before

    with assert_nothing_left():
        marks, before = host(scene)
    assert len(marks) == _MANY
    assert min(marks) > before, "the loop has turned before the first was started"
    assert len(set(marks)) > _MANY // 2, "and between them"


def test_callers_that_have_filled_the_loops_own_threads_do_not_block_each_other(
    run_env: RunEnv, use_fake_agent: Play
) -> None:
    use_fake_agent("begin(); say(prompt); finish()")

    async def scene() -> list[AgentResult]:
        loop = asyncio.get_running_loop()

        def call() -> AgentResult:
            return asyncio.run_coroutine_threadsafe(inspan.run(run_env.task), loop).result(240)

        return await asyncio.gather(*(asyncio.to_thread(call) for _ in range(40)))

    assert all(result.ok for result in asyncio.run(scene()))


@each_loop
def test_nothing_that_is_handed_to_a_supervisor_can_be_inherited_by_others(
    run_env: RunEnv, use_fake_agent: Play, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_agent("begin(); finish()")
    spawn, inheritable = os.posix_spawn, list[str]()

    def watch(*arguments: Any, **more: Any) -> int:
        inheritable.extend(name for name in os.listdir("/proc/self/fd") if int(name) > 2 and _is_inheritable(int(name)))
        return spawn(*arguments, **more)

    async def scene() -> list[AgentResult]:
        before = {name for name in os.listdir("/proc/self/fd") if int(name) > 2 and _is_inheritable(int(name))}
        monkeypatch.setattr(os, "posix_spawn", watch)
        results = [await (await inspan.start(run_env.task)).wait()]
        monkeypatch.setattr(os, "posix_spawn", spawn)
        assert set(inheritable) <= before
        return results

    assert [result.outcome for result in host(scene)] == ["completed"]


def test_threads_with_loops_of_their_own_start_and_run_at_once(run_env: RunEnv, use_fake_agent: Play) -> None:
    use_fake_agent("begin(); say(prompt); finish()")
    results: list[AgentResult] = []

    async def scene() -> None:
        here, run = await asyncio.gather(inspan.run(run_env.task), inspan.start(run_env.task))
        results.extend([here, await run.wait()])

    with assert_nothing_left():
        threads = [threading.Thread(target=in_a_thread, args=(scene,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    assert [result.message for result in results] == [run_env.task.prompt] * 12


async def _begin(way: str, task: Task) -> Run | AgentResult:
    return await (inspan.start(task) if way == "start" else inspan.run(task))


def _is_inheritable(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False  # The listing's own descriptor.
