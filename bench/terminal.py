"""What a living console costs: bytes on the terminal and CPU of a follower, with the status line on against off."""

import os
import pty
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from fcntl import ioctl

from bench.following import make_folder, make_started
from bench.stage.place import Place, inspan, place
from bench.stage.rows import Row, at_most
from inspan.protocol.events import (
    CommandExecuted,
    Event,
    RunEnded,
    TextDelta,
    TextSaid,
    ThreadStarted,
    ToolCompleted,
    ToolStarted,
    TurnStarted,
)
from inspan.protocol.wire import encode
from inspan.stores.event_log import RunLog
from inspan.stores.run_folder import lock_run

_EVENTS_A_SECOND = 500
# Both are the same command on the same terminal; a dumb one gets lines and nothing that moves.
_LIVE, _DUMB = "xterm-256color", "dumb"


def measure(*, quick: bool = False) -> list[Row]:
    """A run of many events at an even pace, followed on a pty: text in pieces, and a tool with every tenth of them."""
    count, rounds = (2_000, 1) if quick else (10_000, 3)
    results: dict[str, list[tuple[float, int]]] = {_LIVE: [], _DUMB: []}
    with place() as here:
        for _ in range(rounds):
            for terminal, told in results.items():
                told.append(_follow(here, terminal, events=count))
    live, dumb = (min(told) for told in results.values())
    pace = f"{count} events, {_EVENTS_A_SECOND} a second, `logs -f` on a terminal of 80 columns"
    return [
        at_most("terminal_cpu_s", live[0], dumb[0], bar=None, unit="s CPU", note=f"{pace}; peer: TERM=dumb"),
        at_most("terminal_kb", live[1] / 1e3, dumb[1] / 1e3, bar=None, unit="kB", note=f"{pace}; peer: TERM=dumb"),
    ]


def _follow(here: Place, terminal: str, *, events: int) -> tuple[float, int]:
    """CPU seconds of the follower, and the bytes that it wrote."""
    folder = make_folder(here)
    lock, log = lock_run(folder), RunLog(folder.log)
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    env = {name: value for name, value in here.env.items() if name not in ("CI", "NO_COLOR")} | {"TERM": terminal}
    argv = inspan("logs", "-f", folder.run_id)
    process = subprocess.Popen(argv, env=env, cwd=here.path("work"), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    written: list[int] = []
    reader = threading.Thread(target=_count_bytes, args=(ours, written))
    reader.start()
    for number, event in enumerate(
        [make_started(folder), *_make_events(events), RunEnded(outcome="completed", reason="done")]
    ):
        log.append(encode(event))
        if number % 10 == 0:
            log.flush()
            time.sleep(10 / _EVENTS_A_SECOND)
    log.flush()
    log.close()
    os.close(lock)
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    reader.join()
    os.close(ours)
    return used.ru_utime + used.ru_stime, sum(written)


def _make_events(count: int) -> Iterator[Event]:
    yield ThreadStarted(session_id="s")
    yield TurnStarted()
    for number in range(count // 10):
        yield from (TextDelta(block=str(number), text=f"some **words** of it {each} ") for each in range(6))
        yield TextSaid(text="some words")
        yield ToolStarted(id=str(number), name="bash", input={"command": f"pytest -q tests/test_{number}.py"})
        yield ToolCompleted(id=str(number), name="bash", output="....\n4 passed in 0.1s\n")
        yield CommandExecuted(id=str(number), command="pytest", exit_code=0)


def _count_bytes(fd: int, written: list[int]) -> None:
    try:
        while data := os.read(fd, 65536):
            written.append(len(data))
    except OSError:
        pass  # So ends a terminal whose last writer has left.
