"""What a loop and a node of a blueprint cost beyond their runs, what waiting loops and a thousand dead runs cost, and a
comparison."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from bench.stage.place import Place, inspan, place
from bench.stage.processes import cost, side
from bench.stage.rows import Row, at_most_alone
from inspan.protocol.events import AttemptStarted, CheckEnded, NodeStarted, RunStarted
from inspan.protocol.wire import encode, encode_record
from inspan.runs.projects import project_of
from inspan.stores.event_log import read_log
from inspan.stores.run_folder import claim_folder, mark_active, write_json
from inspan.stores.sessions import SessionRecord, write_session

_SAY = '[[call]]\nsay = "Done."\n'
_SOLVE = '[[call]]\nrun = "echo 1 > n"\n[[call]]\nsay = "Done."\n'
_LIMIT = '[[call]]\nfail = {status = 429, headers = {retry-after = "36000"}}\nrepeat = "always"\n'
_AGENTS = ("claude", "codex", "scripted")
_LONGEST_S = 900.0


def measure(*, quick: bool = False) -> list[Row]:
    """The least of several rounds where something takes a moment; the machine's load stands in each note."""
    return [
        _measure_restarts(restarts=5 if quick else 20, rounds=1 if quick else 3),
        *_measure_nodes(nodes=5 if quick else 20, rounds=1 if quick else 3),
        *_measure_waiting(loops=10 if quick else 200, seconds=3.0 if quick else 20.0),
        *_measure_dead(runs=50 if quick else 1000, rounds=1 if quick else 3),
        *_measure_comparison(tasks=1 if quick else 10),
    ]


def _measure_restarts(*, restarts: int, rounds: int) -> Row:
    """From the start of an attempt to that of the next, without the check; against the same run, started in turn."""
    ours, bare = list[float](), list[float]()
    with place() as here:
        model = _write_script(here, _SAY)
        for _ in range(rounds):
            ours += _time_restarts(here, model, restarts)
            bare += side("bare_runs", str(restarts), "go", model, env=here.env, cwd=here.path("work"))["wall_s"]
    least, least_bare = min(ours) * 1e3, min(bare) * 1e3
    typical = (median(ours) - median(bare)) * 1e3
    note = f"restart {least:.0f}, bare run {least_bare:.0f}, least of {len(ours)}; medians differ by {typical:.0f}"
    return at_most_alone("loop_restart_overhead", least - least_bare, bar=30, unit="ms", note=f"{note}; {_load()}")


def _time_restarts(here: Place, model: str, restarts: int) -> list[float]:
    words = ("--check", "false", "--delay", "0s", "--no-progress", "0", "--max-restarts", str(restarts), "--fresh")
    loop = _inspan(here, "loop", "go", "-d", "-a", "scripted", *_CLEAN, "--model-from", model, *words).strip()
    _inspan(here, "wait", loop, codes=(0, 6))
    records = read_log(_find_log(here, loop))
    starts = [record.at for record in records if isinstance(record.event, AttemptStarted)]
    checks = [record.event.duration_s for record in records if isinstance(record.event, CheckEnded)]
    return [after - before - check for before, after, check in zip(starts, starts[1:], checks, strict=False)]


def _measure_nodes(*, nodes: int, rounds: int) -> list[Row]:
    """One after the other, from the start of a node to that of the next: commands, and agents against the same run."""
    commands, agents, bare = list[float](), list[float](), list[float]()
    with place() as here:
        model = _write_script(here, _SAY)
        for _ in range(rounds):
            commands += _time_nodes(here, model, 'kind = "command"\nrun = "true"\n', nodes)
            agents += _time_nodes(here, model, 'kind = "agent"\nagent = "scripted"\nprompt = "go"\n', nodes)
            bare += side("bare_runs", str(nodes), "go", model, env=here.env, cwd=here.path("work"))["wall_s"]
    least, least_bare = min(agents) * 1e3, min(bare) * 1e3
    typical = (median(agents) - median(bare)) * 1e3
    note = f"node {least:.0f}, bare run {least_bare:.0f}, least of {len(agents)}; medians differ by {typical:.0f}"
    command_note = f"of the shell's `true`, with it; least of {len(commands)}, median {median(commands) * 1e3:.0f}"
    return [
        at_most_alone(
            "blueprint_agent_node_overhead", least - least_bare, bar=30, unit="ms", note=f"{note}; {_load()}"
        ),
        at_most_alone("blueprint_command_node", min(commands) * 1e3, bar=30, unit="ms", note=command_note),
    ]


