"""What budgets count, and the arithmetic of their limits: pure, so that it can be held to its promises by itself."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Literal, NamedTuple, get_args

from .budget import Budget, Node, Period
from .spending import NANO_PER_USD

Limit = Literal["usd", "tokens", "calls", "seconds", "restarts"]
DAY_S = 86400

_LIMITS: tuple[Limit, ...] = get_args(Limit)
_UNIT_NAMES: dict[Limit, str] = {
    "tokens": "token",
    "calls": "model call",
    "seconds": "s of run time",
    "restarts": "restart",
}


class Amounts(NamedTuple):
    """So much of everything that can be limited; `nano` are billionths of a dollar."""

    nano: int = 0
    tokens: int = 0
    calls: int = 0
    seconds: float = 0.0
    restarts: int = 0

    def add(self, other: "Amounts") -> "Amounts":
        """The sum, field by field."""
        return Amounts(
            nano=self.nano + other.nano,
            tokens=self.tokens + other.tokens,
            calls=self.calls + other.calls,
            seconds=self.seconds + other.seconds,
            restarts=self.restarts + other.restarts,
        )


NO_AMOUNTS = Amounts()


class Denial(NamedTuple):
    """A limit that has no room: of which node, and how it stands. Dollars are in billionths.

    `asked` is 0 where nothing is left whatever was asked for.
    """

    node: Node
    name: str
    limit: Limit
    per: Period
    most: float
    spent: float
    reserved: float
    asked: float

    @property
    def node_label(self) -> str:
        """The node as a person names it."""
        return f"{self.node} {self.name}"

    @property
    def may_pass(self) -> bool:
        """Whether only calls that are under way stand in the way: when they have ended, there may be room."""
        return self.asked > 0 and self.spent + self.asked <= self.most

    @property
    def sentence(self) -> str:
        """What is wrong, for a person."""
        per = f" per {self.per}" if self.per else ""
        parts = [f"{_format_amount(self.limit, self.spent)} spent"]
        if self.reserved:
            parts.append(f"{_format_amount(self.limit, self.reserved)} set aside for calls under way")
        if self.asked:
            parts.append(f"{_format_amount(self.limit, self.asked)} asked for")
        return f"The budget of {self.node_label} is {_format_amount(self.limit, self.most)}{per}: {', '.join(parts)}."


def check_limits(
    node: Node, name: str, budget: Budget, *, spent: Amounts, reserved: Amounts = NO_AMOUNTS, asked: Amounts
) -> Denial | None:
    """The first limit that what is asked for would exceed, with what is spent and reserved already."""
    for limit, most in iter_limits(budget):
        used, kept, more = (_get_amount(limit, amounts) for amounts in (spent, reserved, asked))
        if more and used + kept + more > most:
            return Denial(node, name, limit, budget.per, most, used, kept, more)
    return None


def find_exhausted(node: Node, name: str, budget: Budget, *, spent: Amounts) -> Denial | None:
    """The first limit of which nothing is left; restarts apart, which are asked for one by one."""
    for limit, most in iter_limits(budget):
        if limit != "restarts" and _get_amount(limit, spent) >= most:
            return Denial(node, name, limit, budget.per, most, _get_amount(limit, spent), 0, 0)
    return None


def iter_limits(budget: Budget) -> Iterator[tuple[Limit, float]]:
    """The limits that a budget sets, in the units of `Amounts`."""
    for limit in _LIMITS:
        most: float | None = getattr(budget, limit)
        if most is not None:
            yield limit, round(most * NANO_PER_USD) if limit == "usd" else most


def period_start(per: Period, now: float) -> float:
    """When the period that `now` lies in began, in UTC; 0 for a budget without one."""
    if not per:
        return 0.0
    today = now // DAY_S * DAY_S
    return today if per == "day" else today - (datetime.fromtimestamp(now, UTC).day - 1) * DAY_S


def format_dollars(nano: float) -> str:
    """Dollars as people read them: two to four places, and more where four would show nothing of them."""
    places = 4 if not nano or abs(nano) >= NANO_PER_USD / 10_000 else 9
    whole, _, rest = f"{nano / NANO_PER_USD:.{places}f}".partition(".")
    return f"${whole}.{rest.rstrip('0').ljust(2, '0')}"


def _get_amount(limit: Limit, amounts: Amounts) -> float:
    return amounts.nano if limit == "usd" else getattr(amounts, limit)


def _format_amount(limit: Limit, amount: float) -> str:
    if limit == "usd":
        return format_dollars(amount)
    if limit == "seconds":
        return f"{amount:.1f}".removesuffix(".0") + f" {_UNIT_NAMES[limit]}"
    return f"{int(amount)} {_UNIT_NAMES[limit]}{'' if amount == 1 else 's'}"
