"""Budgets before and after each model call: reserved by an estimate, settled by what the provider stated.

Where no budget is set, nothing is reserved, and only the row of what was spent is written, after the call.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from inspan.errors import StateUnusable
from inspan.gateway.call import ModelCall
from inspan.gateway.control import Refusal
from inspan.gateway.upstream import Request
from inspan.protocol.amounts import Amounts, Denial, limits
from inspan.protocol.budget import NODES, Node
from inspan.protocol.spending import Spending
from inspan.protocol.usage import Usage
from inspan.stores.ledger import Ledger
from inspan.stores.ledger_sums import Budgets, Spender

from .books import Books
from .estimates import Estimate, Estimator
from .settling import settlement

Price = Callable[[str, Usage, Mapping[str, int]], int | None]
"""What a call costs in billionths of a dollar, or None; asked on the ledger's thread, where it may take its time."""

_RESERVED = ("usd", "tokens", "calls")
_LOOK_S, _LONGEST_LOOK_S = 0.05, 1.0


class Excess(NamedTuple):
    """A call that no budget has room for: the node that said no, and why, in words."""

    node: str
    message: str
    call: int


class _UnderWay(NamedTuple):
    model: str
    estimate: Estimate


class BudgetControl:
    """Keeps the calls of one run, which is open in the ledger, within its budgets.

    A call that only fits once others have ended waits for them, `wait_s` at most; `on_refusal` hears of every call that
    is refused, for whatever reason.
    """

    def __init__(
        self,
        books: Books,
        *,
        spender: Spender,
        budgets: Budgets,
        price: Price,
        estimator: Estimator,
        on_refusal: Callable[[Excess], None],
        wait_s: float = 60.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._books = books
        self._spender = spender
        self._price = price
        self._estimator = estimator
        self._on_refusal = on_refusal
        self._wait_s = wait_s
        self._clock = clock
        set_limits = {(node, limit) for node, budget in budgets.items() for limit, _ in limits(budget)}
        self._in_dollars: list[Node] = [node for node in NODES if (node, "usd") in set_limits]
        self._limited = any(limit in _RESERVED for _, limit in set_limits)
        self._under_way: dict[int, _UnderWay] = {}

    async def admit(self, request: Request, number: int) -> Refusal | None:
        """Reserves what the call may take; a ledger that cannot be used refuses it, as a full budget does."""
        if request.ask is None:
            return None
        call = _UnderWay(model=request.ask.model, estimate=self._estimator.of(request))
        excess = await self._reserved(number, call) if self._limited else None
        if excess is None:
            self._under_way[number] = call
            return None
        self._on_refusal(excess)
        return Refusal(problem=f"refused: budget of {excess.node}", message=excess.message)

    def ended(self, call: ModelCall) -> None:
        """Settles the call, after the loop has gone on."""
        begun = self._under_way.pop(call.number, None)
        if begun is None:
            return
        if call.problem.startswith("refused"):
            if self._limited:
                self._books.tell(lambda ledger: ledger.release(self._spender.run_id, call.number))
            return
        if call.usage and call.whole:
            self._estimator.learn(begun.estimate, call.usage)
        at = self._clock()
        self._books.tell(lambda ledger: self._settle(ledger, call, begun.estimate, at))

    async def _reserved(self, number: int, call: _UnderWay) -> Excess | None:
        try:
            return await self._reserve(number, call)
        except StateUnusable as error:
            return Excess(node="ledger", message=str(error), call=number)
        except asyncio.CancelledError:
            # Its thread may be reserving just now.
            self._books.tell(lambda ledger: ledger.release(self._spender.run_id, number))
            raise

    async def _reserve(self, number: int, call: _UnderWay) -> Excess | None:
        deadline, look_s = time.monotonic() + self._wait_s, _LOOK_S
        while True:
            found = await self._books.ask(lambda ledger: self._tried(ledger, number, call))
            if not isinstance(found, Denial):
                return found
            if not found.may_pass or time.monotonic() >= deadline:
                return Excess(node=found.where, message=found.sentence, call=number)
            await asyncio.sleep(look_s)
            look_s = min(look_s * 2, _LONGEST_LOOK_S)

    def _tried(self, ledger: Ledger, number: int, call: _UnderWay) -> Denial | Excess | None:
        """Priced and reserved on the ledger's thread at once: each change of threads costs the call's first byte."""
        nano = self._dearest(call) if self._in_dollars else None
        if self._in_dollars and nano is None:
            return _unpriced(self._named(self._in_dollars[0]), call.model, number)
        tokens = call.estimate.input + call.estimate.output
        return ledger.reserve(self._spender.run_id, number, nano=nano, tokens=tokens)

    def _named(self, node: Node) -> str:
        spender = self._spender
        names: dict[Node, str] = {"project": spender.project, "task": spender.task, "run": spender.run_id}
        return f"{node} {names[node]}"

    def _dearest(self, call: _UnderWay) -> int | None:
        """The most that the call may cost: all input may have to be written into a cache, which costs more."""
        tokens, output = call.estimate.input, call.estimate.output
        ways: list[tuple[Usage, Mapping[str, int]]] = [
            (Usage(input=tokens, output=output), {}),
            (Usage(cache_write=tokens, output=output), {}),
        ]
        if call.estimate.caches_for_an_hour:
            ways.append((Usage(cache_write=tokens, output=output), {"cache_write_1h": tokens}))
        costs = [self._priced(call.model, usage, extras) for usage, extras in ways]
        return max((cost for cost in costs if cost is not None), default=None)

    def _settle(self, ledger: Ledger, call: ModelCall, estimate: Estimate, at: float) -> None:
        stated, charged = settlement(call, estimate)
        nano = self._cost(call, stated) if stated is not None else None
        row = _row(self._spender, call, usage=stated, nano=nano, at=at)
        if stated == charged:
            ledger.settle(row.run_id, row.call, row)
        else:
            amounts = Amounts(nano=self._cost(call, charged) or 0, tokens=charged.total)
            ledger.settle(row.run_id, row.call, row, charged=amounts)

    def _cost(self, call: ModelCall, usage: Usage) -> int | None:
        """Nothing costs nothing, whatever the model."""
        return self._priced(call.model, usage, call.extras) if usage.total or call.extras else 0

    def _priced(self, model: str, usage: Usage, extras: Mapping[str, int]) -> int | None:
        try:
            return self._price(model, usage, extras)
        except Exception:  # Whatever keeps a price from being found: it is unknown, and what was used must be kept.
            return None


def _row(spender: Spender, call: ModelCall, *, usage: Usage | None, nano: int | None, at: float) -> Spending:
    return Spending(
        run_id=spender.run_id,
        call=call.number,
        at=at,
        project=spender.project,
        task=spender.task,
        session=spender.session,
        agent=spender.agent,
        model=call.model,
        role=call.role,
        usage=usage,
        nano=nano,
        source="gateway",
        scripted=spender.scripted,
    )


def _unpriced(node: str, model: str, number: int) -> Excess:
    message = (
        f"The budget of {node} is in dollars, and no price is known for the model {model!r}. "
        "Set a price for it in the configuration, or use a budget in tokens."
    )
    return Excess(node=node, message=message, call=number)
