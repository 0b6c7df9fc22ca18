"""Agents that end a turn as if all were well when the model refused them: the gateway is believed."""

import pytest

from inspan.agents.registry import find_driver
from inspan.contracts.driver import Driver
from inspan.folds.summary import summarize
from inspan.protocol.events import Event, ModelCallEnded, TurnCompleted, TurnStarted
from inspan.protocol.outcome import Reason
from inspan.running.verdict import Facts, judge

_STRANGER = find_driver("acp:agent")
_USUAL = find_driver("scripted")
_DONE: list[Event] = [TurnStarted(), TurnCompleted()]


def _reason(driver: Driver, events: list[Event], call: ModelCallEnded, exit_code: int | None = None) -> Reason:
    summary = summarize(events)
    return judge(
        Facts(driver=driver, summary=summary, exit_code=exit_code, signal=None, stderr="", last_call=call)
    ).reason


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (ModelCallEnded(call=1, wire="messages", status=401), "authentication"),
        (ModelCallEnded(call=1, wire="messages", status=529), "overloaded"),
        (ModelCallEnded(call=1, wire="messages", status=200, problem="cut"), "network"),
        (ModelCallEnded(call=1, wire="messages", status=200), "done"),
        (ModelCallEnded(call=2, wire="messages", status=500, role="side"), "done"),
    ],
)
def test_a_turn_that_is_said_to_be_done_failed_with_its_last_call(call: ModelCallEnded, reason: Reason) -> None:
    assert _reason(_STRANGER, _DONE, call) == reason


def test_an_agent_that_tells_its_failures_is_believed() -> None:
    call = ModelCallEnded(call=1, wire="chat", status=401)
    assert _reason(_USUAL, _DONE, call, exit_code=0) == "done"


def test_an_agent_that_left_within_its_turn_failed_as_its_last_call_did() -> None:
    refused = ModelCallEnded(call=1, wire="messages", status=429)
    answered = ModelCallEnded(call=1, wire="messages", status=200)
    assert _reason(_STRANGER, [TurnStarted()], refused, exit_code=0) == "rate_limit"
    assert _reason(_STRANGER, [TurnStarted()], answered, exit_code=0) == "crashed"
