"""Programs that end while a run goes on: by Ctrl-C, by the end of their main function, and without any loop."""

import signal
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

import inspan
from inspan import RunEnded
from inspan.errors import Unsupported
from tests.api.conftest import Play
from tests.api.run_env import RunEnv
from tests.cli_env import WAIT_S, wait_until
from tests.running.fake_agent import find_processes

_DEAF = """
for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)
begin(); say('here'); open('here', 'w').close()
while True: time.sleep(86400)
"""
_PROGRAM = """
import asyncio, os, sys
import anyio, uvloop
import inspan

task = inspan.Task(prompt="do it", cwd=os.getcwd(), agent="codex")

async def waits():
    await inspan.run(task)

async def leaves():
    running = asyncio.create_task(inspan.run(task))
    while not os.path.exists("here"):
        await asyncio.sleep(0.01)

async def cancels_all():
    running = asyncio.create_task(inspan.run(task))
    await leaves()
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        for other in others:
            other.cancel()
        await asyncio.sleep(0)

RUN = {
    "asyncio": asyncio.run,
    "uvloop": uvloop.run,
    "anyio": lambda work: anyio.run(lambda: work),
}
RUN[sys.argv[1]](globals()[sys.argv[2]]())
"""
_DROPS = """
import asyncio, os, sys
import inspan

task = inspan.Task(prompt="do it", cwd=os.getcwd(), agent="codex")
loop = asyncio.new_event_loop()
running = loop.create_task(inspan.run(task))

async def here():
    while not os.path.exists("here"):
        await asyncio.sleep(0.01)

loop.run_until_complete(here())
if sys.argv[1] == "closed":
    loop.close()
"""
# The second Ctrl-C of two at once falls into whatever runs then: here, into the n-th call of a function by its name.
_INTERRUPTED_TWICE = """
import signal, sys
import anyio, asyncio, os, uvloop
import inspan, inspan.system.cancellation

inspan.system.cancellation._INTERRUPTED_S = 0.5
loop, name, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
calls = []

def interrupt(frame, event, argument):
    if event == "call" and frame.f_code.co_qualname.endswith(name):
        calls.append(name)
        if len(calls) == number:
            sys.setprofile(None)
            print("interrupted", flush=True)
            raise KeyboardInterrupt

async def interrupts():
    while not os.path.exists("here"):
        await asyncio.sleep(0.01)
    sys.setprofile(interrupt)
    signal.raise_signal(signal.SIGINT)

async def waits():
    first = asyncio.create_task(interrupts())
    await inspan.run(inspan.Task(prompt="do it", cwd=os.getcwd(), agent="codex"))

RUN = {"asyncio": asyncio.run, "uvloop": uvloop.run, "anyio": lambda work: anyio.run(lambda: work)}
RUN[loop](waits())
"""
each_runner = pytest.mark.parametrize("loop", ["asyncio", "uvloop", "anyio"])


@each_runner
@pytest.mark.parametrize("times", [1, 2])
def test_a_program_that_is_interrupted_ends_its_run_first(
    run_env: RunEnv, use_fake_agent: Play, loop: str, times: int
) -> None:
    use_fake_agent(_DEAF)
    program = _program(run_env, loop, "waits")
    wait_until((run_env.work / "here").exists, "agent")
    program.send_signal(signal.SIGINT)
    if times == 1:
        program.communicate(timeout=WAIT_S)
        assert _end(run_env) == ("cancelled", "interrupted")
    else:
        program.send_signal(signal.SIGINT)  # Now it may leave everything as it is; the agent dies with it.
        program.communicate(timeout=WAIT_S)
    assert program.returncode
    wait_until(lambda: not find_processes(str(run_env.root / "puppet")), "end of the agent")


