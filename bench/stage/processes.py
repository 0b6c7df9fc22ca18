"""Running a process to its end and reading what it cost; never a process that was not started here."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

_LONGEST_S = 240.0
_FIRST_S = 60.0


class Cost(NamedTuple):
    """CPU and wall seconds of one process."""

    cpu_s: float
    wall_s: float


def cost(argv: Sequence[str], *, env: Mapping[str, str], cwd: str) -> Cost:
    """Runs a command with its output thrown away; raises when it fails."""
    started = time.perf_counter()
    null = os.open(os.devnull, os.O_RDWR)
    try:
        actions = [(os.POSIX_SPAWN_DUP2, null, number) for number in (0, 1)]
        before = os.getcwd()
        os.chdir(cwd)
        try:
            pid = os.posix_spawn(argv[0], list(argv), dict(env), file_actions=actions)
        finally:
            os.chdir(before)
        _, status, usage = os.wait4(pid, 0)
    finally:
        os.close(null)
    wall_s = time.perf_counter() - started
    if status:
        raise RuntimeError(f"{argv} ended with {os.waitstatus_to_exitcode(status)}")
    return Cost(usage.ru_utime + usage.ru_stime, wall_s)


def costs(
    commands: Mapping[str, Sequence[str]], *, env: Mapping[str, str], cwd: str, rounds: int
) -> dict[str, list[Cost]]:
    """Runs each command once per round, one after the other; one round before them warms the caches."""
    measured: dict[str, list[Cost]] = {name: [] for name in commands}
    for round_number in range(rounds + 1):
        for name, argv in commands.items():
            spent = cost(argv, env=env, cwd=cwd)
            if round_number:
                measured[name].append(spent)
    return measured


def least_cpu_s(spent: Sequence[Cost]) -> float:
    return min(each.cpu_s for each in spent)


def side(name: str, *arguments: str, env: Mapping[str, str], cwd: str) -> dict[str, Any]:
    """Runs a program of `bench.sides` and reads the JSON that it prints last."""
    argv = [sys.executable, "-m", f"bench.sides.{name}", *arguments]
    done = subprocess.run(
        argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LONGEST_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{name} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def until(argv: Sequence[str], words: bytes, *, env: Mapping[str, str], cwd: str) -> float:
    """Milliseconds from the start of a command until these words stand in its output; it then runs to its end."""
    started = time.perf_counter()
    with subprocess.Popen(argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout
        fd, seen, found_ms = process.stdout.fileno(), b"", 0.0
        while select.select([fd], [], [], _FIRST_S)[0] and (chunk := os.read(fd, 65536)):
            seen += chunk
            if not found_ms and words in seen:
                found_ms = (time.perf_counter() - started) * 1e3
    if process.returncode or not found_ms:
        raise RuntimeError(f"{argv} ended with {process.returncode} and printed {seen[-500:]!r}")
    return found_ms
