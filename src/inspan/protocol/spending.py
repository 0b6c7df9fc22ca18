"""What was spent, in one model call or by one run: the rows that costs are summed from."""

from typing import Literal, NamedTuple

from .usage import Usage

NANO_PER_USD = 1_000_000_000
Source = Literal["gateway", "agent"]


class Spending(NamedTuple):
    """One row. `usage` and `nano` (billionths of a dollar) are `None` where nobody could tell: never zero.

    `source` says who counted: the gateway, each call for itself, or the agent, once for a run. `scripted`: no real
    model answered, and nothing was paid. `charged_nano` and `charged_tokens` are what budgets count in place of a usage
    that nobody stated to its end: `None` where they count what was stated.
    """

    run_id: str
    call: int
    at: float
    project: str
    task: str
    session: str
    agent: str
    model: str
    role: str
    usage: Usage | None
    nano: int | None
    source: Source
    scripted: bool
    charged_nano: int | None = None
    charged_tokens: int | None = None