def _time_nodes(here: Place, model: str, node: str, count: int) -> list[float]:
    path = Path(here.path("chain.toml"))
    after = ("", *(f'after = ["n{number}"]\n' for number in range(count - 1)))
    path.write_text("".join(f"[nodes.n{number}]\n{node}{after[number]}" for number in range(count)))
    words = ("blueprint", "run", str(path), "-d", *_CLEAN, "--model-from", model)
    blueprint = _inspan(here, *words).strip()
    _inspan(here, "wait", blueprint)
    records = read_log(_find_log(here, blueprint))
    starts = [record.at for record in records if isinstance(record.event, NodeStarted)]
    return [after - before for before, after in pairwise(starts)]


def _measure_waiting(*, loops: int, seconds: float) -> list[Row]:
    with place() as here, _waiting_loops(here, loops) as pids:
        before = sum(map(_read_cpu_ns, pids))
        time.sleep(seconds)
        share = (sum(map(_read_cpu_ns, pids)) - before) / 1e9 / seconds * 100
        each_mb = sum(map(_read_pss_mb, pids)) / len(pids)
    note = f"{loops} loops, all of them waiting for a limit and none with a run, over {seconds:g} s; {_load()}"
    memory = f"PSS of each of {loops} that wait"
    return [
        at_most_alone("loops_waiting_idle", share, bar=2, unit="% of a core", note=note),
        at_most_alone("loop_waiting_mb", each_mb, bar=None, unit="MB", note=memory),
    ]


@contextmanager
def _waiting_loops(here: Place, count: int) -> Generator[list[int]]:
    model = _write_script(here, _LIMIT)
    first = _inspan(here, "loop", "go", "-d", "-a", "scripted", *_CLEAN, "--model-from", model).strip()
    _wait_until(lambda: "wait_started" in Path(_find_log(here, first)).read_text(), "loop that waits")
    _inspan(here, "stop", first)
    pids: list[int] = side("idle_loops", str(count), first, env=here.env, cwd=here.path("work"))["pids"]
    try:
        sockets = Path(here.path("run", "inspan"))
        _wait_until(lambda: len(list(sockets.glob("*.sock"))) >= count, "all loops")
        time.sleep(3.0)
        yield pids
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        _wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), "end of the loops")


