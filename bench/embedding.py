"""Reading agents inside a program: inspan, with redaction and a log, against the vendor's SDK, with neither."""

from statistics import median
from typing import Any

from bench.stage.agents import write_agent
from bench.stage.frames import write_stream
from bench.stage.place import Place, place, secrets
from bench.stage.processes import side
from bench.stage.rows import Row, at_most

_LINES = 2000
_SECRETS = 50
_SDK_BUFFER_BYTES = 1024 * 1024


def measure(*, quick: bool = False) -> list[Row]:
    """Rounds of SDK, inspan and inspan with hyperscan, one after the other; the least CPU of each is taken."""
    runs, rounds = (20, 1) if quick else (100, 3)
    with place() as here:
        average = write_stream(here.path("agent", "stream.jsonl"), lines=_LINES)
        program = write_agent(here.path("agent"))
        here.env |= {"INSPAN_CLAUDE_BIN": program, **secrets(_SECRETS)}
        _ours(here, 1, "auto")
        spent: dict[str, list[dict[str, Any]]] = {"sdk": [], "auto": [], "hyperscan": []}
        for _ in range(rounds):
            spent["sdk"].append(_sdk(here, program, runs))
            for engine in ("auto", "hyperscan"):
                spent[engine].append(_ours(here, runs, engine))
    note = f"{runs} runs at once x {_LINES} lines of {average:.0f} bytes, {_SECRETS} secrets, log on; {rounds} rounds"
    return [
        _cpu("cpu_per_event_vs_sdk", spent["auto"], spent["sdk"], lines=runs * _LINES, bar=0.45, note=note),
        _cpu("cpu_per_event_vs_sdk_fast", spent["hyperscan"], spent["sdk"], lines=runs * _LINES, bar=0.35, note=note),
        _memory("memory_vs_sdk", spent["auto"], spent["sdk"], note=note),
        _memory("memory_vs_sdk_fast", spent["hyperscan"], spent["sdk"], note=note),
    ]


def _ours(here: Place, runs: int, engine: str) -> dict[str, Any]:
    try:
        return side("ours", str(runs), str(runs), engine, env=here.env, cwd=here.path("work"))
    finally:
        here.empty_runs()


def _sdk(here: Place, program: str, runs: int) -> dict[str, Any]:
    arguments = (str(runs), str(runs), program, str(_SDK_BUFFER_BYTES))
    return side("sdk", *arguments, env=here.env, cwd=here.path("work"))


def _cpu(
    name: str, ours: list[dict[str, Any]], peer: list[dict[str, Any]], *, lines: int, bar: float, note: str
) -> Row:
    least = min(each["cpu_s"] for each in ours) / lines * 1e6
    least_peer = min(each["cpu_s"] for each in peer) / lines * 1e6
    return at_most(name, least, least_peer, bar=bar, unit="us/line", note=note)


def _memory(name: str, ours: list[dict[str, Any]], peer: list[dict[str, Any]], *, note: str) -> Row:
    bar = 0.3 if name == "memory_vs_sdk" else None
    typical, typical_peer = (median(each["peak_mb"] for each in side) for side in (ours, peer))
    return at_most(name, typical, typical_peer, bar=bar, unit="MB peak", note=note)
