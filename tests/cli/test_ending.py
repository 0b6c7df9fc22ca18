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

from inspan.protocol.ids import make_short_name
from inspan.protocol.limits import ShutdownTimeouts
from tests.cli_env import CliEnv, list_pids, processes_of, read_parent, wait_until

from .refusal import parse_refusal
from .scenarios import SAYS_HELLO, WAITS, last_event, release_tool, start_waiting_run

# As long as an agent that does not react is asked before it is killed.
POLITE_S = ShutdownTimeouts().interrupt_s + ShutdownTimeouts().terminate_s
SLOW_LOADING = """
import pathlib, sys, time

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "inspan.cli.follow":
            pathlib.Path("loading").touch()
            while not pathlib.Path("signalled").exists():
                time.sleep(0.01)

sys.meta_path.insert(0, Slow())
"""
TELLS_OF_ASKING = """
import pathlib, sys
sys.addaudithook(lambda event, arguments: event == "socket.connect" and pathlib.Path("asked").touch())
"""
STOPPING = b"stopping; press Ctrl-C again to kill\n"


def test_wait_tells_how_a_run_ended_and_leaves_with_its_exit_code(cli_env: CliEnv) -> None:
    run_id = start_waiting_run(cli_env)
    waiting = cli_env.start("wait", run_id)
    assert cli_env.inspan("wait", run_id, "--timeout", "0.1").returncode == 124
    assert waiting.poll() is None
    release_tool(cli_env)
    out, err = waiting.communicate(timeout=120)
    assert (waiting.returncode, out.decode(), err) == (0, f"{run_id} completed done\n", b"")


def test_wait_that_gives_up_says_so_and_lets_the_run_go_on(cli_env: CliEnv) -> None:
    run_id = start_waiting_run(cli_env)
    done = cli_env.inspan("wait", run_id, "--timeout", "0.1s")
    assert (done.returncode, done.stdout) == (124, "")
    assert done.stderr == (
        f"inspan: Run {run_id} has not ended in time.\n"
        f"  → It is still running: `inspan logs -f {make_short_name(run_id)}`.\n"
    )
    refusal = parse_refusal(cli_env.inspan("wait", run_id, "--timeout", "0.1s", "--json"))
    assert (refusal.exit_code, refusal.code) == (124, "timeout")
    release_tool(cli_env)
    assert cli_env.inspan("wait", run_id, "--timeout", "1m").returncode == 0


def test_wait_gives_json(cli_env: CliEnv) -> None:
    run_id = cli_env.detach("scripted", SAYS_HELLO)
    told_of = json.loads(cli_env.inspan("wait", run_id, "--json").stdout)
    assert told_of == {"schema": 1, "run_id": run_id, "ended": last_event(cli_env, run_id)}


@pytest.mark.parametrize(("command", "reason"), [("stop", "stopped"), ("kill", "killed")])
def test_an_order_ends_a_run_and_everyone_who_follows_it_leaves_with_143(
    cli_env: CliEnv, command: str, reason: str
) -> None:
    run_id = start_waiting_run(cli_env)
    followers = [cli_env.start(*words, run_id) for words in (("wait",), ("logs", "-f"), ("events", "-f"))]
    done = cli_env.inspan(command, run_id)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{run_id} cancelled\n", "")
    assert last_event(cli_env, run_id)["reason"] == reason
    assert [follower.wait(timeout=120) for follower in followers] == [143, 143, 143]
    assert processes_of(run_id) == []


@pytest.mark.parametrize("command", ["stop", "kill"])
def test_an_order_gives_json_and_takes_several_runs(cli_env: CliEnv, command: str) -> None:
    ids = [start_waiting_run(cli_env), start_waiting_run(cli_env)]
    done = cli_env.inspan(command, *ids, "--json")
    lines: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["run_id"] for line in lines] == ids
    assert {line["schema"] for line in lines} == {1}
    assert [line["ended"]["outcome"] for line in lines] == ["cancelled", "cancelled"]
    assert cli_env.inspan("ps", "-q").stdout == ""


@pytest.mark.parametrize("command", ["stop", "kill"])
def test_a_run_that_had_ended_before_is_no_error(old_runs: CliEnv, command: str) -> None:
    failed, completed = old_runs.inspan("ps", "-aq").stdout.split()
    done = old_runs.inspan(command, completed, failed)
    assert (done.returncode, done.stdout) == (0, f"{completed} completed\n{failed} failed\n")


