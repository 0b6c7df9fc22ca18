"""A run that is ended while its agent is being started: nothing of it is left, however far the start had come."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import inspan
from inspan import Event, Limits, Task
from inspan.protocol.events import RunStarted
from tests.api.run_env import RunEnv, make_run_env, wait_until_async
from tests.cli_env import CliEnv, kill_process, processes_of, wait_until
from tests.running.fake_agent import Fake, detach_fake_agent, fake_agent_env, find_processes

# A helper that stays where the real one is for a millisecond: its child is there, and does not die with it yet.
_STAYS = """
import os, signal, sys, time
def leave(): os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(86400)", MARKER], env)
"""
_HELPERS = {
    # Nothing but its parent leads to this child.
    "child": "env = {}\nif os.fork() == 0: leave()\nopen(BORN, 'w').close()\nos.wait()",
    # Nothing but the run's id leads to this one.
    "orphan": """
env = {"JRUN_ID": os.environ["JRUN_ID"]}
if os.fork() == 0:
    if os.fork() == 0: leave()
    os._exit(0)
os.wait()
open(BORN, 'w').close()
time.sleep(86400)
""",
    # It has no child yet; whoever interrupts it now is too early.
    "itself": """
env = {}
def interrupt(number, frame):
    if os.fork() == 0: leave()
    os._exit(1)
for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, interrupt)
open(BORN, 'w').close()
while True: time.sleep(86400)
""",
}
_WAYS = ("bwrap", "unshare", "reaper", "box")
_DELAYS_MS = (0, 1, 2, 3, 4, 6, 8, 12, 16)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunEnv:
    return make_run_env(tmp_path, monkeypatch)


class Helper:
    """A stand-in for bubblewrap: where it is found, whether it has come to its point, and what is left of it."""

    def __init__(self, root: Path, fake: Fake, kind: str) -> None:
        self._born, self.marker = root / "born", f"{root}/left"
        acts = (_STAYS + _HELPERS[kind]).replace("MARKER", repr(self.marker)).replace("BORN", repr(str(self._born)))
        fake("bwrap", acts)
        self.folder = str(root)

    def is_born(self) -> bool:
        return self._born.exists()

    def left(self) -> list[int]:
        return [*find_processes(self.marker), *find_processes(f"{self.folder}/bwrap")]

    def assert_gone(self) -> None:
        wait_until(lambda: not self.left(), "empty house")


@pytest.fixture(params=sorted(_HELPERS))
def helper(request: pytest.FixtureRequest, tmp_path: Path, fake: Fake) -> Iterator[Helper]:
    made = Helper(tmp_path, fake, request.param)
    yield made
    for pid in made.left():
        kill_process(pid)


@pytest.mark.parametrize("ending", ["cancel", "timeout"])
def test_a_run_here_that_is_ended_while_its_agent_starts_leaves_nothing(
    stage: RunEnv, fake: Fake, helper: Helper, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    for name, value in fake_agent_env(fake, "begin()").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", helper.folder, prepend=":")
    monkeypatch.setenv("INSPAN_CONTAINMENT", "bwrap")

    async def cancelled() -> None:
        call = asyncio.create_task(inspan.run(stage.task))
        await wait_until_async(helper.is_born, "helper")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    async def timed_out() -> None:
        for limit_s in (1.5, 6.0, 24.0):  # On a machine that is busy, the helper comes to its point later.
            task = msgspec.structs.replace(stage.task, limits=Limits(timeout_s=limit_s))
            assert (await inspan.run(task)).reason == "run_timeout"
            if helper.is_born():
                return
        raise AssertionError("no helper")

    asyncio.run(cancelled() if ending == "cancel" else timed_out())
    helper.assert_gone()


@pytest.mark.parametrize("order", ["stop", "kill"])
def test_a_supervised_run_that_is_ended_while_its_agent_starts_leaves_nothing(
    cli_env: CliEnv, fake: Fake, helper: Helper, order: str
) -> None:
    path = f"{helper.folder}:{cli_env.env['PATH']}"
    run_id = detach_fake_agent(
        cli_env, {**fake_agent_env(fake, "begin()"), "PATH": path, "INSPAN_CONTAINMENT": "bwrap"}
    )
    wait_until(helper.is_born, "helper")
    assert cli_env.inspan(order, run_id).returncode == 0
    helper.assert_gone()


@pytest.mark.parametrize("way", _WAYS)
def test_whenever_a_real_start_is_cancelled_nothing_is_left(
    stage: RunEnv, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "box":
        sandbox = "bwrap"
    else:
        monkeypatch.setenv("INSPAN_CONTAINMENT", way)
        sandbox = "none"
    model = stage.scenario("[[call]]\nrun = 'sleep 86400'\n")
    task = msgspec.structs.replace(stage.task, agent="scripted", model_from=model, sandbox=sandbox)

    async def scene() -> list[str]:
        return [await _cancelled_after(task, delay_ms) for delay_ms in _DELAYS_MS]

    ids = asyncio.run(scene())
    assert len(set(ids)) == len(_DELAYS_MS)
    try:
        wait_until(lambda: not any(map(processes_of, ids)), "empty house")
    finally:
        for pid in (pid for run_id in ids for pid in processes_of(run_id)):
            kill_process(pid)


async def _cancelled_after(task: Task, delay_ms: int) -> str:
    """Cancels a run so long after its agent's process was started, and gives its id."""
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def hear(event: Event) -> None:
        if isinstance(event, RunStarted):
            started.set_result(event.run_id)

    call = asyncio.create_task(inspan.run(task, on_event=hear))
    run_id = await started
    await asyncio.sleep(delay_ms / 1000)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    return run_id
