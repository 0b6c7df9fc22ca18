"""What a status means is said once, and for every agent the same."""

import pytest

from inspan.dialects.provider_errors import classify_failure
from inspan.protocol.events import ModelCallEnded
from inspan.protocol.http_status import failure_of_status, is_error_status
from inspan.protocol.outcome import FailureKind
from inspan.running.verdict import gateway_failure_kind


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, "authentication"),
        (402, "authentication"),
        (403, "authentication"),
        (404, "model_not_found"),
        (408, "network"),
        (413, "context_too_long"),
        (429, "rate_limit"),
        (500, "overloaded"),
        (503, "overloaded"),
        (504, "network"),
        (529, "overloaded"),
    ],
)
def test_a_status_is_the_same_failure_to_all_who_read_it(status: int, kind: FailureKind) -> None:
    assert is_error_status(status)
    assert failure_of_status(status) == kind
    assert classify_failure(status, "") == kind
    assert gateway_failure_kind(ModelCallEnded(call=1, wire="messages", model="m", status=status)) == kind


@pytest.mark.parametrize("status", [None, 0, 200, 302, 399])
def test_others_are_no_failure(status: int | None) -> None:
    assert not is_error_status(status)
    assert failure_of_status(status) is None
