"""When a provider may be asked again, in all the ways they say it."""

import pytest

from inspan.gateway.resets import reset_in_error, reset_in_headers

NOW = 1_800_000_000.0


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
    ],
)
def test_headers_name_the_moment(headers: dict[str, str], moment: float | None) -> None:
    assert reset_in_headers(headers, now=NOW) == moment


@pytest.mark.parametrize(
    ("error", "moment"),
    [({}, None), ({"resets_at": 1_800_000_100}, NOW + 100), ({"resets_in_seconds": 9}, NOW + 9)],
)
def test_an_error_body_names_the_moment(error: dict[str, object], moment: float | None) -> None:
    assert reset_in_error(error, now=NOW) == moment
