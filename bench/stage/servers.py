"""Programs that serve while something is measured: started, waited for, and ended by their own process id."""

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from .place import Place

_START_S = 30.0
_END_S = 20.0


class Server(NamedTuple):
    """Where a program listens, and its process id."""

    port: int
    pid: int


@contextmanager
def serving(name: str, *arguments: str, here: Place) -> Generator[Server]:
    """A program of `bench.sides` that prints its port and serves until its stdin closes.

    What it complains of on stderr fails the bench, once what was measured is over.
    """
    argv = [sys.executable, "-m", f"bench.sides.{name}", *arguments]
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            argv, env=here.env, cwd=here.path("work"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints
        )
        try:
            assert process.stdout
            ready = select.select([process.stdout], [], [], _START_S)[0]
            port = process.stdout.readline() if ready else b""
            if port:
                yield Server(int(port), process.pid)
        finally:
            _end(process)
        complaints.seek(0)
        said = complaints.read().decode(errors="replace")
    if said or not port:
        raise RuntimeError(f"{name} {'complained' if port else 'did not start'}: {said[:2000]}")


@contextmanager
def listening(argv: Sequence[str], *, port: int, env: Mapping[str, str], cwd: str, start_s: float) -> Generator[Server]:
    """A foreign program that was told its port; raises `RuntimeError` when it does not listen in time."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
        try:
            deadline = time.monotonic() + start_s
            while not _accepts(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    said.seek(0)
                    tail = said.read().decode(errors="replace")[-2000:]
                    raise RuntimeError(f"{argv[0]} does not listen after {start_s:g} s: {tail}")
                time.sleep(0.1)
            yield Server(port, process.pid)
        finally:
            _end(process)


def free_port() -> int:
    """A port that nobody had a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def memory_mb(pid: int) -> float:
    """What a process and all below it hold now, each page counted in every process that has it; 0 once it is gone."""
    try:
        with open(f"/proc/{pid}/status") as file:
            own = next((int(line.split()[1]) for line in file if line.startswith("VmRSS")), 0)
        return own * 1024 / 1e6 + sum(map(memory_mb, _children(pid)))
    except FileNotFoundError:
        return 0.0


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as file:
            found += map(int, file.read().split())
    return found


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _end(process: "subprocess.Popen[bytes]") -> None:
    """By closing its stdin where that is what it waits for, else by a signal; by force when neither helps."""
    if process.stdin:
        process.stdin.close()
    else:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout:
        process.stdout.close()
