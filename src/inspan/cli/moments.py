"""Moments in the past as people write them: 30m, 12h, 7d, 4w ago, or the beginning of a day, 2026-11-01."""

import re
import time
from datetime import UTC, datetime

import click

_UNITS_S = {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


class Moment(click.ParamType[float]):
    """Seconds since 1970. Days begin at midnight UTC, as in the ids of runs."""

    name = "moment"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = value if isinstance(value, float) else _parse_moment(str(value))
        if found is None:
            self.fail(f"{value!r} is not a moment: use 30m, 12h, 7d, 4w or a day such as 2026-11-01.", param, ctx)
        return found


def _parse_moment(text: str) -> float | None:
    ago = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", text)
    if ago:
        return time.time() - float(ago[1]) * _UNITS_S[ago[2]]
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        return None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None  # As in 2026-11-31.
