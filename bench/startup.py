"""How long a user waits: for the help page, and for an agent's first event, from a shell and inside a program."""

import sys
from statistics import median

from bench.stage.agents import write_agent
from bench.stage.frames import write_stream
from bench.stage.place import Place, inspan, place
from bench.stage.processes import cost, costs, least_cpu_s, side, until
from bench.stage.rows import Row, at_most


def measure(*, quick: bool = False) -> list[Row]:
    """CPU for the help page, which is ours alone; wall time for first events, which several processes share."""
    rounds = 3 if quick else 15
    with place() as here:
        return [*_help(here, rounds), *_first_event(here, rounds)]


def _help(here: Place, rounds: int) -> list[Row]:
    commands = {
        "pass": [sys.executable, "-c", "pass"],
        "script": inspan("--help"),
        "module": [sys.executable, "-m", "inspan", "--help"],
    }
    spent = {
        name: least_cpu_s(each) * 1e3
        for name, each in costs(commands, env=here.env, cwd=here.path("work"), rounds=rounds).items()
    }
    note = f"least CPU of {rounds} rounds, peer: python -c pass"
    return [
        at_most("help_vs_python", spent["script"], spent["pass"], bar=5, unit="ms CPU", note=f"inspan --help; {note}"),
        at_most(
            "help_module_vs_python",
            spent["module"],
            spent["pass"],
            bar=5,
            unit="ms CPU",
            note=f"python -m inspan; {note}",
        ),
    ]


def _first_event(here: Place, rounds: int) -> list[Row]:
    write_stream(here.path("agent", "stream.jsonl"), lines=6)
    program = write_agent(here.path("agent"))
    here.env |= {"INSPAN_CLAUDE_BIN": program, "ANTHROPIC_API_KEY": "sk-ant-api03-0123456789abcdefghij"}
    work = here.path("work")
    figures: tuple[list[float], ...] = ([], [], [], [])
    for round_number in range(rounds + 1):
        walls = (
            cost([sys.executable, "-c", "import asyncio"], env=here.env, cwd=work).wall_s * 1e3,
            until([program, "-p"], b"system", env=here.env, cwd=work),
            until(inspan("run", "go", "--json"), b"thread_started", env=here.env, cwd=work),
            side("first_event", env=here.env, cwd=work)["first_ms"],
        )
        if round_number:
            for seen, wall in zip(figures, walls, strict=True):
                seen.append(wall)
    peer, alone, first, inside = map(median, figures)
    note = f"median wall of {rounds}, bare agent's {alone:.1f} ms taken off; peer: import asyncio"
    return [
        at_most("first_event_vs_asyncio", first - alone, peer, bar=2.3, unit="ms", note=f"inspan run --json; {note}"),
        at_most(
            "first_event_in_process_vs_asyncio",
            inside - alone,
            peer,
            bar=0.3,
            unit="ms",
            note=f"inspan.run, warm; {note}",
        ),
    ]
