"""When a provider that refused may be asked again, out of the many ways in which they say it."""

import calendar
import math
import re
import time
from collections.abc import Callable, Mapping

from inspan.gateway.wire import Json

_LEAST_EPOCH_S = 1_000_000_000
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"([\d.]+)(ms|s|m|h|d)")
_DATE_FORMATS = ("%a, %d %b %Y %H:%M:%S GMT", "%Y-%m-%dT%H:%M:%SZ")


def reset_in_headers(headers: Mapping[str, str], *, now: float) -> float | None:
    """The moment, in seconds since the epoch, that the most exact of the known headers names."""
    told = (read(headers[name].strip(), now) for name, read in _READERS.items() if name in headers)
    return next((moment for moment in told if moment is not None), None)


def reset_in_error(error: Json, *, now: float) -> float | None:
    """The same out of the body of an error."""
    at, after_s = error.get("resets_at"), error.get("resets_in_seconds")
    if isinstance(at, int | float):
        return float(at)
    return now + after_s if isinstance(after_s, int | float) else None


def _moment_or_pause(text: str, now: float) -> float | None:
    """A number of seconds (from now, or since the epoch when it is that large), `6m0s`, or a date."""
    seconds = _number(text)
    if seconds is not None:
        return seconds if seconds > _LEAST_EPOCH_S else now + seconds
    span_s = _span_s(text)
    return now + span_s if span_s is not None else _date(text)


def _pause_ms(text: str, now: float) -> float | None:
    milliseconds = _number(text)
    return None if milliseconds is None else now + milliseconds / 1000


_READERS: dict[str, Callable[[str, float], float | None]] = {
    "anthropic-ratelimit-unified-reset": _moment_or_pause,
    "retry-after-ms": _pause_ms,
    "retry-after": _moment_or_pause,
    "x-ratelimit-reset": _moment_or_pause,
    "x-ratelimit-reset-requests": _moment_or_pause,
    "x-ratelimit-reset-tokens": _moment_or_pause,
}


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _span_s(text: str) -> float | None:
    parts = _SPAN.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    numbers = [(_number(number), _UNIT_S[unit]) for number, unit in parts]
    return sum(number * unit_s for number, unit_s in numbers if number is not None)


def _date(text: str) -> float | None:
    for date_format in _DATE_FORMATS:
        try:
            return float(calendar.timegm(time.strptime(text, date_format)))
        except ValueError:
            continue
    return None
