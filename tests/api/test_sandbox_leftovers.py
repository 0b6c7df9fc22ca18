"""What an open sandbox holds on this machine goes with it, however it ends; its limits are one for all in it."""

import asyncio
import gc
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypedDict

import msgspec
import pytest

import inspan
from inspan.containment.control_groups import create_groups, remove_groups
from inspan.errors import SandboxUnusable
from inspan.planning.doctor import examine, repair
from inspan.protocol.limits import Limits
from inspan.runs.boxes import remove_dead_box
from inspan.runs.prune import PruneFilter, find_prunable, prune
from inspan.stores.box_folder import find_orphan_boxes, read_groups
from tests.conftest import skip

from .run_env import RunEnv, descriptors, wait_until_async

pytestmark = [pytest.mark.usefixtures("bubblewrap"), pytest.mark.anyio]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class _Limits(TypedDict, total=False):
    pids: int


@pytest.fixture
def limits() -> _Limits:
    """Limits, where this machine can hold them: then groups are among what may be left."""
    with suppress(SandboxUnusable):
        remove_groups(create_groups(f"probe-{os.urandom(4).hex()}", Limits(pids=100)))
        return {"pids": 100}
    return {}


def _list_left(run_env: RunEnv) -> list[str]:
    """Folders of boxes, and the groups of which they tell."""
    folders = [*run_env.state.glob("boxes/*")]
    return [*map(str, folders), *(group for folder in folders for group in _read_groups(folder))]


def _read_groups(folder: Path) -> list[str]:
    return [each for each in read_groups(str(folder)) if os.path.exists(each)]


@pytest.mark.parametrize("turns", [0, 1, 2, 5, 50])
async def test_an_opening_that_is_cancelled_leaves_nothing(run_env: RunEnv, limits: _Limits, turns: int) -> None:
    before = descriptors()
    box = inspan.open_sandbox("bwrap", cwd=run_env.work, **limits)
    opening = asyncio.create_task(box.open())
    for _ in range(turns):
        await asyncio.sleep(0.001)
    opening.cancel()
    with suppress(asyncio.CancelledError):
        await opening
    if not opening.cancelled():
        await box.teardown()
    assert _list_left(run_env) == []
    assert descriptors() == before


async def test_two_openings_at_once_are_one(run_env: RunEnv, limits: _Limits) -> None:
    box = inspan.open_sandbox("bwrap", cwd=run_env.work, **limits)
    await asyncio.gather(box.open(), box.open())
    assert len([*run_env.state.glob("boxes/*")]) == 1
    await asyncio.gather(box.teardown(), box.teardown())
    assert _list_left(run_env) == []


async def test_a_teardown_during_an_opening_leaves_nothing(run_env: RunEnv, limits: _Limits) -> None:
    box = inspan.open_sandbox("bwrap", cwd=run_env.work, **limits)
    opening = asyncio.create_task(box.open())
    await asyncio.sleep(0)
    await box.teardown()
    await opening
    with pytest.raises(SandboxUnusable, match="is not open"):
        await box.exec(["true"])
    assert _list_left(run_env) == []


async def test_a_teardown_waits_for_work_on_files(run_env: RunEnv, limits: _Limits) -> None:
    (run_env.work / "file").write_text("x")
    box = inspan.open_sandbox("none", cwd=run_env.work, **limits)
    await box.open()
    taking = asyncio.create_task(box.snapshot())
    late = asyncio.create_task(box.snapshot())
    writing = asyncio.create_task(box.upload({"late": "x"}))
    await asyncio.sleep(0.001)
    await box.teardown()
    assert await taking
    results = await asyncio.gather(late, writing, return_exceptions=True)
    assert [type(each) for each in results if isinstance(each, Exception)] in ([], [SandboxUnusable] * len(results))
    assert _list_left(run_env) == []


async def test_a_sandbox_that_is_forgotten_leaves_nothing(run_env: RunEnv, limits: _Limits) -> None:
    before = descriptors()
    box = inspan.open_sandbox("bwrap", cwd=run_env.work, **limits)
    await box.open()
    groups = [group for folder in run_env.state.glob("boxes/*") for group in _read_groups(folder)]
    assert len(groups) == len(limits)
    del box
    gc.collect()
    assert _list_left(run_env) == [] and not any(map(os.path.exists, groups))
    assert descriptors() == before


_HOST = """
import asyncio, os, sys, inspan
async def main():
    box = inspan.open_sandbox("bwrap", cwd={work!r}, **{limits!r})
    await box.open()
    await box.snapshot()
    {then}
asyncio.run(main())
"""


