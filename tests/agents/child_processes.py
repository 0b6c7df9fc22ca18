"""A shell command that starts children of its own, each hiding from whoever wants to end it in another way."""

import os
from collections.abc import Iterator
from pathlib import Path

from tests.cli_env import CliEnv, processes_of, read_parent, wait_until

CHILDREN = ("own-session", "double-fork", "nohup", "deaf", "no-environment")
_PROGRAM = """
import os, pathlib, signal, subprocess, sys, time

def start(way):
    me = [sys.executable, __file__, way]
    if way == "own-session":
        subprocess.Popen(me, start_new_session=True)
    elif way == "nohup":
        subprocess.Popen(["nohup", *me], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    elif way == "no-environment":
        subprocess.Popen(me, env={}, start_new_session=True)
    elif way == "double-fork":
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execv(me[0], me)
            os._exit(0)
    else:
        subprocess.Popen(me)

if len(sys.argv) > 1:
    if sys.argv[1] == "deaf":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    pathlib.Path(__file__).with_name(sys.argv[1] + ".started").touch()
else:
    for way in CHILDREN:
        start(way)
time.sleep(300)
"""


def hanging_scenario(cli_env: CliEnv, *, usage: str = "") -> str:
    """A scenario whose only step is a shell command that starts a family and never ends."""
    program = cli_env.work / "family.py"
    program.write_text(_PROGRAM.replace("CHILDREN", repr(CHILDREN)))
    return f"[[call]]\nrun = 'python3 {program}'\n{usage}\n[[call]]\nsay = 'never'\nrepeat = 'always'\n"


def wait_for_children(cli_env: CliEnv) -> None:
    """Waits until every child of the command is there, and the call that ordered it is in the log of the only run."""
    marks = [cli_env.work / f"{way}.started" for way in CHILDREN]
    wait_until(lambda: all(mark.exists() for mark in marks), "family")
    # An agent may begin with a command before its call has ended, and its supervisor writes down both in its own time.
    cli_env.wait_for_events(cli_env.folder().name, "thread_started", "model_call_ended")


def agent_pid_of(cli_env: CliEnv, run_id: str, name: str) -> int:
    """The pid of a run's agent itself, among the processes that hold it and those that it started."""
    program = os.path.realpath(cli_env.env[f"INSPAN_{name.upper()}_BIN"])

    def find_first() -> list[int]:
        """Its helpers may be the same program, below it; their numbers say nothing, for numbers come round again."""
        found = {pid for pid in processes_of(run_id) if _program(pid) == program}
        return [pid for pid in found if found.isdisjoint(_ancestors(pid))]

    (agent,) = wait_until(find_first, "agent")
    return agent


def _ancestors(pid: int) -> Iterator[int]:
    while pid := read_parent(pid):
        yield pid


def _program(pid: int) -> str:
    try:
        return os.path.realpath(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        return ""
