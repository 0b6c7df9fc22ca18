"""The closed lists of how a run can end."""

from typing import get_args

import pytest

from inspan.protocol.outcome import OUTCOME_OF, OUTCOMES, REASONS, FailureKind, Reason, outcome_of, status_of

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
}


def test_every_reason_is_either_in_the_table_or_known_to_be_a_failure() -> None:
    assert set(OUTCOME_OF) | _FAILED == set(REASONS)
    assert set(OUTCOME_OF) & _FAILED == set()


def test_every_outcome_has_a_reason() -> None:
    assert {outcome_of(reason) for reason in REASONS} == set(OUTCOMES)


@pytest.mark.parametrize("reason", REASONS)
def test_only_done_is_a_success(reason: Reason) -> None:
    assert (status_of(outcome_of(reason)) == "success") == (reason == "done")


def test_lost_is_never_a_success() -> None:
    assert outcome_of("supervisor_lost") == "lost"
    assert status_of("lost") == "failed"


@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_every_kind_of_failure_of_an_agent_is_a_reason(kind: str) -> None:
    assert kind in REASONS
