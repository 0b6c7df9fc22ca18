"""When a provider may be asked again, in all the ways they say it."""

import pytest

from inspan.framing.retry_after import find_reset_in_headers
from inspan.gateway.resets import (
    find_reset_in_error,
    is_account_limit_in_error,
    is_account_limit_in_headers,
)

NOW = 1_800_000_000.0


def _claim(window: str) -> dict[str, str]:
    return {
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-representative-claim": window,
    }


@pytest.mark.parametrize(
    ("headers", "moment"),
    [
        ({}, None),
        ({"retry-after": "7"}, NOW + 7),
        ({"retry-after": "Fri, 15 Jan 2027 08:00:30 GMT"}, NOW + 30),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "1500", "retry-after": "2"}, NOW + 1.5),
        ({"anthropic-ratelimit-unified-reset": "1800000900", "retry-after": "5"}, NOW + 900),
        ({"x-ratelimit-reset": "1800000060"}, NOW + 60),
        ({"x-ratelimit-reset-requests": "6m0s"}, NOW + 360),
        ({"x-ratelimit-reset-tokens": "20ms"}, NOW + 0.02),
        ({"x-ratelimit-reset-requests": "2027-01-15T08:01:00Z"}, NOW + 60),
        ({"anthropic-ratelimit-requests-reset": "2027-01-15T08:00:05Z"}, NOW + 5),
        ({"anthropic-ratelimit-output-tokens-reset": "2027-01-15T08:00:07.500Z"}, NOW + 7.5),
        ({"anthropic-ratelimit-tokens-reset": "2027-01-15T09:00:07+01:00"}, NOW + 7),
        ({"anthropic-ratelimit-tokens-reset": "2027-01-15T08:00:07"}, None),
    ],
)
def test_headers_name_the_moment(headers: dict[str, str], moment: float | None) -> None:
    assert find_reset_in_headers(headers, now=NOW) == moment


def _windows(**left: int) -> dict[str, str]:
    """What is left in each of the windows that are filled up after 10 s, 20 s and so on."""
    found: dict[str, str] = {}
    for number, (name, remaining) in enumerate(left.items(), 1):
        found[f"anthropic-ratelimit-{name.replace('_', '-')}-remaining"] = str(remaining)
        found[f"anthropic-ratelimit-{name.replace('_', '-')}-reset"] = f"2027-01-15T08:00:{number}0Z"
    return found


@pytest.mark.parametrize(
    ("headers", "moment"),
    [
        (_windows(requests=49, input_tokens=0, output_tokens=8000), NOW + 20),
        (_windows(requests=0, tokens=7, input_tokens=0, output_tokens=8000), NOW + 30),
        (_windows(requests=1, tokens=7), NOW + 10),
        ({**_windows(requests=0), "retry-after": "3"}, NOW + 3),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "8.64s"}, NOW + 8.64),
        (
            {
                "x-ratelimit-remaining-requests": "59",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "6m0s",
            },
            NOW + 360,
        ),
    ],
)
def test_the_window_that_is_empty_counts(headers: dict[str, str], moment: float) -> None:
    assert find_reset_in_headers(headers, now=NOW) == moment


@pytest.mark.parametrize(
    ("status", "moment"), [("rejected", NOW + 900), ("allowed", NOW + 5), ("allowed_warning", NOW + 5)]
)
def test_a_plan_that_still_allows_calls_is_not_what_refused_one(status: str, moment: float) -> None:
    headers = {
        "anthropic-ratelimit-unified-status": status,
        "anthropic-ratelimit-unified-reset": "1800000900",
        "retry-after": "5",
    }
    assert find_reset_in_headers(headers, now=NOW) == moment


_RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}


@pytest.mark.parametrize(
    ("error", "moment"),
    [
        ({}, None),
        ({"resets_at": 1_800_000_100}, NOW + 100),
        ({"resets_in_seconds": 9}, NOW + 9),
        ({"code": 429, "details": [{"@type": "…QuotaFailure"}, _RETRY_INFO]}, NOW + 34),
        ({"details": [{"retryDelay": "34.074824224s"}]}, NOW + 34.074824224),
        ({"details": [{"retryDelay": 5}]}, None),
        ({"details": "none"}, None),
        ({"message": "Rate limit reached on tokens per min. Please try again in 6.2s. Visit …"}, NOW + 6.2),
        ({"message": "You exceeded your quota. Please retry in 1m3s."}, NOW + 63),
        ({"message": "Please try again in a moment."}, None),
        ({"message": ["try again in 5s"]}, None),
    ],
)
def test_an_error_body_names_the_moment(error: dict[str, object], moment: float | None) -> None:
    assert find_reset_in_error(error, now=NOW) == moment


@pytest.mark.parametrize(
    ("headers", "is_accounts"),
    [
        ({"retry-after": "3600"}, False),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1h"}, False),
        ({"anthropic-ratelimit-requests-remaining": "0"}, False),
        ({"anthropic-ratelimit-unified-status": "allowed"}, False),
        ({"anthropic-ratelimit-unified-status": "rejected"}, True),
        (_claim("five_hour"), True),
        (_claim("seven_day"), True),
        (_claim("seven_day_opus"), False),
    ],
)
def test_the_window_of_a_plan_is_the_accounts_unless_it_is_named_after_a_model(
    headers: dict[str, str], is_accounts: bool
) -> None:
    assert is_account_limit_in_headers(headers) is is_accounts


@pytest.mark.parametrize(
    ("error", "is_accounts"),
    [
        ({}, False),
        ({"type": "rate_limit_error", "message": "too many"}, False),
        ({"type": "tokens", "code": "rate_limit_exceeded"}, False),
        ({"type": "usage_limit_reached", "resets_in_seconds": 60}, True),
        ({"type": "insufficient_quota", "code": "insufficient_quota"}, True),
        ({"code": 429, "status": "RESOURCE_EXHAUSTED"}, False),
    ],
)
def test_a_plan_or_a_balance_that_is_used_up_is_the_accounts(error: dict[str, object], is_accounts: bool) -> None:
    assert is_account_limit_in_error(error) is is_accounts
