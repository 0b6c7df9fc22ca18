"""What the server costs: a thousand followers of one run, beside sandbox-agent's, and the list of ten thousand."""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from statistics import median, quantiles
from typing import Any, NamedTuple

from bench.following import make_folder, make_started
from bench.listing import make_entry
from bench.sides.talk import make_text, pace
from bench.stage.litellm import CannotInstall
from bench.stage.place import Place, inspan, place
from bench.stage.rows import Row, at_most, at_most_alone
from bench.stage.sandbox_agent import PATH, VERSION, install, sandbox_agent, say
from bench.stage.servers import memory_mb
from inspan.protocol.events import TextSaid
from inspan.protocol.wire import encode
from inspan.stores import index
from inspan.stores.event_log import RunLog
from inspan.stores.run_folder import lock_run
from inspan.system import file_locks

_EVENTS_PER_S = 500
_WAIT_S = 60.0


class Serving(NamedTuple):
    """A server that runs."""

    port: int
    token: str
    pid: int


def measure(*, quick: bool = False) -> list[Row]:
    """Each in a place and with a server of its own."""
    return [*_measure_followers(quick=quick), *_measure_list(quick=quick)]


class Heard(NamedTuple):
    """How late the sampled events came, what the server spent and what it held for each follower."""

    late_ms: list[float]
    expected: int
    cores: float
    idle_kb: float
    busy_kb: float

    @property
    def p95_ms(self) -> float:
        return quantiles(self.late_ms, n=20)[-1]

    def describe(self) -> str:
        came = f"{len(self.late_ms)} of {self.expected} sampled events came"
        return f"p50 {median(self.late_ms):.0f} ms, {self.cores:.2f} cores, {came}"


def _measure_followers(*, quick: bool) -> list[Row]:
    followers, seconds = (200, 3.0) if quick else (1000, 10.0)
    ours, few = _follow_ours(followers, seconds), followers // 10
    note = f"{followers} followers of one run, {_EVENTS_PER_S} events/s for {seconds:g} s"
    memory_note = f"{followers} followers, under load; idle {ours.idle_kb:.1f} kB"
    return [
        at_most_alone("serve_follow_p95_ms", ours.p95_ms, bar=150, unit="ms p95", note=f"{note}; {ours.describe()}"),
        at_most_alone("serve_follower_kb", ours.busy_kb, bar=60, unit="kB", note=memory_note),
        *_measure_peer(ours, followers, seconds),
        *_measure_peer(_follow_ours(few, seconds), few, seconds, suffix="_few"),
    ]


def _measure_peer(ours: Heard, followers: int, seconds: float, *, suffix: str = "") -> list[Row]:
    try:
        theirs = _follow_peer(install(), followers, seconds)
    except (CannotInstall, RuntimeError) as error:
        print(f"bench: sandbox-agent is left out: {error}", file=sys.stderr)
        return []
    note = f"{followers} followers; peer: sandbox-agent {VERSION}, {theirs.describe()}, {theirs.busy_kb:.0f} kB each"
    return [
        at_most(f"serve_follow{suffix}_vs_sandbox_agent", ours.p95_ms, theirs.p95_ms, bar=1, unit="ms p95", note=note),
        at_most(f"serve_cpu{suffix}_vs_sandbox_agent", ours.cores, theirs.cores, bar=1, unit="cores", note=note),
    ]


def _follow_ours(followers: int, seconds: float) -> Heard:
    with place() as here:
        folder = make_folder(here)
        lock = lock_run(folder)
        log = RunLog(folder.log)
        log.append(encode(make_started(folder)))
        log.flush()
        try:
            with serving(here) as server:
                path = f"/api/v1/runs/{folder.run_id}/stream"
                return _listen(here, server, path, followers, lambda: _write_events(log, seconds), seconds)
        finally:
            log.close()
            file_locks.release(lock)