def test_a_run_that_is_still_starting_can_be_stopped(cli_env: CliEnv) -> None:
    starting = cli_env.start("run", "do it", "-d", "-a", "scripted", "--model-from", cli_env.scenario(WAITS))
    supervisor = _newborn_supervisor(cli_env)
    os.kill(supervisor, signal.SIGSTOP)
    try:
        run_id = starting.communicate(timeout=120)[0].decode().strip()
        (cli_env.root / "sitecustomize.py").write_text(TELLS_OF_ASKING)
        stopping = cli_env.start("stop", run_id, env={"PYTHONPATH": str(cli_env.root)})
        wait_until((cli_env.work / "asked").exists, "order")
    finally:
        os.kill(supervisor, signal.SIGCONT)
    out, err = stopping.communicate(timeout=120)
    assert (stopping.returncode, out.decode(), err) == (0, f"{run_id} cancelled\n", b"")
    assert last_event(cli_env, run_id)["reason"] == "stopped"


@pytest.mark.parametrize(
    ("number", "code", "reason"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "stopped")],
    ids=["SIGINT", "SIGTERM"],
)
def test_one_signal_stops_the_run_politely(cli_env: CliEnv, number: int, code: int, reason: str) -> None:
    follower = _start_followed(cli_env)
    follower.send_signal(number)
    out, err = follower.communicate(timeout=120)
    ended = last_event(cli_env, cli_env.folder().name)
    assert (follower.returncode, out) == (code, b"")
    assert (ended["outcome"], ended["reason"]) == ("cancelled", reason)
    assert STOPPING in err
    assert b"Traceback" not in err


def test_a_second_signal_kills_what_does_not_react(cli_env: CliEnv) -> None:
    follower = _start_followed(cli_env)
    run_id = cli_env.folder().name
    os.kill(_agent(run_id), signal.SIGSTOP)
    follower.send_signal(signal.SIGINT)
    wait_until(lambda: "ending_began" in cli_env.kinds(run_id), "ending")
    follower.send_signal(signal.SIGINT)
    _, err = follower.communicate(timeout=120)
    assert follower.returncode == 130
    assert err.count(STOPPING) == 1
    began, ended = (_moment(cli_env, run_id, kind) for kind in ("ending_began", "run_ended"))
    assert ended - began < POLITE_S
    assert processes_of(run_id) == []


def test_a_signal_in_the_first_moment_of_a_run_ends_it_too(cli_env: CliEnv) -> None:
    """The supervisor is there already, and what follows it is still being loaded: made long here."""
    (cli_env.root / "sitecustomize.py").write_text(SLOW_LOADING)
    model = cli_env.scenario(WAITS)
    env = {"PYTHONPATH": str(cli_env.root)}
    follower = cli_env.start("run", "do it", "-a", "scripted", "--model-from", model, env=env)
    wait_until(lambda: (cli_env.work / "loading").exists(), "loading")
    follower.send_signal(signal.SIGINT)
    (cli_env.work / "signalled").touch()
    _, err = follower.communicate(timeout=120)
    run_id = cli_env.folder().name
    assert (follower.returncode, cli_env.inspan("wait", run_id).stdout) == (130, f"{run_id} cancelled interrupted\n")
    assert STOPPING in err


@pytest.mark.parametrize("gap_s", [0, 0.001, 0.01, 0.1])
@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "stopped")], ids=["SIGINT", "SIGTERM"]
)
def test_a_hangup_close_behind_another_signal_does_not_keep_it_from_the_run(
    cli_env: CliEnv, number: int, reason: str, gap_s: float
) -> None:
    follower = _start_followed(cli_env)
    follower.send_signal(number)
    time.sleep(gap_s)  # Whichever of them is being handled when the other comes.
    follower.send_signal(signal.SIGHUP)
    follower.communicate(timeout=120)
    run_id = cli_env.folder().name
    assert cli_env.inspan("wait", run_id).stdout == f"{run_id} cancelled {reason}\n"


@pytest.mark.parametrize("ignored", [False, True], ids=["as usual", "ignored by the caller"])
def test_signals_that_came_together_before_they_could_be_heard_are_all_heard(cli_env: CliEnv, ignored: bool) -> None:
    (cli_env.root / "sitecustomize.py").write_text(SLOW_LOADING)
    if ignored:
        cli_env.prefix = ["nohup"]
    follower = cli_env.start(
        *("run", "do it", "-a", "scripted", "--model-from", cli_env.scenario(WAITS)),
        env={"PYTHONPATH": str(cli_env.root)},
    )
    wait_until(lambda: (cli_env.work / "loading").exists(), "loading")
    follower.send_signal(signal.SIGHUP)
    follower.send_signal(signal.SIGTERM)
    (cli_env.work / "signalled").touch()
    follower.communicate(timeout=120)
    run_id = cli_env.folder().name
    assert cli_env.inspan("wait", run_id).stdout == f"{run_id} cancelled stopped\n"
    assert follower.returncode == (143 if ignored else -signal.SIGHUP)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT], ids=["SIGHUP", "SIGQUIT"])
