"""`wait`, `stop`, `kill`, and signals to the command that started a run."""

import fcntl
import json
import os
import signal
import subprocess
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from inspan.protocol.limits import Ending
from tests.house import House, pids, processes_of, until

from .refusal import told
from .scenes import SAYS_HELLO, WAITS, last_event, let_go, waiting_run

# As long as an agent that does not react is asked before it is killed.
POLITE_S = Ending().interrupt_s + Ending().terminate_s
SLOW_LOADING = """
import pathlib, sys, time

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "inspan.cli.following":
            pathlib.Path("loading").touch()
            time.sleep(1.0)

sys.meta_path.insert(0, Slow())
"""
STOPPING = b"stopping; press Ctrl-C again to kill\n"


def test_wait_tells_how_a_run_ended_and_leaves_with_its_exit_code(house: House) -> None:
    run_id = waiting_run(house)
    waiting = house.start("wait", run_id)
    assert house.inspan("wait", run_id, "--timeout", "0.1").returncode == 124
    assert waiting.poll() is None
    let_go(house)
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out.decode(), err) == (0, f"{run_id} completed done\n", b"")


def test_wait_that_gives_up_says_so_and_lets_the_run_go_on(house: House) -> None:
    run_id = waiting_run(house)
    done = house.inspan("wait", run_id, "--timeout", "0.1s")
    assert (done.returncode, done.stdout) == (124, "")
    assert done.stderr == (f"inspan: Run {run_id} has not ended in time.\n  → It goes on: `inspan logs -f {run_id}`.\n")
    refusal = told(house.inspan("wait", run_id, "--timeout", "0.1s", "--json"))
    assert (refusal.exit_code, refusal.code) == (124, "timeout")
    let_go(house)
    assert house.inspan("wait", run_id, "--timeout", "1m").returncode == 0


def test_wait_gives_json(house: House) -> None:
    run_id = house.detach("scripted", SAYS_HELLO)
    told_of = json.loads(house.inspan("wait", run_id, "--json").stdout)
    assert told_of == {"schema": 1, "run_id": run_id, "ended": last_event(house, run_id)}


@pytest.mark.parametrize(("command", "reason"), [("stop", "stopped"), ("kill", "killed")])
def test_an_order_ends_a_run_and_everyone_who_follows_it_leaves_with_143(
    house: House, command: str, reason: str
) -> None:
    run_id = waiting_run(house)
    followers = [house.start(*words, run_id) for words in (("wait",), ("logs", "-f"), ("events", "-f"))]
    done = house.inspan(command, run_id)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{run_id} cancelled\n", "")
    assert last_event(house, run_id)["reason"] == reason
    assert [follower.wait(timeout=60) for follower in followers] == [143, 143, 143]
    assert processes_of(run_id) == []


@pytest.mark.parametrize("command", ["stop", "kill"])
def test_an_order_gives_json_and_takes_several_runs(house: House, command: str) -> None:
    ids = [waiting_run(house), waiting_run(house)]
    done = house.inspan(command, *ids, "--json")
    lines: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["run_id"] for line in lines] == ids
    assert {line["schema"] for line in lines} == {1}
    assert [line["ended"]["outcome"] for line in lines] == ["cancelled", "cancelled"]
    assert house.inspan("ps", "-q").stdout == ""


@pytest.mark.parametrize("command", ["stop", "kill"])
def test_a_run_that_had_ended_before_is_no_error(old_runs: House, command: str) -> None:
    failed, completed = old_runs.inspan("ps", "-aq").stdout.split()
    done = old_runs.inspan(command, completed, failed)
    assert (done.returncode, done.stdout) == (0, f"{completed} completed\n{failed} failed\n")


def test_a_run_that_is_still_starting_can_be_stopped(house: House) -> None:
    starting = house.start("run", "do it", "-d", "-a", "scripted", "--model-from", house.scenario(WAITS))
    supervisor = _newborn_supervisor(house)
    os.kill(supervisor, signal.SIGSTOP)
    try:
        run_id = starting.communicate(timeout=60)[0].decode().strip()
        stopping = house.start("stop", run_id)
        until(lambda: stopping.poll() is not None or _waits_patiently(stopping.pid), "order")
    finally:
        os.kill(supervisor, signal.SIGCONT)
    out, err = stopping.communicate(timeout=60)
    assert (stopping.returncode, out.decode(), err) == (0, f"{run_id} cancelled\n", b"")
    assert last_event(house, run_id)["reason"] == "stopped"


@pytest.mark.parametrize(
    ("number", "code", "reason"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "stopped")],
    ids=["SIGINT", "SIGTERM"],
)
def test_one_signal_stops_the_run_politely(house: House, number: int, code: int, reason: str) -> None:
    follower = _followed(house)
    follower.send_signal(number)
    out, err = follower.communicate(timeout=60)
    ended = last_event(house, house.folder().name)
    assert (follower.returncode, out) == (code, b"")
    assert (ended["outcome"], ended["reason"]) == ("cancelled", reason)
    assert STOPPING in err
    assert b"Traceback" not in err


