"""A recorded conversation played back to a real agent, against the same conversation from a scenario."""

import subprocess
import time
from statistics import median

from bench.stage.place import Place, inspan, place
from bench.stage.rows import Row, at_most
from bench.stage.servers import serving
from inspan.agents.program import find_bundled_file
from inspan.agents.registry import load_drivers

_KEY = "bench-0123456789"
_BAR = 1.3
_CALLS = 40
_LONGEST_S = 120.0


def measure(*, quick: bool = False) -> list[Row]:
    """Each agent's conversation is recorded once, then played both ways in turn; the row is that of the worse ratio."""
    agents, rounds = (("codex",), 1) if quick else (("codex", "claude"), 3)
    figures: dict[str, tuple[float, float]] = {}
    for agent in agents:
        with place() as here:
            figures[agent] = _replay_and_script(here, agent, rounds)
    worse = max(figures, key=lambda agent: figures[agent][0] / figures[agent][1])
    told = ", ".join(f"{agent} {ours:.2f} s against {peer:.2f} s" for agent, (ours, peer) in figures.items())
    note = f"inspan run, {_CALLS} calls of which {_CALLS - 1} use the shell; median wall of {rounds} in turn: {told}"
    return [at_most("replay_vs_script", *figures[worse], bar=_BAR, unit="s", note=note)]


def _replay_and_script(here: Place, agent: str, rounds: int) -> tuple[float, float]:
    """Median seconds of a replayed and of a scripted run."""
    wheels = [
        each for each in load_drivers() if each.program.install.program and each.program.install.source == "wheel"
    ]
    here.env |= {each.program_variable: find_bundled_file(each.program.install.program) for each in wheels}
    here.env["BENCH_KEY"] = _KEY
    scenario, cassette = here.path("agent", "scenario.toml"), here.path("agent", "cassette")
    with open(scenario, "w", encoding="utf-8") as file:
        file.write(_scenario())
    with serving("model", _KEY, scenario, here=here) as model:
        url = f"http://127.0.0.1:{model.port}"
        _run(here, agent, f"record:{cassette}", "--base-url", url, "--key-from", "env:BENCH_KEY")
    walls: dict[str, list[float]] = {"replay": [], "script": []}
    for _ in range(rounds):
        walls["replay"].append(_run(here, agent, f"replay:{cassette}"))
        walls["script"].append(_run(here, agent, f"script:{scenario}"))
    return median(walls["replay"]), median(walls["script"])


def _run(here: Place, agent: str, model: str, *more: str) -> float:
    """Seconds of one run from the command to its end; raises when it did not say what it should at its end."""
    argv = inspan("run", "Take the steps.", "-q", "-a", agent, "--profile", "clean", "--model-from", model, *more)
    started = time.perf_counter()
    done = subprocess.run(
        argv,
        env=here.env,
        cwd=here.path("work"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_LONGEST_S,
        check=False,
    )
    wall_s = time.perf_counter() - started
    if done.returncode or done.stdout.strip() != b"All steps are taken.":
        told = (done.stdout + done.stderr).decode(errors="replace")
        raise RuntimeError(f"{agent} with {model} ended with {done.returncode}: {told[-2000:]}")
    return wall_s


def _scenario() -> str:
    steps = [f'[[call]]\nsay = "Step {number}."\nrun = "echo step {number}"\n' for number in range(1, _CALLS)]
    return "\n".join([*steps, '[[call]]\nsay = "All steps are taken."\n'])
