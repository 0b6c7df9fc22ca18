"""The shape of a figure: what inspan needs, what the other one needs, and the bar that was set for it."""

from typing import Any

Row = dict[str, Any]


def at_most(name: str, ours: float, peer: float, *, bar: float | None, unit: str, note: str) -> Row:
    """A figure whose ratio to the peer must not pass the bar."""
    ratio = ours / peer
    return _row(name, ours, peer, ratio, bar, unit, note, met=None if bar is None else ratio <= bar)


def at_most_alone(name: str, ours: float, *, bar: float | None, unit: str, note: str) -> Row:
    """A figure that must not pass the bar by itself."""
    return _row(name, ours, None, None, bar, unit, note, met=None if bar is None else ours <= bar)


def _row(
    name: str,
    ours: float,
    peer: float | None,
    ratio: float | None,
    bar: float | None,
    unit: str,
    note: str,
    *,
    met: bool | None,
) -> Row:
    return {
        "name": name,
        "ours": round(ours, 3),
        "peer": None if peer is None else round(peer, 3),
        "ratio": None if ratio is None else round(ratio, 3),
        "bar": bar,
        "met": met,
        "unit": unit,
        "note": note,
    }
