"""How soon a follower sees an event: written by the owner of a log, printed by `inspan events -f`."""

import os
import random
import select
import subprocess
import time
from datetime import UTC, datetime
from statistics import median, quantiles

from bench.stage.place import Place, inspan, place
from bench.stage.rows import Row, at_most_alone
from inspan.protocol.events import RunEnded, RunStarted, TextSaid
from inspan.protocol.wire import SCHEMA, encode
from inspan.stores.event_log import RunLog
from inspan.stores.run_folder import RunFolder, claim_folder, lock_run, mark_active, write_json

_LONGEST_S = 30.0


def measure(*, quick: bool = False) -> list[Row]:
    """Events at irregular moments into a real log whose lock is held here; each is awaited on the follower's pipe."""
    events = 20 if quick else 200
    with place() as here:
        folder = make_folder(here)
        lock = lock_run(folder)
        log = RunLog(folder.log)
        try:
            waits_ms = _waits_ms(here, folder, log, events=events)
        finally:
            log.close()
            os.close(lock)
    high = quantiles(waits_ms, n=20)[-1]
    note = f"{events} events, 5-25 ms apart; p95 {high:.2f} ms, from append to the line on the pipe"
    return [at_most_alone("follow_ms", median(waits_ms), bar=5, unit="ms p50", note=note)]


def _waits_ms(here: Place, folder: RunFolder, log: RunLog, *, events: int) -> list[float]:
    chance = random.Random(3)
    _append(log, make_started(folder))
    argv = inspan("events", "-f", folder.run_id)
    with subprocess.Popen(argv, env=here.env, cwd=here.path("work"), stdout=subprocess.PIPE) as process:
        assert process.stdout
        fd = process.stdout.fileno()
        _arrived(fd)
        waits_ms: list[float] = []
        for number in range(events):
            time.sleep(chance.uniform(0.005, 0.025))
            written = time.perf_counter()
            _append(log, TextSaid(text=f"event {number} " + "and some words " * 20))
            waits_ms.append((_arrived(fd) - written) * 1e3)
        _append(log, RunEnded(outcome="completed", reason="done"))
        _arrived(fd)
        # The owner of a lock stays until its run is closed; the follower waits for it, so it is told to go.
        process.terminate()
    return waits_ms


def _arrived(fd: int) -> float:
    """Waits for the next whole line; gives the moment it came."""
    line = b""
    while not line.endswith(b"\n"):
        if not select.select([fd], [], [], _LONGEST_S)[0]:
            raise RuntimeError(f"no line within {_LONGEST_S:g} s")
        chunk = os.read(fd, 65536)
        if not chunk:
            raise RuntimeError("the follower has ended")
        line += chunk
    return time.perf_counter()


def _append(log: RunLog, event: RunStarted | TextSaid | RunEnded) -> None:
    log.append(encode(event))
    log.flush()


def make_folder(here: Place) -> RunFolder:
    """The folder of a run that is written by this process."""
    runs = os.path.join(here.state, "projects", "shop", "default", "runs")
    folder = claim_folder(runs, pid=os.getpid(), now=datetime.now(UTC))
    write_json(folder.file("run.json"), {"run_id": folder.run_id, "created_at": time.time(), "agent": "claude"})
    mark_active(here.state, folder)
    return folder


def make_started(folder: RunFolder) -> RunStarted:
    """The first event of such a run."""
    return RunStarted(
        schema=SCHEMA,
        run_id=folder.run_id,
        agent="claude",
        mode="exec",
        project="shop",
        task="default",
        cwd="/",
        profile="user",
        sandbox="none",
        containment="reaper",
        inspan="0",
    )
