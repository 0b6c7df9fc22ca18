"""What a provider means by refusing a call: the kind of failure by its status and words, and when to come back."""

import re
from collections.abc import Mapping

from inspan.contracts.driver import failure, kind_of_status, kind_told
from inspan.protocol.outcome import FailureKind

# In the order of telling: a status is vague where words are not.
FAILURES = (
    failure("context_too_long", r"context[ _](length|window)|maximum context|too many tokens|prompt is too long"),
    failure("authentication", r"(incorrect|invalid|missing|no) api[ _-]?key|invalid_api_key|unauthori[sz]ed"),
    failure("model_not_found", r"model[^.]{0,80}(not found|not exist|not supported|invalid)|invalid[ _]model"),
    failure("rate_limit", r"rate[ _-]?limit|too many requests|quota"),
    failure("overloaded", r"overloaded|at capacity|high demand"),
    failure("refused", r"content[ _](filter|policy)|safety system"),
)
_TOO_LATE = (408, 504)
_LEAST_EPOCH_S = 1_000_000_000
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"([\d.]+)(ms|s|m|h|d)")
_RESETS = ("retry-after-ms", "retry-after", "x-ratelimit-reset", "x-ratelimit-reset-requests")
_HTTP_DATE = "%a, %d %b %Y %H:%M:%S GMT"


def kind_of(status: int, message: str) -> FailureKind:
    """The kind of a failed call; 200 is a call that failed on its way."""
    by_status = "network" if status in _TOO_LATE else kind_of_status(status)
    return by_status or kind_told(FAILURES, message) or "unknown"


def resets_at(headers: Mapping[str, str], *, at: float) -> float | None:
    """When a call that was refused at a moment may be tried again, in seconds since 1970, where a header says it."""
    told = (_moment(name, headers[name], at) for name in _RESETS if name in headers)
    return next((moment for moment in told if moment is not None), None)


def _moment(name: str, text: str, at: float) -> float | None:
    """A number of seconds (from then, or since 1970 when it is that large), `6m0s`, or a date."""
    parts = _SPAN.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return at + sum(float(number) * _UNIT_S[unit] for number, unit in parts)
    try:
        seconds = float(text) * (0.001 if name.endswith("-ms") else 1.0)
    except ValueError:
        return _date(text)
    return seconds if seconds > _LEAST_EPOCH_S else at + seconds


def _date(text: str) -> float | None:
    import calendar  # Start-up time: few calls are refused with a date.
    import time

    try:
        return float(calendar.timegm(time.strptime(text, _HTTP_DATE)))
    except ValueError:
        return None
