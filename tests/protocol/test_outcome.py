"""The closed lists of how a run can end."""

from typing import get_args

import pytest

from inspan.protocol.outcome import OUTCOMES, FailureKind, Reason, status_of
from inspan.protocol.reasons import REASONS

_FAILED = {
    "authentication",
    "overloaded",
    "network",
    "invalid_response",
    "environment",
    "tool_permission",
    "context_too_long",
    "model_not_found",
    "refused",
    "crashed",
    "session_not_found",
    "unfit_answer",
    "unknown",
    "script",
    "store",
    "harness",
    "no_verdict",
    "node_failed",
}


def test_every_reason_has_its_row() -> None:
    assert set(REASONS) == set(get_args(Reason))


def test_only_these_are_failures() -> None:
    assert {reason for reason, row in REASONS.items() if row.outcome == "failed"} == _FAILED


def test_every_outcome_has_a_reason() -> None:
    assert {REASONS[reason].outcome for reason in REASONS} == set(OUTCOMES)


@pytest.mark.parametrize("reason", REASONS)
def test_only_done_is_a_success(reason: Reason) -> None:
    assert (status_of(REASONS[reason].outcome) == "success") == (reason == "done")


def test_lost_is_never_a_success() -> None:
    assert REASONS["supervisor_lost"].outcome == "lost"
    assert status_of("lost") == "failed"


@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_every_kind_of_failure_of_an_agent_is_a_reason(kind: str) -> None:
    assert kind in REASONS
