"""A shell command that starts children of its own, each hiding from whoever wants to end it in another way."""

import os
from pathlib import Path

from tests.cli_env import CliEnv, processes_of, wait_until

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
    """Waits until every child of the command is there."""
    marks = [cli_env.work / f"{way}.started" for way in CHILDREN]
    wait_until(lambda: all(mark.exists() for mark in marks), "family")


def agent_pid_of(cli_env: CliEnv, run_id: str, name: str) -> int:
    """The pid of a run's agent itself, among the processes that hold it and those that it started."""
    program = os.path.realpath(cli_env.env[f"INSPAN_{name.upper()}_BIN"])
    found = wait_until(lambda: [pid for pid in processes_of(run_id) if _program(pid) == program], "agent")
    return min(found)


def _program(pid: int) -> str:
    try:
        return os.path.realpath(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        return ""
