"""The words for a model call that a budget has no room for: what it would reserve, what is left, and what would fit."""

import math
import re
from collections.abc import Callable
from typing import NamedTuple

from inspan.protocol.amounts import Denial, format_dollars
from inspan.protocol.spending import NANO_PER_USD

from .estimates import Estimate

MaxCost = Callable[[Estimate], int | None]
"""The most that a call with this estimate may cost, in billionths of a dollar; None where no price is known."""

# A shorter answer than this is of no use to a coding agent.
_USEFUL_ANSWER_TOKENS = 1_000
_BUDGET_IN_TOKENS = "--budget 200ktok"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][\w.:/@+-]*", re.ASCII)


class Excess(NamedTuple):
    """A call that no budget has room for: the node that said no, why, and what to do. Without a step, the usual one."""

    node: str
    message: str
    call: int
    next_step: str = ""


def describe_denial(denial: Denial, estimate: Estimate, *, model: str, call: int, max_cost: MaxCost) -> Excess:
    """What a person has to know of a call that one limit has no room for; `max_cost` prices other estimates."""
    if denial.limit not in ("usd", "tokens"):
        return Excess(node=denial.node_label, message=denial.sentence + _explain_input(estimate), call=call)
    message = (
        f"Model call {call} would reserve up to {_format_ask(denial, estimate, model=model)}, "
        f"and {_format_left(denial)}.{_explain_input(estimate)}"
    )
    steps = [
        f"Use --budget {_format_node(denial)}{_suggest_budget(denial)}",
        *_suggest_answer(denial, estimate, max_cost),
    ]
    return Excess(node=denial.node_label, message=message, call=call, next_step=", or ".join(steps) + ".")


def describe_missing_price(node: str, *, model: str, call: int) -> Excess:
    """The same for a model that nobody knows a price of, under a budget in dollars."""
    message = f"No price is known for the model {model!r}, and the budget of {node} is in dollars."
    instead = f"or use a budget in tokens, as in {_BUDGET_IN_TOKENS}"
    step = f"{_suggest_price(model)}, in dollars for a million tokens; {instead}."
    return Excess(node=node, message=message, call=call, next_step=step)


def _suggest_price(model: str) -> str:
    """How to set one. A command only for a plain name: an agent chooses it, and a person may paste the command."""
    name = model.partition("[")[0]
    if not _PLAIN_NAME.fullmatch(name):
        return "Set its price under `prices` in the configuration"
    return f"Set its price, as in `inspan config set 'prices.\"{name}\"' '{{input = 1.25, output = 10}}'`"


def _format_ask(denial: Denial, estimate: Estimate, *, model: str) -> str:
    """What the call asks for, and how that comes about."""
    parts = f"{estimate.input:,} tokens in, {estimate.output:,} out"
    if denial.limit == "usd":
        return f"{_format_up(denial.asked)} ({parts}, at the prices of {model})"
    return f"{int(denial.asked):,} tokens ({parts})"


def _format_left(denial: Denial) -> str:
    """What is left for it, of how much."""
    per = f" per {denial.per}" if denial.per else ""
    left, most = (_format_down(denial.limit, amount) for amount in (_compute_left(denial), denial.most))
    kept = _format_down(denial.limit, denial.reserved)
    under_way = f", with {kept} reserved for calls under way" if denial.reserved else ""
    verb = "are" if denial.limit == "tokens" else "is"
    return f"{left} {verb} left of the {most}{per} of {denial.node_label}{under_way}"


def _compute_left(denial: Denial) -> float:
    return max(0.0, denial.most - denial.spent - denial.reserved)


def _explain_input(estimate: Estimate) -> str:
    """Why so much is reserved, where the request is small."""
    if not estimate.unsized:
        return ""
    names = ", ".join(estimate.unsized[:3]) + (", …" if len(estimate.unsized) > 3 else "")
    return (
        f" The request does not show the size of its input ({names}), so the model's whole context window is set aside."
    )


def _format_node(denial: Denial) -> str:
    return "" if denial.node == "run" else f"{denial.node}="


def _suggest_budget(denial: Denial) -> str:
    """A round budget that has room for this call beside all that is spent and reserved."""
    needed = denial.spent + denial.reserved + denial.asked
    per = f"/{denial.per}" if denial.per else ""
    if denial.limit == "tokens":
        return f"{_format_number(_round_up(needed / 1000))}ktok{per}"
    return f"{_format_number(_round_up(needed / NANO_PER_USD))}usd{per}"


def _suggest_answer(denial: Denial, estimate: Estimate, max_cost: MaxCost) -> list[str]:
    """The longest answer that there is room for, where it is of use."""
    left = _compute_left(denial)
    tokens = left - estimate.input if denial.limit == "tokens" else _fit_dollars(left, estimate, max_cost)
    rounded = int(tokens) // 1000 * 1000
    if rounded < _USEFUL_ANSWER_TOKENS or rounded >= estimate.output:
        return []
    return [f"shorter answers: `inspan config set limits.largest_answer {rounded}` fits now"]


def _fit_dollars(left: float, estimate: Estimate, max_cost: MaxCost) -> float:
    """How many tokens of output so much pays for: their price is the same for each of them."""
    least, whole = max_cost(estimate._replace(output=0)), max_cost(estimate)
    if least is None or whole is None or whole <= least:
        return 0.0
    return (left - least) / (whole - least) * estimate.output


def _round_up(amount: float) -> float:
    """A number that is easy to type and not smaller: one digit that counts below ten, whole numbers above."""
    if amount >= 10 or amount <= 0:
        return math.ceil(amount)
    step = 10.0 ** math.floor(math.log10(amount))
    return math.ceil(round(amount / step, 9)) * step


def _format_number(number: float) -> str:
    return f"{number:.9f}".rstrip("0").rstrip(".")


def _format_up(nano: float) -> str:
    """Dollars that are not shown as less than they are: what is asked for must not look as if it fitted."""
    places = 10 ** (5 if nano >= NANO_PER_USD / 10_000 else 0)
    return format_dollars(math.ceil(nano / places) * places)


def _format_down(limit: str, amount: float) -> str:
    if limit == "tokens":
        return f"{int(amount):,} tokens"
    places = 10 ** (5 if amount >= NANO_PER_USD / 10_000 else 0)
    return format_dollars(amount // places * places)
