"""What a run's model calls cost and may still cost: the ledger, its budgets and the provider's rates, for one run."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from inspan.folds.prices import Card, call_cost, cost
from inspan.protocol.events import BudgetRefused, ErrorReported, Event, RateLimited
from inspan.protocol.spending import NANO_PER_USD
from inspan.protocol.usage import Usage
from inspan.stores.ledger import Ledger
from inspan.stores.ledger_sums import Spender
from inspan.stores.paths import cache_home

from ..plan import Plan
from .books import Books
from .pricing import Pricing

if TYPE_CHECKING:
    from inspan.gateway import ModelCall
    from inspan.gateway.control import Control, Refusal
    from inspan.gateway.upstream import Request
    from inspan.protocol.amounts import Denial

    from ..model import End
    from .budgets import Excess
    from .rates import Limited

GRACE_S = 2.0
_PRICE_S = 25.0


class Money:
    """Opened before the first call, closed after the last; whoever made it does both."""

    def __init__(self, plan: Plan, *, provider: str, record: Callable[[Sequence[Event]], None], end: "End") -> None:
        self._plan = plan
        self._provider = provider
        self._record = record
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._spender = spender(plan, started_at=plan.created_at)
        own = {model: msgspec.structs.asdict(price) for model, price in plan.task.prices.items()}
        self._pricing = Pricing(cache_home(), own)
        self._cards: dict[str, Card | None] = {}
        self._finding: dict[str, asyncio.Task[Card | None]] = {}
        self._watch: asyncio.Task[None] | None = None
        self._is_closing = False
        self._books = Books(lambda: Ledger(plan.state), on_trouble=self._trouble)

    def open(self) -> None:
        """Enters the run into the ledger; a limit on time begins to count."""
        spender, budgets = self._spender, self._plan.task.budgets
        self._books.tell(lambda ledger: ledger.open_run(spender, budgets))
        if any(budget.seconds is not None for budget in budgets.values()):
            from .run_time import watch_run_time  # Start-up time: few runs have this limit.

            watching = watch_run_time(self._books, spender.run_id, on_end=self._out_of_time)
            self._watch = self._loop.create_task(watching)

    async def close(self, duration_s: float) -> None:
        """Bounded and idempotent."""
        if self._watch:
            self._watch.cancel()
        if not self._is_closing:
            self._is_closing = True
            # As its limit counted while it lived: from before the agent's start, so that its end gives no time back.
            seconds = max(duration_s, time.time() - self._spender.started_at)
            self._books.tell(lambda ledger: ledger.end_run(self._spender.run_id, seconds))
        await self._books.close()  # What is settled there may wait for its price.
        for task in self._finding.values():
            task.cancel()

    def controls(self) -> "list[Control]":
        """What stands before each call: the budgets, and where a provider is asked, its rates."""
        from .budgets import BudgetControl
        from .estimates import Estimator

        task, route = self._plan.task, self._plan.route
        estimator = Estimator(largest_answer=task.limits.largest_answer)
        lookup = _Lookup(self.look_up)
        budgets = BudgetControl(
            self._books,
            spender=self._spender,
            budgets=task.budgets,
            price=self._price,
            estimator=estimator,
            on_refusal=self._over_budget,
        )
        if not route.reaches_provider:
            return [lookup, budgets]
        from .rates import RateControl

        rates = RateControl(
            self._books,
            run_id=self._plan.run_id,
            provider=self._provider,
            key=route.key,
            rates=task.rates,
            estimator=estimator,
            on_limited=self._limited,
        )
        return [lookup, rates, budgets]  # Who waits for a rate sets no money aside meanwhile.

    def look_up(self, model: str) -> None:
        """Begins to look for a model's prices, so that nobody has to wait for them later."""
        if self._is_priced and model not in self._finding:
            self._finding[model] = self._loop.create_task(self._pricing.find(model, self._provider))

    async def cost_of(self, call: "ModelCall") -> float | None:
        """What a call cost, in dollars; None where no price is known, or where nobody is paid."""
        if not self._is_priced:
            return None
        nano = call_cost(await self._card(call.model), status=call.status, usage=call.usage, extras=call.extras)
        return None if nano is None else nano / NANO_PER_USD

    @property
    def _is_priced(self) -> bool:
        in_dollars = any(budget.usd is not None for budget in self._plan.task.budgets.values())
        return self._plan.route.reaches_provider or in_dollars

    async def _card(self, model: str) -> Card | None:
        """The prices of a model, looked up once; whoever asks meanwhile waits for the same answer."""
        if model not in self._cards:
            self.look_up(model)
            self._cards[model] = await asyncio.shield(self._finding[model])
        return self._cards[model]

    def _price(self, model: str, usage: Usage, extras: Mapping[str, int]) -> int | None:
        """The price for the ledger's thread, which may wait for it."""
        if not self._is_priced:
            return None
        if model not in self._cards:
            finding = asyncio.run_coroutine_threadsafe(self._card(model), self._loop)
            with suppress(TimeoutError):
                finding.result(_PRICE_S)
        card = self._cards.get(model)
        return cost(card, usage, extras) if card else None

    def _over_budget(self, excess: "Excess") -> None:
        self._record([BudgetRefused(node=excess.node, message=excess.message, call=excess.call)])
        self._end("budget", excess.message, grace_s=GRACE_S)

    def _out_of_time(self, denial: "Denial") -> None:
        self._record([BudgetRefused(node=denial.where, message=denial.sentence)])
        self._end("budget", denial.sentence)

    def _limited(self, limited: "Limited") -> None:
        self._record([RateLimited(message=limited.message, resets_at=limited.until, held=limited.held)])

    def _trouble(self, message: str) -> None:
        self._record([ErrorReported(message=message)])


class _Lookup:
    """The first to hear of a call: its model's prices are looked for while the model answers."""

    def __init__(self, look_up: Callable[[str], None]) -> None:
        self._look_up = look_up

    async def admit(self, request: "Request", number: int) -> "Refusal | None":
        if request.ask:
            self._look_up(request.ask.model)

    def ended(self, call: "ModelCall") -> None:
        """Nothing was taken."""


def spender(plan: Plan, *, started_at: float) -> Spender:
    """The run as the ledger knows it."""
    return Spender(
        run_id=plan.run_id,
        project=plan.project,
        task=plan.task.task,
        agent=plan.agent,
        session=plan.session,
        lock=os.path.join(plan.folder, "lock"),
        started_at=started_at,
        scripted=plan.route.uses_gateway and not plan.route.reaches_provider,
    )
