"""When a provider that refused may be asked again, out of the many ways in which they say it."""

import calendar
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from inspan.gateway.wires.wire import Json, objects, word

_LEAST_EPOCH_S = 1_000_000_000
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"([\d.]+)(ms|s|m|h|d)")
# As in "Please try again in 6.2s." and "Please retry in 34.07s.": where it stands, nothing else says it.
_SPOKEN = re.compile(r"(?:try again|retry) in ((?:[\d.]+(?:ms|s|m|h|d))+)\b", re.IGNORECASE)
_HTTP_DATE = "%a, %d %b %Y %H:%M:%S GMT"
# The windows that providers count apart: the names of what is left in one, and of when it is filled up again.
_WINDOWS = (
    *(
        (f"anthropic-ratelimit-{what}-remaining", f"anthropic-ratelimit-{what}-reset")
        for what in ("requests", "tokens", "input-tokens", "output-tokens")
    ),
    *((f"x-ratelimit-remaining-{what}", f"x-ratelimit-reset-{what}") for what in ("requests", "tokens")),
)
_UNIFIED = "anthropic-ratelimit-unified-reset"
_UNIFIED_STATUS = "anthropic-ratelimit-unified-status"


def reset_in_headers(headers: Mapping[str, str], *, now: float) -> float | None:
    """The moment, in seconds since the epoch, that the most exact of the known headers names."""
    told = (read(headers[name].strip(), now) for name, read in _READERS.items() if _counts(name, headers))
    return next((moment for moment in told if moment is not None), None) or _window_reset(headers, now)


def reset_in_error(error: Json, *, now: float) -> float | None:
    """The same out of the body of an error."""
    at, after_s = error.get("resets_at"), error.get("resets_in_seconds")
    if isinstance(at, int | float):
        return float(at)
    if isinstance(after_s, int | float):
        return now + after_s
    spans = map(_span_s, (*_retry_delays(error), *_SPOKEN.findall(word(error, "message"))))
    return next((now + span_s for span_s in spans if span_s is not None), None)


def _counts(name: str, headers: Mapping[str, str]) -> bool:
    """A plan's window says when it ends in every answer; while it still allows calls, it is not what refused one."""
    allowed = name == _UNIFIED and headers.get(_UNIFIED_STATUS, "").startswith("allowed")
    return name in headers and not allowed


def _window_reset(headers: Mapping[str, str], now: float) -> float | None:
    """Of the windows with nothing left the one that is filled up last; without any such, the one that is first."""
    known = [
        (headers.get(left, ""), _moment_or_pause(headers[reset].strip(), now)) for left, reset in _windows(headers)
    ]
    empty = [moment for left, moment in known if moment is not None and left.strip() == "0"]
    return max(empty, default=None) or min((moment for _, moment in known if moment is not None), default=None)


def _windows(headers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((left, reset) for left, reset in _WINDOWS if reset in headers)


def _retry_delays(error: Json) -> Iterator[str]:
    """As Google's services say it: `{"@type": "…RetryInfo", "retryDelay": "34s"}` among the details."""
    return (word(detail, "retryDelay") for detail in objects(error.get("details")))


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
    _UNIFIED: _moment_or_pause,
    "retry-after-ms": _pause_ms,
    "retry-after": _moment_or_pause,
    "x-ratelimit-reset": _moment_or_pause,
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
    try:
        return float(calendar.timegm(time.strptime(text, _HTTP_DATE)))
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None