def test_a_second_signal_kills_what_does_not_react(house: House) -> None:
    follower = _followed(house)
    run_id = house.folder().name
    os.kill(_agent(run_id), signal.SIGSTOP)
    follower.send_signal(signal.SIGINT)
    until(lambda: "ending_began" in house.kinds(run_id), "ending")
    follower.send_signal(signal.SIGINT)
    _, err = follower.communicate(timeout=60)
    assert follower.returncode == 130
    assert err.count(STOPPING) == 1
    began, ended = (_moment(house, run_id, kind) for kind in ("ending_began", "run_ended"))
    assert ended - began < POLITE_S
    assert processes_of(run_id) == []


def test_a_signal_in_the_first_moment_of_a_run_ends_it_too(house: House) -> None:
    """The supervisor is there already, and what follows it is still being loaded: made long here."""
    (house.root / "sitecustomize.py").write_text(SLOW_LOADING)
    model = house.scenario(WAITS)
    env = {"PYTHONPATH": str(house.root)}
    follower = house.start("run", "do it", "-a", "scripted", "--model-from", model, env=env)
    until(lambda: (house.work / "loading").exists(), "loading")
    follower.send_signal(signal.SIGINT)
    _, err = follower.communicate(timeout=60)
    run_id = house.folder().name
    assert (follower.returncode, house.inspan("wait", run_id).stdout) == (130, f"{run_id} cancelled interrupted\n")
    assert STOPPING in err


def test_a_signal_is_heard_while_nobody_reads_the_progress(house: House) -> None:
    big = "[[call]]\nrun = 'head -c 45000 /dev/zero | tr \"\\\\0\" x'\nrepeat = 4\n"
    follower = house.start("run", "do it", "-a", "scripted", "--model-from", house.scenario(big + WAITS))
    assert follower.stderr
    pipe = follower.stderr.fileno()
    until(lambda: (house.work / "started").exists(), "tool")
    until(lambda: _waiting_bytes(pipe) and _waits_patiently(follower.pid), "full pipe")
    follower.send_signal(signal.SIGINT)
    run_id = house.folder().name
    until(lambda: last_event(house, run_id)["kind"] == "run_ended", "end")
    _, err = follower.communicate(timeout=60)
    assert follower.returncode == 130
    assert STOPPING in err
    assert b"broke" not in err


def test_a_command_that_is_killed_leaves_its_run_alone(house: House) -> None:
    follower = _followed(house)
    follower.kill()
    follower.communicate(timeout=60)
    let_go(house)
    assert house.inspan("wait", "@last").returncode == 0


@pytest.mark.parametrize("command", [("logs", "-f"), ("events", "-f"), ("wait",)], ids=lambda words: words[0])
def test_an_interrupted_onlooker_leaves_the_run_alone_and_says_nothing(house: House, command: tuple[str, ...]) -> None:
    run_id = waiting_run(house)
    onlooker = house.start(*command, run_id)
    until(lambda: _looks_on(onlooker.pid), "onlooker")
    onlooker.send_signal(signal.SIGINT)
    _, err = onlooker.communicate(timeout=60)
    assert (onlooker.returncode, err.strip()) == (130, b"")
    let_go(house)
    assert house.inspan("wait", run_id).returncode == 0


def _followed(house: House) -> subprocess.Popen[bytes]:
    """A run in the foreground whose tool waits."""
    follower = house.start("run", "do it", "-a", "scripted", "--model-from", house.scenario(WAITS))
    until(lambda: (house.work / "started").exists(), "tool")
    # Who follows has taken over the signals once it has shown the tool.
    assert follower.stderr
    seen = b""
    while b"touch started" not in seen:
        seen += os.read(follower.stderr.fileno(), 4096)
    return follower


def _agent(run_id: str) -> int:
    """The pid of the built-in agent itself: the last in line, those before it hold it."""
    return max(pid for pid in processes_of(run_id) if b"scripted_agent.py" in _command_line(pid))


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _newborn_supervisor(house: House) -> int:
    """The pid of the only run's supervisor as soon as there is one, long before it can be spoken to."""
    return until(lambda: [pid for pid in pids() if _writes(pid, house.state, "supervisor.log")], "supervisor")[0]


def _writes(pid: int, folder: Path, name: str) -> bool:
    try:
        output = Path(os.readlink(f"/proc/{pid}/fd/1"))
    except OSError:
        return False
    return output.name == name and output.is_relative_to(folder)


def _waits_patiently(pid: int) -> bool:
    """Whether a process does nothing but wait, however often one looks."""
    return all(_waits(pid) for _ in range(10))


def _waits(pid: int) -> bool:
    time.sleep(0.02)
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "S"


def _looks_on(pid: int) -> bool:
    """Whether a process watches a folder."""
    try:
        return any("inotify" in os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def _moment(house: House, run_id: str, kind: str) -> float:
    lines = (house.folder(run_id) / "events.jsonl").read_bytes().splitlines()
    return next(line["t"] for line in map(json.loads, lines) if line["event"]["kind"] == kind)


def _waiting_bytes(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), "little")
