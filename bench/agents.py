"""How long a user waits for an agent's first event with inspan around its program, against the program alone."""

import os
import subprocess
import sys
from statistics import median
from typing import NamedTuple

from bench.stage.place import Place, inspan, place
from bench.stage.processes import cost, side, until
from bench.stage.programs import installed
from bench.stage.rows import Row, at_most
from inspan.contracts.driver import Driver
from inspan.protocol.task import Mode

_BAR = 3
# Some agents ask for more than the answer, and how often is their affair.
_SCENARIO = 'asides = true\n[[call]]\nsay = "hello"\nrepeat = "always"\n'


class _Turn(NamedTuple):
    """Milliseconds until the first event."""

    ours: float
    bare: float
    asyncio: float


def measure(*, quick: bool = False) -> list[Row]:
    """Both by turns, in a session that is new each time; what inspan adds is the median of what the turns show."""
    rounds = 1 if quick else 7
    turns: dict[str, list[_Turn]] = {}
    with place() as here:
        drivers = installed(here)
        with open(here.path("agent", "scenario.toml"), "w", encoding="utf-8") as file:
            file.write(_SCENARIO)
        for driver in drivers:
            try:
                turns[driver.name] = _turns(here, driver, rounds)
            # One agent that fails here does not take the figures of the others along.
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"bench: {driver.name} IS LEFT OUT: {error}", file=sys.stderr)
    rows = [_row(driver, turns[driver.name]) for driver in drivers if driver.name in turns]
    return [*rows, *([_whole(turns)] if turns else [])]


def _turns(here: Place, driver: Driver, rounds: int) -> list[_Turn]:
    """The turn before the first warms up, and tells which event is an agent's first."""
    mode, scenario, work = _mode(driver), here.path("agent", "scenario.toml"), here.path("work")
    words = ("run", "Say hello.", "-a", driver.name, "--mode", mode, "--profile", "clean", "--json")
    argv = inspan(*words, "--model-from", f"script:{scenario}")

    def bare() -> dict[str, float | str]:
        return side("bare", driver.name, mode, scenario, env=here.env, cwd=work)

    first = f'"kind":"{bare()["kind"]}"'.encode()
    until(argv, first, env=here.env, cwd=work)
    turns: list[_Turn] = []
    for number in range(rounds):
        # Whoever is first in one turn is second in the next.
        before = None if number % 2 else until(argv, first, env=here.env, cwd=work)
        alone = float(bare()["first_ms"])
        ours = until(argv, first, env=here.env, cwd=work) if before is None else before
        peer = cost([sys.executable, "-c", "import asyncio"], env=here.env, cwd=work).wall_s * 1e3
        turns.append(_Turn(ours, alone, peer))
    return turns


def _mode(driver: Driver) -> Mode:
    """What a user would choose, unless only a box would let root have it: the program alone has none."""
    boxed = driver.capabilities.root_needs_sandbox and os.geteuid() == 0
    return "complete" if boxed else "exec"


def _row(driver: Driver, turns: list[_Turn]) -> Row:
    ours, bare = [turn.ours for turn in turns], [turn.bare for turn in turns]
    note = (
        f"adds {_added(turns):.0f} ms, least less least {min(ours) - min(bare):.0f} ms; {_mode(driver)}, "
        f"median wall of {len(turns)} in turn, peer: the program alone"
    )
    return at_most(f"first_event_{driver.name}", median(ours), median(bare), bar=None, unit="ms", note=note)


def _whole(turns: dict[str, list[_Turn]]) -> Row:
    added = {name: _added(each) for name, each in turns.items()}
    least, most = min(added, key=lambda name: added[name]), max(added, key=lambda name: added[name])
    note = (
        f"median of {len(added)} agents, from {added[least]:.0f} ms ({least}) to {added[most]:.0f} ms ({most}); "
        "peer: import asyncio"
    )
    peer = median(turn.asyncio for each in turns.values() for turn in each)
    return at_most("first_event_agents_vs_asyncio", median(added.values()), peer, bar=_BAR, unit="ms added", note=note)


def _added(turns: list[_Turn]) -> float:
    return median(turn.ours - turn.bare for turn in turns)
