"""Two hundred generated process trees at once, each nasty in its own way: however their run ends, none is left."""

import os
import signal
import time
from pathlib import Path

import pytest

from inspan.containment.containment import METHODS
from tests.cli_env import CliEnv, processes_of, wait_until
from tests.running.fake_agent import Fake, detach_fake_agent, fake_agent_env, find_processes, wait_for_event
from tests.soak import SCALE, rounds

_TREES = 200
_BOX = "the sandbox bwrap"  # Not a way of containment, but one that holds what is in it by itself.
# Each tree is a chain of habits that its generator draws: what one does happens to all that come below it.
_ACTS = """
import random
random.seed({seed!r})
ready, stands = os.pipe()
os.set_inheritable(stands, True)

def fork_again():
    if os.fork(): time.sleep(86400)
def daemonize():
    os.setsid()
    if os.fork(): os._exit(0)
def leave_parent():
    if os.fork(): os._exit(0)
def leave_group(): os.setpgid(0, 0)
def ignore_signals():
    for number in set(signal.valid_signals()) - {{signal.SIGKILL, signal.SIGSTOP}}:
        try: signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError): pass
def block_signals(): signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
def close_streams():
    for fd in (0, 1, 2):
        try: os.close(fd)
        except OSError: pass
def scatter():
    for _ in range(3):
        if not os.fork(): time.sleep(86400)

def stand(): os.write(stands, b"."); time.sleep(86400)
def clear_environment():
    os.execve("/bin/sh", ["sh", "-c", f"printf . >&{{stands}}; sleep 86400; exit", {marker!r}], {{}})
def stop_itself():
    # In a group of its own: the kernel hangs up on a whole group that has lost its parents and holds one that stopped.
    if os.getpid() != os.getsid(0): os.setpgid(0, 0)
    os.write(stands, b".")
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(86400)
def storm():
    os.write(stands, b".")
    while True:
        if not os.fork(): time.sleep(0.2); os._exit(0)
        time.sleep(0.1)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]: pass
        except ChildProcessError: pass
def hop():
    os.write(stands, b".")
    while True:
        time.sleep(0.1)
        if os.fork(): os._exit(0)

habits = (
    fork_again, daemonize, leave_parent, leave_group, ignore_signals, block_signals, close_streams, scatter
)
ends = (stand, clear_environment, stop_itself)
busy = (storm, hop)
def plant(number):
    chosen = random.choices(habits, k=random.randint(1, 4))
    last = random.choice(ends) if number % 10 else random.choice(busy)
    if os.fork() == 0:
        for habit in (*chosen, last):
            try: habit()
            except OSError: pass  # A session cannot be left twice.
        os._exit(1)

begin()
for number in range({trees}): plant(number)
seen = b""
while len(seen) < {trees}: seen += os.read(ready, 1000)
say(seen.decode())
while True: time.sleep(86400)
"""
# How it ends → options, and what the log then says.
_ENDINGS: dict[str, tuple[list[str], tuple[str, str]]] = {
    "cancelled": ([], ("cancelled", "stopped")),
    "timed out": (["--timeout", "5"], ("timed_out", "run_timeout")),
    "supervisor killed": ([], ("lost", "supervisor_lost")),
}


@pytest.mark.parametrize("seed", range(rounds(1)))
@pytest.mark.parametrize("ending", _ENDINGS)
@pytest.mark.parametrize("way", [*(method.name for method in METHODS), _BOX])
def test_nothing_is_left_of_two_hundred_nasty_trees(
    cli_env: CliEnv,
    fake: Fake,
    tmp_path: Path,
    way: str,
    ending: str,
    seed: int,
) -> None:
    options, expected = _ENDINGS[ending]
    name = f"{way} {ending} {time.time_ns() if SCALE else seed}"
    env = fake_agent_env(fake, _ACTS.format(seed=name, marker=str(tmp_path), trees=_TREES))
    more = ("--sandbox", "bwrap") if way == _BOX else ()
    asked = {"INSPAN_CONTAINMENT": way} if way != _BOX else {}
    run_id = detach_fake_agent(cli_env, env | asked, *options, *more)
    wait_for_event(cli_env, run_id, "run_ended" if ending == "timed out" else "text_said")
    if ending != "timed out":
        assert len(find_processes(str(tmp_path))) > _TREES, "the trees stand"
        assert cli_env.events(run_id)[-1]["text"] == "." * _TREES, name
    began = time.monotonic()
    if ending == "cancelled":
        assert cli_env.inspan("stop", run_id).returncode == 0
    elif ending == "supervisor killed":
        os.kill(cli_env.supervisor(run_id), signal.SIGKILL)
    wait_until(lambda: not find_processes(str(tmp_path)) and not processes_of(run_id), "empty house")
    print(f"{name}: gone after {time.monotonic() - began:.3f} s")  # For whoever runs it with -s; no bar.
    cli_env.inspan("wait", run_id)
    last = cli_env.events(run_id)[-1]
    assert (last["outcome"], last["reason"]) == expected, name
