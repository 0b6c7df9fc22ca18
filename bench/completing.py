"""One answer after the other through the Python API, against the vendors' SDKs on the same scripted model."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from bench.stage.place import Place, place
from bench.stage.processes import side
from bench.stage.rows import Row, at_most
from inspan.agents.program import find_bundled_file
from inspan.agents.registry import load_drivers

_TOKEN = "bench-0123456789"
_WALL_BAR = 1.05
_CPU_BAR = 0.6


def measure(*, quick: bool = False) -> list[Row]:
    """Rounds of ours and the SDK's, one after the other; the least wall and the least CPU of each are taken."""
    calls, rounds = (3, 1) if quick else (20, 3)
    with place() as here, serve_model(here) as port:
        url = f"http://127.0.0.1:{port}"
        programs = set_up_programs(here, url)
        overrides = codex_overrides(url)
        words = [word for each in overrides for word in ("-c", each)]
        claude = _against(here, calls, rounds, ("claude",), "complete_claude_sdk", (programs["claude"],))
        codex = _against(here, calls, rounds, ("codex", *words), "complete_codex_sdk", (programs["codex"], *overrides))
    note = (
        f"{calls} answers one after the other, each in a fresh session, direct as the SDK's; least of {rounds} rounds"
    )
    return [*_rows("complete_vs_sdk", claude, calls, note), *_rows("complete_vs_codex_sdk", codex, calls, note)]


def set_up_programs(here: Place, url: str) -> dict[str, str]:
    """The programs of both vendors, by agent; the place's environment leads them, and the SDKs, to the model."""
    wheels = [
        each for each in load_drivers() if each.program.install.program and each.program.install.source == "wheel"
    ]
    programs = {each.name: find_bundled_file(each.program.install.program) for each in wheels}
    here.env |= {f"INSPAN_{name.upper()}_BIN": path for name, path in programs.items()}
    here.env |= {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": _TOKEN,
        "CODEX_API_KEY": _TOKEN,
        "BENCH_KEY": _TOKEN,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CODEX_HOME": here.path("agent"),
        "CI": "",
    }
    return programs


def _against(
    here: Place, calls: int, rounds: int, ours: tuple[str, ...], peer: str, given: tuple[str, ...]
) -> dict[str, list[dict[str, Any]]]:
    spent: dict[str, list[dict[str, Any]]] = {"ours": [], "peer": []}
    for _ in range(rounds):
        spent["ours"].append(side("complete_ours", str(calls), *ours, env=here.env, cwd=here.path("work")))
        spent["peer"].append(side(peer, str(calls), *given, env=here.env, cwd=here.path("work")))
    return spent


def _rows(name: str, spent: dict[str, list[dict[str, Any]]], calls: int, note: str) -> list[Row]:
    def least(whose: str, figure: str) -> float:
        return min(each[figure] for each in spent[whose]) / calls * 1000

    wall, cpu = ((least("ours", figure), least("peer", figure)) for figure in ("wall_s", "cpu_s"))
    return [
        at_most(f"{name}_wall", *wall, bar=_WALL_BAR, unit="ms/answer", note=note),
        at_most(f"{name}_cpu", *cpu, bar=_CPU_BAR, unit="ms/answer", note=f"{note}; calling process alone"),
    ]


def codex_overrides(url: str) -> tuple[str, ...]:
    """What leads Codex to the model at an address."""
    provider = (
        f'{{name="bench",base_url="{url}/v1",env_key="BENCH_KEY",wire_api="responses",'
        "request_max_retries=0,stream_max_retries=0}"
    )
    return (
        "model_provider=bench",
        f"model_providers.bench={provider}",
        "analytics.enabled=false",
        "features.plugins=false",
        "check_for_update_on_startup=false",
    )


@contextmanager
def serve_model(here: Place) -> Generator[int]:
    """The port of a scripted model in a process of its own."""
    argv = [sys.executable, "-m", "bench.sides.model", _TOKEN]
    process = subprocess.Popen(
        argv, env=here.env, cwd=here.path("work"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        yield int(process.stdout.readline())
    finally:
        process.communicate(timeout=20)
