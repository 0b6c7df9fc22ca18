"""What a run's model calls cost and may still cost: the ledger, its budgets and the provider's rates, for one run."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from inspan.contracts.end_run import EndRun
from inspan.folds.prices import PriceCard, compute_call_cost, compute_cost
from inspan.protocol.events import BudgetRefused, ErrorReported, Event, RateLimited
from inspan.protocol.plan import Plan
from inspan.protocol.spending import NANO_PER_USD
from inspan.protocol.usage import Usage
from inspan.stores.ledger import Ledger
from inspan.stores.ledger_sums import Spender
from inspan.stores.paths import cache_home

from .ledger_writer import LedgerWriter
from .pricing import Pricing

if TYPE_CHECKING:
    from inspan.gateway import ModelCall
    from inspan.gateway.control import Control, Refusal
    from inspan.gateway.upstream import Request
    from inspan.protocol.amounts import Denial

    from .rates import RateLimitNotice
    from .refusals import Excess

GRACE_S = 5.0
_PRICE_S = 25.0


class SpendingAccount:
    """Opened before the first call, closed after the last; whoever made it does both."""

    def __init__(self, plan: Plan, *, provider: str, record: Callable[[Sequence[Event]], None], end: EndRun) -> None:
        self._plan = plan
        self._provider = provider
        self._record = record
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._spender = build_spender(plan, started_at=plan.created_at)
        own = {model: msgspec.structs.asdict(price) for model, price in plan.task.prices.items()}
        self._pricing = Pricing(cache_home(), own)
        self._cards: dict[str, PriceCard | None] = {}
        self._lookups: dict[str, asyncio.Task[PriceCard | None]] = {}
        self._watch: asyncio.Task[None] | None = None
        self._is_closing = False
        self._writer = LedgerWriter(lambda: Ledger(plan.state), on_problem=self._on_ledger_problem)

    def open(self) -> None:
        """Enters the run into the ledger; a limit on time begins to count."""
        spender, budgets = self._spender, self._plan.task.budgets
        self._writer.submit(lambda ledger: ledger.open_run(spender, budgets))
        if any(budget.seconds is not None for budget in budgets.values()):
            from .time_limit import watch_run_time  # Start-up time: few runs have this limit.

            watching = watch_run_time(self._writer, spender.run_id, on_end=self._on_out_of_time)
            self._watch = self._loop.create_task(watching)

    async def close(self, duration_s: float) -> None:
        """Bounded and idempotent."""
        if self._watch:
            self._watch.cancel()
        if not self._is_closing:
            self._is_closing = True
            # As its limit counted while it lived: from before the agent's start, so that its end gives no time back.
            seconds = max(duration_s, time.time() - self._spender.started_at)
            self._writer.submit(lambda ledger: ledger.end_run(self._spender.run_id, seconds))
        await self._writer.close()  # What is settled there may wait for its price.
        for task in self._lookups.values():
            task.cancel()

    def build_controls(self) -> "list[Control]":
        """What stands before each call: the budgets, and where a provider is asked, its rates."""
        from .budgets import BudgetControl  # Start-up time: few runs have a budget or a rate.
        from .estimates import Estimator

        task, route = self._plan.task, self._plan.route
        estimator = Estimator(largest_answer=task.limits.largest_answer)
        lookup = _PricePrefetch(self.prefetch_price)
        budgets = BudgetControl(
            self._writer,
            spender=self._spender,
            budgets=task.budgets,
            price=self._wait_for_price,
            price_now=self._price_now,
            context=self._context,
            context_now=self._context_now,
            estimator=estimator,
            on_refusal=self._on_over_budget,
        )
        if not route.reaches_provider:
            return [lookup, budgets]
        from .rates import RateControl  # Start-up time: few runs have a budget or a rate.

        rates = RateControl(
            self._writer,
            run_id=self._plan.run_id,
            provider=self._provider,
            host=_strip_scheme(route.url),
            key=route.key,
            rates=task.rates,
            estimator=estimator,
            on_limited=self._on_rate_limited,
        )
        return [lookup, rates, budgets]  # Who waits for a rate sets no money aside meanwhile.

    def prefetch_price(self, model: str) -> None:
        """Begins to look for a model's prices, so that nobody has to wait for them later."""
        if self._is_priced and model not in self._lookups:
            self._lookups[model] = self._loop.create_task(self._pricing.fetch_card_async(model, self._provider))

    async def compute_cost(self, call: "ModelCall") -> float | None:
        """What a call cost, in dollars; None where no price is known, or where nobody is paid."""
        if not self._is_priced:
            return None
        nano = compute_call_cost(
            await self._fetch_card(call.model), status=call.status, usage=call.usage, extras=call.extras
        )
        return None if nano is None else nano / NANO_PER_USD

    def compute_cost_now(self, call: "ModelCall") -> float | None:
        """The same where its prices were looked up already, as they were for each call of a budget in dollars."""
        card = self._cards.get(call.model)
        if not self._is_priced or card is None:
            return None
        nano = compute_call_cost(card, status=call.status, usage=call.usage, extras=call.extras)
        return None if nano is None else nano / NANO_PER_USD

    @property
    def _is_priced(self) -> bool:
        in_dollars = any(budget.usd is not None for budget in self._plan.task.budgets.values())
        return self._plan.route.reaches_provider or in_dollars

    async def _fetch_card(self, model: str) -> PriceCard | None:
        """The prices of a model, looked up once; whoever asks meanwhile waits for the same answer."""
        if model not in self._cards:
            self.prefetch_price(model)
            self._cards[model] = await asyncio.shield(self._lookups[model])
        return self._cards[model]

    def _wait_for_price(self, model: str, usage: Usage, extras: Mapping[str, int]) -> int | None:
        """The price for the ledger's thread, which may wait for it."""
        self._wait_for_card(model)
        return self._price_now(model, usage, extras) if self._is_priced else None

    def _context(self, model: str) -> int | None:
        """How much a model takes in, likewise."""
        self._wait_for_card(model)
        return self._context_now(model)

    def _wait_for_card(self, model: str) -> None:
        if self._is_priced and model not in self._cards:
            finding = asyncio.run_coroutine_threadsafe(self._fetch_card(model), self._loop)
            with suppress(TimeoutError):
                finding.result(_PRICE_S)

    def _price_now(self, model: str, usage: Usage, extras: Mapping[str, int]) -> int | None:
        """The same where it was looked up already."""
        card = self._cards.get(model)
        return compute_cost(card, usage, extras) if card else None

    def _context_now(self, model: str) -> int | None:
        card = self._cards.get(model)
        return card.context if card else None

    def _on_over_budget(self, excess: "Excess") -> None:
        refused = BudgetRefused(node=excess.node, message=excess.message, call=excess.call, next=excess.next_step)
        self._record([refused])
        self._end("budget", excess.message, grace_s=GRACE_S, next_step=excess.next_step)

    def _on_out_of_time(self, denial: "Denial") -> None:
        self._record([BudgetRefused(node=denial.node_label, message=denial.sentence)])
        self._end("budget", denial.sentence)

    def _on_rate_limited(self, limited: "RateLimitNotice") -> None:
        self._record([RateLimited(message=limited.message, resets_at=limited.until, held=limited.held)])

    def _on_ledger_problem(self, message: str) -> None:
        self._record([ErrorReported(message=message)])


class _PricePrefetch:
    """The first to hear of a call: its model's prices are looked for while the model answers."""

    def __init__(self, look_up: Callable[[str], None]) -> None:
        self._prefetch = look_up

    async def admit(self, request: "Request", number: int) -> "Refusal | None":
        if request.ask:
            self._prefetch(request.ask.model)

    def on_progress(self, call: "ModelCall") -> None:
        """Nothing depends on it."""

    def on_ended(self, call: "ModelCall") -> None:
        """Nothing was taken."""


def _strip_scheme(url: str) -> str:
    """Where calls go, as one would say it; the path too, behind which a proxy may have another provider."""
    return url.partition("://")[2].rpartition("@")[2].rstrip("/")


def build_spender(plan: Plan, *, started_at: float) -> Spender:
    """The run as the ledger knows it."""
    return Spender(
        run_id=plan.run_id,
        project=plan.project,
        task=plan.task.task,
        agent=plan.agent.name,
        session=plan.session.key,
        lock=os.path.join(plan.folder, "lock"),
        started_at=started_at,
        scripted=plan.route.uses_gateway and not plan.route.reaches_provider,
    )
