"""Sizes as people write them: 512m, 4g, off. The one place that reads them, for files and for flags."""

import re

EXAMPLES = "512m, 4g, 1.5g or off"
PATTERN = r"([0-9]+(?:\.[0-9]+)?)([kmgt]?)(?:i?b)?"
_UNITS = {"t": 1024**4, "g": 1024**3, "m": 1024**2, "k": 1024, "": 1}


def parse_size(text: str) -> int | None:
    """Bytes, or `None` for off; raises `ValueError` for what is no size."""
    if text == "off":
        return None
    match = re.fullmatch(PATTERN, text.lower())
    if match is None:
        raise ValueError(f"{text!r} is not a size: use {EXAMPLES}.")
    return round(float(match[1]) * _UNITS[match[2]])


def format_size(size_bytes: int | None) -> str:
    """The same as a person would write it; `parse_size` reads it back."""
    if size_bytes is None:
        return "off"
    unit = next(unit for unit, factor in _UNITS.items() if size_bytes % factor == 0 and (size_bytes or not unit))
    return f"{size_bytes // _UNITS[unit]}{unit}"
