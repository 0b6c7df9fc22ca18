"""What one supervisor costs while its agent works and while it waits."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

from bench.stage.agents import write_waiting_agent
from bench.stage.frames import write_stream
from bench.stage.place import Place, inspan, place, secrets
from bench.stage.rows import Row, at_most_alone

_LINES = 2000
_SECRETS = 50
_LONGEST_S = 30.0
_SCENARIO = '[[call]]\nsay = "hello"\nrepeat = "always"\n'

T = TypeVar("T")


def measure(*, quick: bool = False) -> list[Row]:
    """Memory after a model call and 2,000 lines; CPU over some seconds in which the agent says nothing."""
    idle_s = 2.0 if quick else 10.0
    with place() as here:
        write_stream(here.path("agent", "stream.jsonl"), lines=_LINES)
        here.env |= {"INSPAN_CLAUDE_BIN": write_waiting_agent(here.path("agent")), **secrets(_SECRETS)}
        with _supervisor(here) as pid:
            resident, shared_out, peak = _memory_mb(pid)
            busy_before = _cpu_ns(pid)
            time.sleep(idle_s)
            share = (_cpu_ns(pid) - busy_before) / 1e9 / idle_s * 100
    note = f"RSS; PSS {shared_out:.1f}, peak {peak:.1f}; gateway after a call, {_LINES} lines, {_SECRETS} secrets"
    idle_note = f"over {idle_s:g} s after that, the agent silent"
    return [
        at_most_alone("supervised_mb", resident, bar=32, unit="MB", note=note),
        at_most_alone("supervised_idle", share, bar=0.05, unit="% of a core", note=idle_note),
    ]


@contextmanager
def _supervisor(here: Place) -> Generator[int]:
    """The pid of a supervisor whose agent has said all it will say; the run is killed afterwards."""
    scenario = here.path("scenario.toml")
    with open(scenario, "w", encoding="utf-8") as file:
        file.write(_SCENARIO)
    run_id = _inspan(here, "run", "go", "-d", "--model-from", f"script:{scenario}").strip()
    folder = os.path.realpath(here.path("state", "inspan", "active", run_id))
    pid = 0
    try:
        pid = _soon(lambda: _holder(os.path.join(folder, "lock")), "a supervisor") or 0
        _soon(lambda: _has_all(os.path.join(folder, "events.jsonl")), "the last of the events")
        time.sleep(1.0)
        yield pid
    finally:
        _inspan(here, "kill", run_id)
        _soon(lambda: not (pid and os.path.exists(f"/proc/{pid}")), "an end of the supervisor")


def _inspan(here: Place, *arguments: str) -> str:
    done = subprocess.run(
        inspan(*arguments),
        env=here.env,
        cwd=here.path("work"),
        capture_output=True,
        text=True,
        timeout=_LONGEST_S,
        check=False,
    )
    if done.returncode not in (0, 128 + signal.SIGTERM):
        raise RuntimeError(f"inspan {arguments} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def _has_all(log: str) -> bool:
    """Every tool call of the stream has come back; the number of its last call tells that it is the end."""
    try:
        with open(log, "rb") as file:
            text = file.read()
    except FileNotFoundError:
        return False
    return b"model_call_ended" in text and text.count(b'"kind":"tool_completed"') >= (_LINES - 2) // 6 * 2


def _holder(lock: str) -> int | None:
    """The process that holds the lock open."""
    for name in os.listdir("/proc"):
        if name.isdigit() and lock in _open_files(name):
            return int(name)
    return None


def _open_files(pid: str) -> set[str]:
    found: set[str] = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    except OSError:
        pass
    return found


def _memory_mb(pid: int) -> tuple[float, float, float]:
    """RSS, PSS and the peak so far."""
    figures: dict[str, float] = {}
    for name in ("smaps_rollup", "status"):
        with open(f"/proc/{pid}/{name}") as file:
            for line in file:
                words = line.split()
                if len(words) == 3 and words[2] == "kB":
                    figures[words[0]] = int(words[1]) * 1024 / 1e6
    return figures["Rss:"], figures["Pss:"], figures["VmHWM:"]


def _cpu_ns(pid: int) -> int:
    """Nanoseconds that the process's threads have been on a CPU."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
            total += int(file.read().split()[0])
    if not total:
        raise RuntimeError("this kernel keeps no schedstat: idle time cannot be told from no count at all")
    return total


def _soon(look: Callable[[], T], what: str) -> T:
    deadline = time.monotonic() + _LONGEST_S
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise RuntimeError(f"no {what} within {_LONGEST_S:g} s")
