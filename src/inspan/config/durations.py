"""Durations as people write them: 90, 90s, 10m, 1h, off. The one place that reads them, for files and for flags."""

import re

EXAMPLES = "90, 90s, 10m, 1h or off"
PATTERN = r"([0-9]+(?:\.[0-9]+)?)([smh]?)"
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "": 1.0}


def parse_duration(text: str) -> float | None:
    """Seconds, or `None` for off; raises `ValueError` for what is no duration."""
    if text == "off":
        return None
    match = re.fullmatch(PATTERN, text)
    length = float(match[1]) * _UNITS[match[2]] if match else float("inf")
    if length == float("inf"):
        raise ValueError(f"{text!r} is not a duration: use {EXAMPLES}.")
    return length


def format_duration(length: float | None) -> str:
    """The same as a person would write it; `parse_duration` reads it back."""
    if length is None:
        return "off"
    for unit in "hm":
        if length and length % _UNITS[unit] == 0:
            return f"{length / _UNITS[unit]:.0f}{unit}"
    return f"{length:.6f}".rstrip("0").rstrip(".") + "s"
