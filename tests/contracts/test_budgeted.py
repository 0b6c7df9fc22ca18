"""How long an answer may get where somebody counts."""

import pytest

from inspan.contracts.output_cap import DEFAULT_MAX_OUTPUT_TOKENS, max_output_tokens
from inspan.protocol.budget import Budget, Node
from inspan.protocol.limits import Limits
from inspan.protocol.task import Task


@pytest.mark.parametrize(
    ("budgets", "asked", "limit"),
    [
        ({}, None, None),
        ({"run": Budget(calls=3)}, None, None),
        ({"run": Budget(usd=1.0)}, None, DEFAULT_MAX_OUTPUT_TOKENS),
        ({"project": Budget(tokens=9)}, None, DEFAULT_MAX_OUTPUT_TOKENS),
        ({"run": Budget(usd=1.0)}, 500, 500),
        ({}, 500, 500),
    ],
)
def test_an_answer_has_a_limit_where_money_or_tokens_do(
    budgets: dict[Node, Budget], asked: int | None, limit: int | None
) -> None:
    task = Task(prompt="", cwd="/", budgets=budgets, limits=Limits(largest_answer=asked))
    assert max_output_tokens(task) == limit
