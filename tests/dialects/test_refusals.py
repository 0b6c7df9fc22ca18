"""When a provider that refused may be asked again, where nobody else reads its headers."""

import pytest

from inspan.dialects.chat import build_chat_dialect
from inspan.protocol.events import RateLimited, TurnFailed

from .http_calls import STARTED, WHOLE, head_line, read_events

AT = 1_800_000_000.0
FAILED = TurnFailed(failure="rate_limit", message="429: slow down", status=429)
BODY = {"error": {"message": "slow down"}}


@pytest.mark.parametrize(
    ("headers", "moment"),
    [
        ({"retry_after": "7"}, AT + 7),
        ({"retry_after_ms": "1500", "retry_after": "7"}, AT + 1.5),
        ({"retry_after": "Fri, 15 Jan 2027 08:00:10 GMT"}, AT + 10),
        ({"retry_after": "soon"}, None),
        ({"x_ratelimit_reset": "1800000060"}, AT + 60),
        ({"x_ratelimit_reset_requests": "1m2.5s"}, AT + 62.5),
        ({}, None),
    ],
)
def test_a_limit_says_when_it_lifts(headers: dict[str, str], moment: float | None) -> None:
    events = read_events(build_chat_dialect, head_line(429, at=AT, **headers), BODY, WHOLE)
    assert events == [*STARTED, RateLimited(message="slow down", resets_at=moment), FAILED]


def test_behind_a_gateway_it_is_not_told_twice() -> None:
    assert read_events(build_chat_dialect, head_line(429, retry_after="7"), BODY, WHOLE) == [*STARTED, FAILED]
