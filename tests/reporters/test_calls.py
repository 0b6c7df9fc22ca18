"""A run's model calls in words and as data: how many of which role, tokens of each model, who counted the cost."""

from typing import Any

from inspan.folds.summary import Summary, summarize
from inspan.protocol.events import Event, ModelCallEnded, TurnCompleted, UsageDiffers
from inspan.protocol.usage import Usage
from inspan.reporters.call_summary import calls_to_dict, format_calls

ONE = Usage(input=10, output=5, cache_read=3)
SPELLED = {"input": 10, "output": 5, "cache_read": 3, "cache_write": 0, "reasoning": 0}


def call(number: int, **fields: Any) -> ModelCallEnded:
    usual: dict[str, Any] = {"model": "large", "usage": ONE, "cost_usd": 0.25}
    return ModelCallEnded(call=number, wire="chat", **{**usual, **fields})


def run(*events: Event) -> Summary:
    return summarize(events)


def test_nothing_is_said_where_nothing_was_told() -> None:
    assert list(format_calls(run())) == []


def test_calls_are_told_by_role_and_model_with_the_source_of_the_cost() -> None:
    events = [call(1), call(2, role="retry"), call(3, role="side", model="small", cost_usd=None)]
    assert list(format_calls(run(*events, TurnCompleted(usage=ONE, cost_usd=0.5)))) == [
        "calls: 3 (1 main, 1 side, 1 retry)",
        "large: 2 calls, 20 in, 6 cache read, 10 out, cost: $0.50",
        "small: 1 call, 10 in, 3 cache read, 5 out, cost: unknown",
        "cost: $0.50 + unknown for 1 call · counted by the gateway, not known for small; the agent reported $0.50",
    ]


def test_a_model_that_nobody_named_and_tokens_that_nobody_stated_are_said_to_be_unknown() -> None:
    assert list(format_calls(run(call(1, model="", usage=None, cost_usd=None)))) == [
        "calls: 1 (1 main)",
        "unknown model: 1 call, no tokens stated, cost: unknown",
        "cost: unknown · counted by the gateway, not known for an unknown model; the agent reported none",
    ]


def test_some_calls_of_a_model_may_have_no_price() -> None:
    lines = list(format_calls(run(call(1), call(2, cost_usd=None))))
    assert lines[1] == "large: 2 calls, 20 in, 6 cache read, 10 out, cost: $0.25 + unknown for 1 call"


def test_a_run_without_a_gateway_has_its_agents_word_alone() -> None:
    assert list(format_calls(run(TurnCompleted(usage=ONE, cost_usd=0.5)))) == [
        "cost: $0.50 · the agent reported $0.50; no call was counted by the gateway"
    ]
    assert list(format_calls(run(TurnCompleted(usage=ONE)))) == [
        "cost: unknown · the agent reported none; no call was counted by the gateway"
    ]


def test_a_difference_between_the_counts_is_told() -> None:
    apart = UsageDiffers(told=ONE, measured=ONE + ONE, percent=50.0)
    assert list(format_calls(run(apart))) == [
        "counts differ: the agent counts 18 tokens, the gateway 36; 50.0 % in the kind that differs most"
    ]


def test_the_same_is_data_for_a_program() -> None:
    apart = UsageDiffers(told=ONE, measured=ONE + ONE, percent=50.0)
    one = {
        "calls": 1,
        "usage": SPELLED,
        "calls_without_tokens": 0,
        "cost_usd": 0.25,
        "cost_kind": "paid",
        "not_paid_usd": None,
        "calls_without_cost": 0,
    }
    assert calls_to_dict(run(call(1), TurnCompleted(usage=ONE, cost_usd=0.5), apart)) == {
        **one,
        "roles": {"main": one},
        "models": {"large": one},
        "told": {"usage": SPELLED, "cost_usd": 0.5},
        "differs_percent": 50.0,
    }
    nothing = {
        "calls": 0,
        "usage": None,
        "calls_without_tokens": 0,
        "cost_usd": None,
        "cost_kind": None,
        "not_paid_usd": None,
        "calls_without_cost": 0,
    }
    assert calls_to_dict(run()) == {
        **nothing,
        "roles": {},
        "models": {},
        "told": {"usage": None, "cost_usd": None},
        "differs_percent": None,
    }