@each_runner
@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("RunExecution._reap", 1),
        ("_wait.<locals>._on_completion", 1),
        ("_wait.<locals>._on_completion", 2),
        ("_Waiter.wake", 1),
        ("_Waiter.wake", 2),
        ("_Waiter.cancel", 1),
        ("set_in_loop.<locals>.<lambda>", 1),
        ("RunExecution._conclude", 1),
    ],
)
def test_a_second_interrupt_in_any_callback_of_the_loop_leaves_nobody_waiting(
    run_env: RunEnv, use_fake_agent: Play, loop: str, name: str, number: int
) -> None:
    _interrupt_twice(run_env, use_fake_agent, loop, name, number)


@pytest.mark.parametrize("number", range(1, 9))
def test_a_second_interrupt_between_two_steps_of_the_loop_leaves_nobody_waiting(
    run_env: RunEnv, use_fake_agent: Play, number: int
) -> None:
    """What the loop was about to call is lost then: also the next step of the task that waits for the run."""
    _interrupt_twice(run_env, use_fake_agent, "asyncio", "Handle._run", number)


def _interrupt_twice(run_env: RunEnv, use_fake_agent: Play, loop: str, name: str, number: int) -> None:
    use_fake_agent(_DEAF)
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED_TWICE, loop, name, str(number)],
        cwd=run_env.work,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.stdout == "interrupted\n"
    # Behind it, asyncio may name a task of the run whose next step it has lost.
    assert "\nKeyboardInterrupt\n" in done.stderr
    assert done.returncode == 130 or done.returncode == -signal.SIGINT
    wait_until(lambda: not find_processes(str(run_env.root / "puppet")), "end of the agent")


@each_runner
@pytest.mark.parametrize("act", ["leaves", "cancels_all"])
def test_a_program_that_ends_without_its_run_ends_it(
    run_env: RunEnv, use_fake_agent: Play, loop: str, act: str
) -> None:
    use_fake_agent(_DEAF)
    program = _program(run_env, loop, act)
    _, stderr = program.communicate(timeout=WAIT_S)
    assert (program.returncode, stderr) == (0, b"")
    assert {_end(run_env, folder) for folder in run_env.folders()} == {("cancelled", "interrupted")}
    assert find_processes(str(run_env.root / "puppet")) == []
    assert list(run_env.state.glob("active/*")) == []


@pytest.mark.parametrize("how", ["closed", "dropped"])
def test_a_loop_that_is_dropped_with_a_run_in_it_hears_of_no_fault_of_ours(
    run_env: RunEnv, use_fake_agent: Play, how: str
) -> None:
    use_fake_agent(_DEAF)
    done = subprocess.run(
        [sys.executable, "-c", _DROPS, how],
        cwd=run_env.work,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr  # That a task was pending is said by asyncio, once for each.
    assert "Task was destroyed but it is pending!" in done.stderr
    (folder,) = run_env.folders()
    wait_until(lambda: not find_processes(str(run_env.root / "puppet")), "end of the agent")
    assert inspan.run_sync(inspan.find_run(folder.name).wait()).outcome == "lost"


@pytest.mark.parametrize("name", ["run", "start"])
def test_without_a_loop_of_asyncio_the_next_step_is_told(run_env: RunEnv, use_fake_agent: Play, name: str) -> None:
    use_fake_agent("begin(); finish()")
    call: Coroutine[Any, Any, object] = getattr(inspan, name)(run_env.task)
    with pytest.raises(Unsupported) as caught:
        call.send(None)  # As a loop that is none of asyncio's would.
    assert caught.value.next_step == "Run it with asyncio.run, or call inspan.run_sync in a thread."
    assert not run_env.state.exists()


def _program(run_env: RunEnv, *arguments: str) -> "subprocess.Popen[bytes]":
    path = run_env.root / "program.py"
    path.write_text(_PROGRAM)
    return subprocess.Popen(
        [sys.executable, str(path), *arguments],
        cwd=run_env.work,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _end(run_env: RunEnv, folder: Path | None = None) -> tuple[str, str]:
    last = run_env.events(folder)[-1]
    assert isinstance(last, RunEnded)
    return last.outcome, last.reason
