"""How long an answer may get where a budget counts: before each call a budget sets aside what it may cost at most."""

from inspan.protocol.task import Task

DEFAULT_MAX_OUTPUT_TOKENS = 32_000


def max_output_tokens(task: Task) -> int | None:
    """The tokens that an agent may ask for in one answer; None where nobody counts them."""
    budgets = task.budgets.values()
    if task.limits.largest_answer is None and not any(each.usd or each.tokens for each in budgets):
        return None
    return task.limits.largest_answer or DEFAULT_MAX_OUTPUT_TOKENS
