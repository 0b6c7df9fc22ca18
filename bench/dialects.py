"""Reading what agents say: every dialect on its recordings, against a parser that makes nothing of the same lines."""

from typing import Any

from bench.stage.place import place
from bench.stage.processes import side
from bench.stage.rows import Row, at_most

_BAR = 3


def measure(*, quick: bool = False) -> list[Row]:
    """CPU per event, a piece of a text being one; lines that tell nothing are in the price of those that do."""
    rounds, round_ms = (2, 10) if quick else (15, 40)
    with place() as here:
        told = side("dialects", str(rounds), str(round_ms), env=here.env, cwd=here.path("work"))
    return [_row(name, figures) for name, figures in told.items()]


def _row(name: str, figures: dict[str, Any]) -> Row:
    events, lines, spent_s = figures["events"], figures["lines"], figures["ours_s"]
    note = (
        f"{events / spent_s:,.0f} events/s, {spent_s / lines * 1e6:.2f} us/line, "
        f"{figures['bytes'] / spent_s / 1e6:.0f} MB/s; {figures['runs']} recordings, {lines} lines of "
        f"{figures['bytes'] / lines:.0f} bytes, {events} events; peer: json.loads"
    )
    ours, peer = spent_s / events * 1e6, figures["peer_s"] / events * 1e6
    return at_most(f"dialect_{name}", ours, peer, bar=_BAR, unit="us CPU/event", note=note)
