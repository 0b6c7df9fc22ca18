"""When a provider that refused may be asked again, by the body of its answer, and whether for every model."""

import re
from collections.abc import Iterator, Mapping

from inspan.framing.retry_after import UNIFIED_STATUS, parse_span_s
from inspan.gateway.wires.wire import Json, get_text, list_objects

# As in "Please try again in 6.2s." and "Please retry in 34.07s.": where it stands, nothing else says it.
_RETRY_TEXT = re.compile(r"(?:try again|retry) in ((?:[\d.]+(?:ms|s|m|h|d))+)\b", re.IGNORECASE)
_UNIFIED_CLAIM = "anthropic-ratelimit-unified-representative-claim"
# The windows of a plan that count every model; others are named after the model that they are for.
_PLAN_WINDOWS = ("", "five_hour", "seven_day", "overage")
# A plan or a balance that is used up. Limits per minute or day are a model's own, unless they say otherwise.
_ACCOUNT_ERRORS = frozenset({"usage_limit_reached", "usage_not_included", "insufficient_quota"})


def find_reset_in_error(error: Json, *, now: float) -> float | None:
    """The moment that the body of an error names, in seconds since the epoch."""
    at, after_s = error.get("resets_at"), error.get("resets_in_seconds")
    if isinstance(at, int | float):
        return float(at)
    if isinstance(after_s, int | float):
        return now + after_s
    spans = map(parse_span_s, (*_retry_delays(error), *_RETRY_TEXT.findall(get_text(error, "message"))))
    return next((now + span_s for span_s in spans if span_s is not None), None)


def is_account_limit_in_headers(headers: Mapping[str, str]) -> bool:
    """Whether a refusal is said to be for every model of the account: the window of a plan is used up."""
    return headers.get(UNIFIED_STATUS, "") == "rejected" and headers.get(_UNIFIED_CLAIM, "").strip() in _PLAN_WINDOWS


def is_account_limit_in_error(error: Json) -> bool:
    """The same out of the body of an error."""
    return not _ACCOUNT_ERRORS.isdisjoint((get_text(error, "type"), get_text(error, "code")))


def _retry_delays(error: Json) -> Iterator[str]:
    """As Google's services say it: `{"@type": "…RetryInfo", "retryDelay": "34s"}` among the details."""
    return (get_text(detail, "retryDelay") for detail in list_objects(error.get("details")))
