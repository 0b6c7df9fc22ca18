"""When a provider that refused a call may be asked again, by the headers of its answer and by words for a time span."""

import math
import re
from collections.abc import Callable, Iterator, Mapping

_LEAST_EPOCH_S = 1_000_000_000
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"([\d.]+)(ms|s|m|h|d)")
_HTTP_DATE = "%a, %d %b %Y %H:%M:%S GMT"
# The windows that providers count apart: the names of what is left in one, and of when it is filled up again.
_WINDOWS = (
    *(
        (f"anthropic-ratelimit-{what}-remaining", f"anthropic-ratelimit-{what}-reset")
        for what in ("requests", "tokens", "input-tokens", "output-tokens")
    ),
    *((f"x-ratelimit-remaining-{what}", f"x-ratelimit-reset-{what}") for what in ("requests", "tokens")),
)
UNIFIED_STATUS = "anthropic-ratelimit-unified-status"
_UNIFIED_RESET = "anthropic-ratelimit-unified-reset"


def find_reset_in_headers(headers: Mapping[str, str], *, now: float) -> float | None:
    """The moment, in seconds since the epoch, that the most exact of the known headers names."""
    moments = (parse(headers[name].strip(), now) for name, parse in _PARSERS.items() if _applies(name, headers))
    return next((moment for moment in moments if moment is not None), None) or _window_reset(headers, now)


def parse_span_s(text: str) -> float | None:
    """`6m0s`, `34.07s` or `120ms` in seconds."""
    parts = _SPAN.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    numbers = [(_parse_number(number), _UNIT_S[unit]) for number, unit in parts]
    return sum(number * unit_s for number, unit_s in numbers if number is not None)


def _applies(name: str, headers: Mapping[str, str]) -> bool:
    """A plan's window says when it ends in every answer; while it still allows calls, it is not what refused one."""
    allowed = name == _UNIFIED_RESET and headers.get(UNIFIED_STATUS, "").startswith("allowed")
    return name in headers and not allowed


def _window_reset(headers: Mapping[str, str], now: float) -> float | None:
    """Of the windows with nothing left the one that is filled up last; without any such, the one that is first."""
    known = [(headers.get(left, ""), _parse_moment(headers[reset].strip(), now)) for left, reset in _windows(headers)]
    empty = [moment for left, moment in known if moment is not None and left.strip() == "0"]
    return max(empty, default=None) or min((moment for _, moment in known if moment is not None), default=None)


def _windows(headers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((left, reset) for left, reset in _WINDOWS if reset in headers)


def _parse_moment(text: str, now: float) -> float | None:
    """A number of seconds (from now, or since the epoch when it is that large), `6m0s`, or a date."""
    seconds = _parse_number(text)
    if seconds is not None:
        return seconds if seconds > _LEAST_EPOCH_S else now + seconds
    span_s = parse_span_s(text)
    return now + span_s if span_s is not None else _parse_date(text)


def _parse_milliseconds(text: str, now: float) -> float | None:
    milliseconds = _parse_number(text)
    return None if milliseconds is None else now + milliseconds / 1000


_PARSERS: dict[str, Callable[[str, float], float | None]] = {
    _UNIFIED_RESET: _parse_moment,
    "retry-after-ms": _parse_milliseconds,
    "retry-after": _parse_moment,
    "x-ratelimit-reset": _parse_moment,
}


def _parse_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _parse_date(text: str) -> float | None:
    import calendar  # Start-up time: few calls are refused, and fewer with a date.
    import time
    from datetime import datetime

    try:
        return float(calendar.timegm(time.strptime(text, _HTTP_DATE)))
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None