@asynccontextmanager
async def _start_host(run_env: RunEnv, limits: _Limits, then: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A program with a sandbox, which has ended in any case afterwards."""
    script = _HOST.format(work=str(run_env.work), limits=limits, then=then)
    program = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    try:
        yield program
    finally:
        with suppress(ProcessLookupError):
            program.kill()
        await program.wait()


# A child that is forked has a copy of the sandbox, and what it does at its end is not to be the end of the sandbox.
_FORKS = """
    if (pid := os.fork()) == 0:
        import atexit
        atexit._run_exitfuncs()
        os._exit(0)
    os.waitpid(pid, 0)
    assert await box.snapshot()"""


@pytest.mark.parametrize("then", ["", _FORKS])
async def test_a_program_that_just_ends_leaves_nothing(run_env: RunEnv, limits: _Limits, then: str) -> None:
    async with _start_host(run_env, limits, then) as program:
        assert await program.wait() == 0
    assert _list_left(run_env) == []


async def test_what_a_killed_program_left_is_found_and_removed_and_nothing_of_a_living_one(
    run_env: RunEnv, limits: _Limits
) -> None:
    (run_env.work / "file").write_text("x")
    state, filter = str(run_env.state), PruneFilter(before=0)
    async with (
        _start_host(run_env, limits, "await box.exec(['sh', '-c', 'touch begun; sleep 600'])") as program,
        inspan.open_sandbox("bwrap", cwd=run_env.work, **limits) as living,
    ):
        await wait_until_async((run_env.work / "begun").exists, "command")
        assert find_prunable(state, filter).boxes == []
        program.kill()
        await program.wait()
        (dead,) = find_prunable(state, filter).boxes
        (finding,) = (each for each in await asyncio.to_thread(examine, agents=["scripted"]) if each.remedy)
        assert (finding.subject, finding.state) == ("sandboxes", "warning")
        assert "1 left behind" in finding.detail and "inspan prune" in finding.next_step
        groups = _read_groups(Path(dead.path))
        pruned = prune(state, find_prunable(state, filter))
        assert (pruned.boxes, pruned.problems) == ([dead], [])
        assert not os.path.exists(dead.path) and not any(map(os.path.exists, groups))
        assert (await living.exec(["true"])).exit_code == 0, "it has lost nothing"
        assert await living.snapshot()
        (own,) = run_env.state.glob("boxes/*")
        assert remove_dead_box(str(own)) == "" and own.exists(), "whoever lives keeps it, whatever was found before"


async def test_doctor_removes_what_a_killed_program_left(run_env: RunEnv, limits: _Limits) -> None:
    async with _start_host(run_env, limits, "os.kill(os.getpid(), 9)") as program:
        await program.wait()
    assert len(find_orphan_boxes(str(run_env.state))) == 1
    (finding,) = (each for each in await asyncio.to_thread(examine, agents=["scripted"]) if each.remedy)
    assert repair(finding).state == "ok"
    assert _list_left(run_env) == []


async def test_a_restore_that_was_killed_half_way_is_taken_back_before_its_folder_goes(run_env: RunEnv) -> None:
    """The files of the user are aside then, and only the journal in the folder of the box knows where."""
    then = """
    open("file", "w").write("newer")
    from inspan.stores import file_swap
    file_swap._remove_empty_folders = lambda *_, **__: os.kill(os.getpid(), 9)
    (name,) = box._opened.kept._taken
    await box.restore(name)"""
    (run_env.work / "file").write_text("old")
    async with _start_host(run_env, {}, f"os.chdir({str(run_env.work)!r})\n{then}") as program:
        assert await program.wait() == -9
    assert not (run_env.work / "file").exists()
    (dead,) = find_orphan_boxes(str(run_env.state))
    assert remove_dead_box(dead.path) == ""
    assert (run_env.work / "file").read_text() == "newer"
    assert _list_left(run_env) == [] and os.listdir(run_env.work) == ["file"]


_HOLD = "import sys, time; x = bytearray(90 * 2**20); open(sys.argv[1], 'w'); time.sleep(float(sys.argv[2]))"


async def test_limits_hold_for_a_run_and_commands_together(run_env: RunEnv, limits: _Limits) -> None:
    if not limits:
        skip("no-control-groups")
    hold = f'{sys.executable} -c \\"{_HOLD}\\"'
    scenario = f'[[call]]\nrun = "{hold} held 600"\n[[call]]\nsay = "Fine."\n'
    task = msgspec.structs.replace(run_env.task, agent="scripted", model_from=run_env.scenario(scenario))
    async with inspan.open_sandbox("bwrap", cwd=run_env.work, memory=160 * 2**20, **limits) as box:
        alone = await box.exec([sys.executable, "-c", _HOLD, "alone", "0"])
        assert (alone.exit_code, alone.out_of_memory) == (0, False), alone.stderr
        running = asyncio.create_task(inspan.run(task, sandbox=box))
        await wait_until_async((run_env.work / "held").exists, "the run's memory")
        both = await box.exec([sys.executable, "-c", _HOLD, "both", "0"])
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        killed = [event for event in run_env.events() if "killed because" in getattr(event, "message", "")]
        assert both.out_of_memory or killed, "one of them has to go"
        assert (await box.exec(["true"])).exit_code == 0
    assert _list_left(run_env) == []
