"""The calls of one run in sums, and when two counts of the same tokens differ."""

from typing import Any

import pytest

from inspan.folds.summary import Summary, summarize
from inspan.folds.usage import CallSums, compare_usage, group_by_model, group_by_role, sum_calls
from inspan.protocol.cost import Cost
from inspan.protocol.events import ModelCallEnded, TurnCompleted, UsageDiffers
from inspan.protocol.usage import Usage

ONE = Usage(input=10, output=5, cache_read=3, cache_write=2, reasoning=1)


def call(number: int, **fields: Any) -> ModelCallEnded:
    usual: dict[str, Any] = {"model": "large", "status": 200, "usage": ONE, "cost_usd": 0.25}
    return ModelCallEnded(call=number, wire="chat", **{**usual, **fields})


CALLS = [
    call(1),
    call(2, model="small", role="side", cost_usd=None),
    call(3, role="retry", usage=None, cost_usd=None),
    call(4, cost_usd=0.1),
    call(5, status=529, usage=None, cost_usd=0.0),
]


def test_calls_are_summed_by_model_and_by_role() -> None:
    measured = summarize(CALLS).measured
    assert group_by_role(measured) == {
        "main": CallSums(calls=3, usage=ONE + ONE, nano=350_000_000),
        "side": CallSums(calls=1, usage=ONE, without_cost=1),
        "retry": CallSums(calls=1, without_usage=1, without_cost=1),
    }
    assert group_by_model(measured) == {
        "large": CallSums(calls=4, usage=ONE + ONE, without_usage=1, nano=350_000_000, without_cost=1),
        "small": CallSums(calls=1, usage=ONE, without_cost=1),
    }
    whole = sum_calls(measured)
    assert whole == CallSums(calls=5, usage=ONE + ONE + ONE, without_usage=1, nano=350_000_000, without_cost=2)
    assert whole.cost_usd == 0.35


def test_no_calls_cost_an_unknown_amount() -> None:
    assert (sum_calls({}), sum_calls({}).cost_usd) == (CallSums(), None)


def test_many_small_costs_add_up_exactly() -> None:
    assert sum_calls(summarize(call(number, cost_usd=0.1) for number in range(1000)).measured).cost_usd == 100.0


def test_a_runs_cost_is_what_the_gateway_counted_and_the_agents_word_only_where_it_saw_no_call() -> None:
    told = TurnCompleted(cost_usd=9.0)
    assert summarize([call(1), call(2), told]).cost == Cost(kind="paid", usd=0.5)
    unpriced = Cost(kind="unknown", unknown_calls=1)
    assert summarize([call(1, cost_usd=None)]).cost == unpriced
    assert summarize([call(1, cost_usd=None), told]).cost == unpriced
    assert summarize([told]).cost == Cost(kind="paid", usd=9.0)
    assert summarize([TurnCompleted(usage=ONE)]).cost == Cost(kind="unknown", unknown_runs=1)


@pytest.mark.parametrize("model_from", ["script:/s.toml", "replay:/tape.jsonl"])
def test_nobody_is_paid_for_the_answers_of_a_script_or_a_cassette(model_from: str) -> None:
    priced, unpriced = call(1, cost_usd=None, not_paid_usd=0.25), call(2, cost_usd=None)
    for events, usd in (([], None), ([priced], 0.25), ([unpriced], None), ([priced, unpriced, priced], 0.5)):
        told = Summary(model_from=model_from)
        for event in (*events, *([TurnCompleted(usage=ONE, cost_usd=9.0)] if events else [])):
            told.add(event)
        assert told.cost == Cost(kind="not_paid", not_paid_usd=usd)


def test_an_agent_that_asked_its_script_nothing_has_paid_nobody() -> None:
    silent = Summary(model_from="script:/s.toml")
    silent.add(TurnCompleted(usage=Usage(), cost_usd=0.0))
    assert silent.cost == Cost(kind="not_paid")


def test_an_agent_that_went_past_its_script_may_have_paid() -> None:
    past = Summary(model_from="script:/s.toml")
    past.add(TurnCompleted(usage=ONE, cost_usd=9.0))
    assert past.cost == Cost(kind="paid", usd=9.0)


def test_a_run_that_never_came_to_a_call_cost_nothing_where_the_gateway_would_have_seen_one() -> None:
    assert Summary(model_from="live").cost == Cost(kind="paid", usd=0.0)
    assert Summary(model_from="direct").cost == Cost(kind="unknown", unknown_runs=1)


def test_a_call_without_a_price_does_not_make_the_agents_word_the_runs_cost() -> None:
    told = TurnCompleted(usage=Usage(), cost_usd=0.0)
    hung_up = call(2, usage=None, cost_usd=None, problem="client hung up")
    some, none = summarize([call(1), hung_up, told]), summarize([hung_up, told])
    assert some.cost == Cost(kind="partial", usd=0.25, unknown_calls=1)
    assert (none.cost, none.spent) == (Cost(kind="unknown", unknown_calls=1), None)


def test_a_difference_that_was_told_is_kept() -> None:
    apart = UsageDiffers(told=ONE, measured=ONE + ONE, percent=50.0)
    assert summarize([apart]).difference == apart


@pytest.mark.parametrize(
    ("told", "measured", "percent"),
    [
        (Usage(), Usage(), None),
        (ONE, ONE, None),
        (Usage(input=101), Usage(input=100), None),
        (Usage(input=102), Usage(input=100), 2.0),
        (Usage(input=98), Usage(input=100), 2.0),
        (Usage(input=100, output=50), Usage(input=100, output=100), 50.0),
        (Usage(input=1_000_000, cache_read=5), Usage(input=1_000_000, cache_read=4), 25.0),
        (Usage(cache_write=1), Usage(), 100.0),
        (Usage(), Usage(cache_write=1), 100.0),
        (Usage(output=10), Usage(output=10, reasoning=4), None),
        (Usage(output=10, reasoning=2), Usage(output=10, reasoning=4), 50.0),
        (Usage(input=400), Usage(input=100), 300.0),
        (Usage(input=110, cache_read=20), Usage(input=100, cache_read=20, cache_write=10), None),
        (Usage(input=130), Usage(input=100, cache_read=20, cache_write=10), None),
        (Usage(input=100), Usage(input=100, cache_read=20, cache_write=5), 20.0),
    ],
)
def test_counts_differ_when_any_kind_is_more_than_a_percent_off(
    told: Usage, measured: Usage, percent: float | None
) -> None:
    assert compare_usage(told, measured) == percent
