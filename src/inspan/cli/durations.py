"""Durations as people write them: 90, 90s, 10m, 1h, off."""

import re

import click

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


class Duration(click.ParamType[float | None]):
    """Seconds, or `None` for off."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        if value in ("off", None):
            return None
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", str(value))
        if not match:
            self.fail(f"{value!r} is no duration: use 90, 90s, 10m, 1h or off.", param, ctx)
        return float(match[1]) * _UNITS[match[2]]
