"""Listing ten thousand ended runs, against importing what it takes to read them."""

import os
import sys

from bench.stage.place import inspan, place
from bench.stage.processes import costs, least_cpu_s
from bench.stage.rows import Row, at_most
from inspan.protocol.ids import make_short_name
from inspan.protocol.usage import Usage
from inspan.runs.projects import project_of
from inspan.stores import index

_STARTED_AT = 1_790_000_000.0


def measure(*, quick: bool = False) -> list[Row]:
    """CPU of `inspan ps` and `inspan ps -a`; the index is filled by the function that fills it in real life."""
    rounds, runs = (3, 10_000) if quick else (10, 10_000)
    with place() as here:
        work = os.path.realpath(here.path("work"))
        index.put(here.state, [make_entry(number, cwd=work) for number in range(runs)])
        commands = {
            "imports": [sys.executable, "-c", "import sqlite3, msgspec"],
            "living": inspan("ps"),
            "all": inspan("ps", "-a"),
            "every project": inspan("ps", "-a", "--all"),
        }
        measured = costs(commands, env=here.env, cwd=here.path("work"), rounds=rounds)
    spent = {name: least_cpu_s(each) * 1e3 for name, each in measured.items()}
    note = f"{runs} ended runs, least CPU of {rounds} rounds, peer: import sqlite3, msgspec"
    return [
        at_most("ps_10k_vs_imports", spent["all"], spent["imports"], bar=2.5, unit="ms CPU", note=f"ps -a; {note}"),
        at_most(
            "ps_10k_every_project_vs_imports",
            spent["every project"],
            spent["imports"],
            bar=2.5,
            unit="ms CPU",
            note=f"ps -a --all; {note}",
        ),
        at_most(
            "ps_10k_living_vs_imports", spent["living"], spent["imports"], bar=3, unit="ms CPU", note=f"ps; {note}"
        ),
    ]


def make_entry(number: int, *, cwd: str) -> index.Entry:
    """An ended run, as a real one is entered."""
    run_id = f"20261115-{number // 1000:06d}{number % 1000:03d}-1234"
    row = index.Row(
        run_id=run_id,
        project=project_of(cwd),
        task="default",
        agent="claude",
        started_at=_STARTED_AT + number,
        duration_s=12.5 + number % 90,
        outcome="completed" if number % 9 else "failed",
        reason="done" if number % 9 else "network",
        prompt="Fix the failing test in the basket and say in one sentence what was wrong with it",
        tokens=12_000 + number,
        cost_usd=0.0123,
        session_id="db51c5be-d9b0-4e99-82fb-5c8fd3b71892",
        cwd=cwd,
        short=make_short_name(run_id),
    )
    usage = Usage(input=1_000, output=1_000 + number, cache_read=9_500, cache_write=500, reasoning=200)
    return index.Entry(row=row, model="claude-opus-5-5", usage=usage)
