"""A program that forks while it has a run: the child keeps nothing of the run, however long it lives."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli_env import WAIT_S, kill_process, processes_of, wait_until

from .conftest import Play
from .run_env import RunEnv

# The child tells what it holds of the run, and stays until it is ended.
_HOST = """
import asyncio, json, os, signal, sys, time
import inspan
from inspan.protocol.events import TextSaid

work, folder = sys.argv[1:3]

def kept():
    for name in os.listdir("/proc/self/fd"):
        try: path = os.readlink("/proc/self/fd/" + name)
        except OSError: continue
        if int(name) > 2: yield path

def fork():
    if os.fork() == 0:
        for number in range(3): os.dup2(os.open(os.devnull, os.O_RDWR), number)
        found = sorted(kept())
        with open(folder + "/draft", "w") as file: json.dump({"pid": os.getpid(), "kept": found}, file)
        os.rename(folder + "/draft", folder + "/child")
        time.sleep(86400)

def forks(event):
    if isinstance(event, TextSaid) and not os.path.exists(folder + "/forked"):
        open(folder + "/forked", "w").close()
        fork()

async def hears(event): forks(event)
"""
Host = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def host(run_env: RunEnv) -> Iterator[Host]:
    """Starts a program that does these acts; what it forked is ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(acts: str) -> "subprocess.Popen[str]":
        argv = [sys.executable, "-Wignore", "-c", _HOST + acts, str(run_env.work), str(run_env.root)]
        started.append(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=WAIT_S)
    if (run_env.root / "child").exists():
        kill_process(_child(run_env)["pid"])


def test_a_conversation_goes_on_though_a_forked_child_lives(run_env: RunEnv, use_fake_agent: Play, host: Host) -> None:
    use_fake_agent("begin(); say('here'); finish()")
    process = host("""
async def main():
    session = inspan.create_agent_runner("codex", cwd=work).create_session()
    first = await session.send_message("x", on_event=hears)
    second = await session.send_message("x")
    print(json.dumps([first.outcome, second.outcome]))
asyncio.run(main())
""")
    out, _ = process.communicate(timeout=WAIT_S)
    assert json.loads(out) == ["completed", "completed"]
    assert _lives(run_env)


@pytest.mark.parametrize("way", ["bwrap", "reaper"])
def test_a_run_whose_program_was_killed_is_found_lost_though_a_forked_child_lives(
    run_env: RunEnv, use_fake_agent: Play, host: Host, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv("INSPAN_CONTAINMENT", way)
    use_fake_agent("begin(); say('here')\nwhile True: time.sleep(86400)")
    process = host("asyncio.run(inspan.create_agent_runner('codex', cwd=work).exec('x', on_event=hears))")
    wait_until((run_env.root / "child").exists, "child")
    process.kill()
    (folder,) = run_env.folders()
    # Nobody has looked yet: the agent goes by itself.
    wait_until(lambda: not processes_of(folder.name), "empty house")
    argv = [sys.executable, "-m", "inspan", "wait", folder.name]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.stdout == f"{folder.name} lost supervisor_lost\n"
    assert _lives(run_env)


@pytest.mark.parametrize("way", ["bwrap", "reaper"])
def test_a_forked_child_holds_no_lock_pipe_or_listener_of_the_run(
    run_env: RunEnv, host: Host, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv("INSPAN_CONTAINMENT", way)
    scenario = run_env.scenario("[[call]]\nsay = 'here'\nrun = 'true'\n[[call]]\nsay = 'there'\n").removeprefix(
        "script:"
    )
    process = host(f"""
runner = inspan.create_agent_runner("scripted", cwd=work, model_from="script:{scenario}")
print(json.dumps([asyncio.run(runner.exec("x", on_event=forks)).outcome]))
""")
    out, _ = process.communicate(timeout=WAIT_S)
    assert json.loads(out) == ["completed"]
    kept = _child(run_env)["kept"]
    assert [path for path in kept if path.endswith("/lock") or path.startswith("pipe:")] == []
    assert [path for path in kept if path in _listening()] == []


def _listening() -> set[str]:
    """Every socket of this machine at which somebody listens, as a descriptor is called in /proc."""
    tcp = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    unix = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    inodes = [row[9] for row in tcp if row[3] == "0A"] + [row[6] for row in unix if row[3] == "00010000"]
    return {f"socket:[{inode}]" for inode in inodes}


def _child(run_env: RunEnv) -> dict[str, Any]:
    path = run_env.root / "child"
    wait_until(path.exists, "child")
    return json.loads(path.read_text())


def _lives(run_env: RunEnv) -> bool:
    return os.path.exists(f"/proc/{_child(run_env)['pid']}")
