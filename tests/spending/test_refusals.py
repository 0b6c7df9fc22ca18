"""What a person is told of a call that a budget has no room for: what it would reserve, and what would fit."""

import re
from typing import Any

import pytest

from inspan.protocol.amounts import Denial
from inspan.protocol.budget import parse_budgets
from inspan.protocol.spending import NANO_PER_USD
from inspan.spending.estimates import Estimate
from inspan.spending.refusals import describe_denial, describe_missing_price

RUN = "20261117-052519873-8462"
ASK = Estimate(
    input=12_000, output=128_000, text_bytes=36_000, pictures=0, caches_for_an_hour=False, streams=True, searches=0
)


def _max_cost(estimate: Estimate) -> int:
    """At 2 dollars for a million tokens of input, and 15 of output."""
    return estimate.input * 2_000 + estimate.output * 15_000


def _denial(**fields: Any) -> Denial:
    usual: dict[str, Any] = {
        "node": "run",
        "name": RUN,
        "limit": "usd",
        "per": "",
        "most": 1.5 * NANO_PER_USD,
        "spent": 0,
        "reserved": 0,
        "asked": _max_cost(ASK),
    }
    return Denial(**{**usual, **fields})


def _describe(denial: Denial, estimate: Estimate = ASK) -> tuple[str, str]:
    excess = describe_denial(denial, estimate, model="gpt-5.5", call=1, max_cost=_max_cost)
    assert (excess.node, excess.call) == (denial.node_label, 1)
    return excess.message, excess.next_step


def test_a_call_says_what_it_would_reserve_what_is_left_and_what_would_fit() -> None:
    assert _describe(_denial()) == (
        "Model call 1 would reserve up to $1.944 (12,000 tokens in, 128,000 out, at the prices of gpt-5.5), "
        f"and $1.50 is left of the $1.50 of run {RUN}.",
        "Use --budget 2usd, or shorter answers: `inspan config set limits.largest_answer 98000` fits now.",
    )


def test_what_is_spent_and_under_way_is_not_left() -> None:
    spent = _denial(node="project", name="shop", per="day", spent=NANO_PER_USD, reserved=250_000_000)
    assert _describe(spent) == (
        "Model call 1 would reserve up to $1.944 (12,000 tokens in, 128,000 out, at the prices of gpt-5.5), "
        "and $0.25 is left of the $1.50 per day of project shop, with $0.25 reserved for calls under way.",
        "Use --budget project=4usd/day, or shorter answers: `inspan config set limits.largest_answer 15000` fits now.",
    )


def test_tokens_are_told_in_tokens() -> None:
    assert _describe(_denial(limit="tokens", most=100_000, asked=140_000, node="task", name="default")) == (
        "Model call 1 would reserve up to 140,000 tokens (12,000 tokens in, 128,000 out), "
        "and 100,000 tokens are left of the 100,000 tokens of task default.",
        "Use --budget task=140ktok, or shorter answers: `inspan config set limits.largest_answer 88000` fits now.",
    )


@pytest.mark.parametrize("spent", [1_480_000_000, 2_000_000_000])
def test_an_answer_that_would_be_too_short_to_be_of_use_is_not_suggested(spent: int) -> None:
    _, step = _describe(_denial(spent=spent))
    assert step == "Use --budget 4usd."


def test_what_does_not_fit_by_a_hair_does_not_look_as_if_it_did() -> None:
    asked = _max_cost(ASK)
    message, step = _describe(_denial(most=asked - 1))
    assert "up to $1.944 (" in message
    assert "and $1.9439 is left of the $1.9439 of" in message
    assert step.startswith("Use --budget 2usd")


def test_other_limits_are_told_as_before_and_have_no_step_of_their_own() -> None:
    calls = _denial(limit="calls", most=2, spent=2, asked=1)
    assert _describe(calls) == (calls.sentence, "")


def test_a_request_that_does_not_show_its_size_says_why_so_much_is_reserved() -> None:
    message, _ = _describe(_denial(), ASK._replace(unsized=("document",)))
    assert message.endswith("so the model's whole context window is set aside.")


@pytest.mark.parametrize("usd", [0.000_001_5, 0.031, 0.0999, 0.1, 0.99, 1.0, 2.31, 9.99, 10.0, 99.01, 1234.5])
@pytest.mark.parametrize("limit", ["usd", "tokens"])
def test_the_budget_that_is_suggested_has_room_and_can_be_typed(usd: float, limit: str) -> None:
    asked = round(usd * NANO_PER_USD) if limit == "usd" else round(usd * 1_000_000)
    _, step = _describe(_denial(limit=limit, most=asked / 2, asked=asked))
    found = re.match(r"Use --budget (\S+?)[,.](?: |$)", step)
    assert found, step
    budget = parse_budgets([found[1]])["run"]
    given = (budget.usd or 0) * NANO_PER_USD if limit == "usd" else budget.tokens or 0
    assert asked <= round(given) <= max(asked * 2, 1_000)


def test_a_missing_price_names_the_model_and_the_setting() -> None:
    excess = describe_missing_price("task default", model="my/model-1.5[1m]", call=3)
    assert (excess.node, excess.call) == ("task default", 3)
    assert (
        excess.message
        == "No price is known for the model 'my/model-1.5[1m]', and the budget of task default is in dollars."
    )
    assert excess.next_step == (
        "Set its price, as in `inspan config set 'prices.\"my/model-1.5\"' '{input = 1.25, output = 10}'`, "
        "in dollars for a million tokens; or use a budget in tokens, as in --budget 200ktok."
    )


@pytest.mark.parametrize("model", ["x'; rm -rf ~; '", "$(id)", "`id`", "-rf", "", 'a"b', "a\nb"])
def test_a_name_that_a_shell_would_read_is_put_into_no_command(model: str) -> None:
    step = describe_missing_price("run 1", model=model, call=1).next_step
    assert step.startswith("Set its price under `prices` in the configuration, ")