def _measure_dead(*, runs: int, rounds: int) -> list[Row]:
    """Found, declared lost and listed; and, of a few, gone on with."""
    wall, cpu, again = list[float](), list[float](), list[float]()
    for _ in range(rounds):
        with place() as here:
            _make_dead(here, runs)
            look = inspan("recover", "--dry-run", "--all")
            first, second = (cost(look, env=here.env, cwd=here.path("work")) for _ in range(2))
        wall.append(first.wall_s)
        cpu.append(first.cpu_s)
        again.append(second.wall_s)
    few = max(1, runs // 50)
    with place() as here:
        _make_dead(here, few)
        went_on = cost(inspan("recover", "--yes", "--all"), env=here.env, cwd=here.path("work"))
        _wait_until(lambda: not list(Path(here.state, "active").iterdir()), "end of what goes on")
    found = f"`recover --dry-run`: {runs} found and declared lost, none gone on with"
    note = f"{found}; CPU {min(cpu):.2f} s; least of {rounds}; {_load()}"
    bar = 3 if runs == 1000 else None
    return [
        at_most_alone("found_and_declared_1000_dead", min(wall), bar=bar, unit="s", note=note),
        at_most_alone("found_again_1000_dead", min(again), bar=bar, unit="s", note="the same, declared before"),
        at_most_alone(
            "resume_each_dead",
            went_on.wall_s / few * 1e3,
            bar=None,
            unit="ms",
            note=f"`recover --yes` goes on with {few}, one after the other; per run",
        ),
    ]


def _make_dead(here: Place, count: int) -> None:
    """Runs as they are left behind by supervisors that were killed right after the start."""
    work = os.path.realpath(here.path("work"))
    model, project = _write_script(here, _SAY), project_of(work)
    os.makedirs(here.state, mode=0o700, exist_ok=True)
    task = {"prompt": "go", "cwd": work, "agent": "scripted", "profile": "clean", "model_from": model}
    for _ in range(count):
        folder = claim_folder(os.path.join(here.state, "projects", project, "default", "runs"), pid=os.getpid())
        started = RunStarted(
            schema=1,
            run_id=folder.run_id,
            agent="scripted",
            mode="exec",
            project=project,
            task="default",
            cwd=work,
            profile="clean",
            sandbox="",
            containment="",
            model_from=model,
            inspan="0",
        )
        Path(folder.log).write_bytes(encode_record(1, time.time(), encode(started)))
        Path(folder.file("lock")).touch()
        mark_active(here.state, folder)
        session = SessionRecord(key=folder.run_id, agent="scripted", profile="clean", cwd=work, runs=(folder.run_id,))
        os.makedirs(os.path.join(here.state, "sessions", folder.run_id), mode=0o700)
        write_session(here.state, session)
        described = {"schema": 1, "run_id": folder.run_id, "created_at": time.time(), "agent": "scripted"}
        described |= {"project": project, "session": folder.run_id, "task": task}
        write_json(folder.file("run.json"), described, sync=False)


def _measure_comparison(*, tasks: int) -> list[Row]:
    with place() as here:
        _make_repository(here, tasks)
        model = f"script:{here.root}/{{agent}}.toml"
        for agent in _AGENTS:
            Path(here.root, f"{agent}.toml").write_text(_SOLVE)
        began = time.perf_counter()
        agents = ",".join(_AGENTS)
        said = _inspan(here, "compare", "--tasks", "../tasks", "-a", agents, *_CLEAN, "--model-from", model, "--json")
        wall_s = time.perf_counter() - began
        results: list[dict[str, Any]] = [json.loads(line) for line in said.splitlines()]
    passed = sum(each["passed"] for each in results)
    total_s = sum(each["wall_s"] for each in results)
    note = f"{len(results)} cells, {passed} passed, {os.cpu_count()} at a time; the loops took {total_s:.0f} s together"
    return [
        at_most_alone("compare_wall", wall_s, bar=None, unit="s", note=f"{note}; {_load()}"),
        at_most_alone("compare_wall_vs_sum", wall_s / total_s, bar=None, unit="of the sum", note=note),
    ]


def _make_repository(here: Place, tasks: int) -> None:
    work = here.path("work")
    Path(work, "n").write_text("0\n")
    os.mkdir(here.path("tasks"))
    for number in range(tasks):
        text = 'prompt = "set n to 1"\ncheck = \'test "$(cat n)" = 1\'\n'
        Path(here.path("tasks"), f"task-{number}.toml").write_text(text)
    identity = ("-c", "user.name=Bench", "-c", "user.email=bench@example.com")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "First commit")):
        subprocess.run(["git", *identity, *words], cwd=work, env=here.env, check=True)


_CLEAN: Sequence[str] = ("--profile", "clean")


def _write_script(here: Place, text: str) -> str:
    path = here.path("scenario.toml")
    Path(path).write_text(text)
    return f"script:{path}"


def _inspan(here: Place, *words: str, codes: Sequence[int] = (0, 143)) -> str:
    done = subprocess.run(
        inspan(*words),
        env=here.env,
        cwd=here.path("work"),
        capture_output=True,
        text=True,
        timeout=_LONGEST_S,
        check=False,
    )
    if done.returncode not in codes:
        raise RuntimeError(f"inspan {words} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def _find_log(here: Place, run: str) -> str:
    (found,) = Path(here.state).glob(f"projects/*/*/runs/{run}/events.jsonl")
    return str(found)


def _read_cpu_ns(pid: int) -> int:
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads)


def _read_pss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1000


def _wait_until(look: Any, what: str) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while not look():
        if time.monotonic() > deadline:
            raise RuntimeError(f"no {what} within {_LONGEST_S:g} s")
        time.sleep(0.1)


def _load() -> str:
    return f"load {os.getloadavg()[0]:.1f}"