def test_a_hangup_alone_ends_the_command_and_leaves_its_run_alone(cli_env: CliEnv, number: signal.Signals) -> None:
    follower = _start_followed(cli_env)
    follower.send_signal(number)
    follower.communicate(timeout=120)
    assert follower.returncode == -number
    release_tool(cli_env)
    assert cli_env.inspan("wait", "@last").returncode == 0


def test_a_signal_is_heard_while_nobody_reads_the_progress(cli_env: CliEnv) -> None:
    big = "[[call]]\nrun = 'head -c 45000 /dev/zero | tr \"\\\\0\" x'\nrepeat = 4\n"
    follower = cli_env.start("run", "do it", "-a", "scripted", "--model-from", cli_env.scenario(big + WAITS))
    assert follower.stderr
    pipe = follower.stderr.fileno()
    wait_until(lambda: (cli_env.work / "started").exists(), "tool")
    wait_until(lambda: _waiting_bytes(pipe) and _is_only_waiting(follower.pid), "full pipe")
    follower.send_signal(signal.SIGINT)
    run_id = cli_env.folder().name
    wait_until(lambda: last_event(cli_env, run_id)["kind"] == "run_ended", "end")
    _, err = follower.communicate(timeout=120)
    assert follower.returncode == 130
    assert STOPPING in err
    assert b"broke" not in err


def test_a_command_that_is_killed_leaves_its_run_alone(cli_env: CliEnv) -> None:
    follower = _start_followed(cli_env)
    follower.kill()
    follower.communicate(timeout=120)
    release_tool(cli_env)
    assert cli_env.inspan("wait", "@last").returncode == 0


@pytest.mark.parametrize("command", [("logs", "-f"), ("events", "-f"), ("wait",)], ids=lambda words: words[0])
def test_an_interrupted_onlooker_leaves_the_run_alone_and_says_nothing(
    cli_env: CliEnv, command: tuple[str, ...]
) -> None:
    run_id = start_waiting_run(cli_env)
    onlooker = cli_env.start(*command, run_id)
    wait_until(lambda: _watches_folder(onlooker.pid), "onlooker")
    onlooker.send_signal(signal.SIGINT)
    _, err = onlooker.communicate(timeout=120)
    assert (onlooker.returncode, err.strip()) == (130, b"")
    release_tool(cli_env)
    assert cli_env.inspan("wait", run_id).returncode == 0


def _start_followed(cli_env: CliEnv) -> subprocess.Popen[bytes]:
    """A run in the foreground whose tool waits."""
    follower = cli_env.start("run", "do it", "-a", "scripted", "--model-from", cli_env.scenario(WAITS))
    wait_until(lambda: (cli_env.work / "started").exists(), "tool")
    # Who follows has taken over the signals once it has shown the tool.
    assert follower.stderr
    seen = b""
    while b"touch started" not in seen:
        seen += os.read(follower.stderr.fileno(), 4096)
    return follower


def _agent(run_id: str) -> int:
    """The pid of the built-in agent itself: the last in line, those before it hold it."""
    named = {pid for pid in processes_of(run_id) if b"scripted_agent.py" in _command_line(pid)}
    (agent,) = named - {read_parent(pid) for pid in named}
    return agent


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _newborn_supervisor(cli_env: CliEnv) -> int:
    """The pid of the only run's supervisor as soon as there is one, long before it can be spoken to."""
    return wait_until(
        lambda: [pid for pid in list_pids() if _writes(pid, cli_env.state, "supervisor.log")], "supervisor"
    )[0]


def _writes(pid: int, folder: Path, name: str) -> bool:
    try:
        output = Path(os.readlink(f"/proc/{pid}/fd/1"))
    except OSError:
        return False
    # Whoever starts it waits until it is the program that it will be: stopped before, it would stop them both.
    return output.name == name and output.is_relative_to(folder) and b"boot.py" in _command_line(pid)


def _is_only_waiting(pid: int) -> bool:
    """Whether a process does nothing but wait, however often one looks."""
    return all(_waits(pid) for _ in range(10))


def _waits(pid: int) -> bool:
    time.sleep(0.02)
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "S"


def _watches_folder(pid: int) -> bool:
    """Whether a process watches a folder."""
    try:
        return any("inotify" in os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def _moment(cli_env: CliEnv, run_id: str, kind: str) -> float:
    lines = (cli_env.folder(run_id) / "events.jsonl").read_bytes().splitlines()
    return next(line["t"] for line in map(json.loads, lines) if line["event"]["kind"] == kind)


def _waiting_bytes(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), "little")
