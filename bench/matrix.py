"""How long the whole matrix takes: every scenario on every agent's real program. Minutes: measured only by name."""

import json
import subprocess
import time
from collections import Counter
from typing import Any

from bench.stage.place import inspan, place
from bench.stage.programs import installed, programs
from bench.stage.rows import Row, at_most_alone
from inspan.agents.registry import load_drivers

_BAR_S = 900
_LONGEST_S = 3600.0
_FEW = ("-s", "answer", "-s", "shell")


def measure(*, quick: bool = False) -> list[Row]:
    """Wall time of `inspan matrix` on what is here; the bar is set for all of it."""
    with place() as here:
        found = [
            *(driver.name for driver in installed(here)),
            *(each.name for each in load_drivers() if each.program.hosted),
        ]
        words = [word for name in found for word in ("-a", name)] + list(_FEW if quick else ())
        started = time.monotonic()
        done = subprocess.run(
            inspan("matrix", "--json", *words),
            env=here.env,
            cwd=here.path("work"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=_LONGEST_S,
            check=False,
        )
        wall_s = time.monotonic() - started
    if not done.stdout:
        raise RuntimeError(f"inspan matrix ended with {done.returncode}, and what it said is above")
    missing = [each.name for each in programs() if each.name not in found]
    note = _note(json.loads(done.stdout)["cells"], missing)
    bar = None if quick or missing else _BAR_S
    return [at_most_alone("matrix_s", wall_s, bar=bar, unit="s", note=note)]


def _note(cells: list[dict[str, Any]], missing: list[str]) -> str:
    counted = Counter(cell["result"] for cell in cells)
    spent_s: Counter[str] = Counter()
    for cell in cells:
        spent_s[cell["agent"]] += cell["seconds"]
    slowest = max(cells, key=lambda cell: cell["seconds"])
    parts = [
        f"{len(cells)} cells: {counted['pass']} pass, {counted['fail']} fail, {counted['cannot']} cannot",
        f"most for {', '.join(f'{name} {seconds:.0f} s' for name, seconds in spent_s.most_common(3))}",
        f"longest {slowest['agent']} {slowest['scenario']} {slowest['seconds']:.0f} s",
        *([f"NOT INSTALLED: {', '.join(missing)}"] if missing else []),
    ]
    return "; ".join(parts)