def _follow_peer(program: str, followers: int, seconds: float) -> Heard:
    with place() as here, sandbox_agent(program, here=here) as peer:
        server = Serving(peer.port, "none", peer.pid)
        return _listen(
            here, server, PATH, followers, lambda: say(peer.port, seconds=seconds, per_s=_EVENTS_PER_S), seconds
        )


def _listen(here: Place, server: Serving, path: str, followers: int, talk: Callable[[], int], seconds: float) -> Heard:
    before_mb = memory_mb(server.pid)
    with _following(here, server, followers, path) as process:
        idle_mb, cpu_s = memory_mb(server.pid), _cpu_s(server.pid)
        written = talk()
        cores, busy_mb = (_cpu_s(server.pid) - cpu_s) / seconds, memory_mb(server.pid)
        time.sleep(1.0)
        heard = _stop(process)
    return Heard(
        late_ms=heard["late_ms"],
        expected=written * heard["sampled"],
        cores=cores,
        idle_kb=(idle_mb - before_mb) * 1e3 / followers,
        busy_kb=(busy_mb - before_mb) * 1e3 / followers,
    )


def _write_events(log: RunLog, seconds: float) -> int:
    written = 0
    for count in pace(seconds=seconds, per_s=_EVENTS_PER_S):
        for _ in range(count):
            log.append(encode(TextSaid(text=make_text())))
        log.flush()
        written += count
    return written


def _measure_list(*, quick: bool) -> list[Row]:
    rounds, runs = (5, 10_000) if quick else (30, 10_000)
    with place() as here:
        work = os.path.realpath(here.path("work"))
        index.put(here.state, [make_entry(number, cwd=work) for number in range(runs)])
        with serving(here) as server:
            first = [_ask_ms(server, "/api/v1/runs?limit=100") for _ in range(rounds)]
            found = [_ask_ms(server, "/api/v1/runs?limit=100&search=basket") for _ in range(rounds)]
            every = [_ask_ms(server, "/api/v1/runs?limit=10000") for _ in range(rounds)]
    note = f"{runs} ended runs, median of {rounds}; with a search {median(found):.0f} ms"
    return [
        at_most_alone("serve_list_10k_ms", median(first), bar=100, unit="ms", note=f"the first 100 of {note}"),
        at_most_alone("serve_list_10k_whole_ms", median(every), bar=None, unit="ms", note=f"all of {note}"),
    ]


@contextmanager
def serving(here: Place) -> Generator[Serving]:
    """`inspan serve` on a free port."""
    argv = inspan("serve", "--port", "0", "--json")
    with subprocess.Popen(argv, env=here.env, cwd=here.path("work"), stdout=subprocess.PIPE) as process:
        assert process.stdout
        told = json.loads(process.stdout.readline())
        try:
            yield Serving(told["port"], told["token"], process.pid)
        finally:
            process.terminate()


@contextmanager
def _following(here: Place, server: Serving, count: int, path: str) -> "Generator[subprocess.Popen[bytes]]":
    argv = [sys.executable, "-m", "bench.sides.followers", str(server.port), str(count), path, server.token]
    with subprocess.Popen(argv, env=here.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        try:
            process.stdout.readline()
            time.sleep(1.0)
            yield process
        finally:
            process.kill()


def _stop(process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    assert process.stdin and process.stdout
    watchdog = threading.Timer(_WAIT_S, process.kill)
    watchdog.start()
    try:
        process.stdin.close()
        return json.loads(process.stdout.read())
    finally:
        watchdog.cancel()


def _ask_ms(server: Serving, path: str) -> float:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=_WAIT_S)
    began = time.perf_counter()
    connection.request("GET", path, headers={"Authorization": f"Bearer {server.token}"})
    answer = connection.getresponse()
    body = answer.read()
    elapsed_ms = (time.perf_counter() - began) * 1e3
    connection.close()
    if answer.status != 200:
        raise RuntimeError(body.decode())
    return elapsed_ms


def _cpu_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
