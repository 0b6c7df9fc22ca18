"""Budgets before, during and after each model call: reserved by an estimate, settled by what the provider stated.

While an answer comes, what came of it is noted now and then, on the ledger's thread: should the run die, the call is
charged that. Where no budget is set, nothing is reserved and nobody waits; that the call is under way is noted too.
"""

import asyncio
import functools
import time
from collections.abc import Callable, Mapping

from inspan.errors import StateUnusable
from inspan.gateway.control import Refusal, next_report_bytes
from inspan.gateway.model_call import ModelCall
from inspan.gateway.upstream import Request
from inspan.protocol.amounts import Amounts, Denial, iter_limits
from inspan.protocol.budget import NODES, Node
from inspan.protocol.spending import Spending
from inspan.protocol.usage import Usage
from inspan.stores.ledger import Ledger
from inspan.stores.ledger_sums import Budgets, Spender

from .estimates import Estimate, Estimator
from .ledger_writer import LedgerWriter
from .refusals import Excess, describe_denial, describe_missing_price
from .settlement import compute_settlement

PriceFunction = Callable[[str, Usage, Mapping[str, int]], int | None]
"""What a call costs in billionths of a dollar, or None; asked on the ledger's thread, where it may take its time."""

Context = Callable[[str], int | None]
"""The most tokens that a model takes in, or None; asked as a price is."""

_RESERVED_LIMITS = ("usd", "tokens", "calls")
_POLL_S, _MAX_POLL_S = 0.05, 1.0
# An answer that is over within this is settled without having been noted before.
_NOTE_S = 0.05
# A call that no limit waits for is noted once the provider has been asked: earlier, the thread would be in its way.
_BEGIN_S = 0.005
# When a price that was not known yet is looked for again; by the last of them it is known, or nobody knows it.
_PRICE_RETRIES_S = (0.05, 0.5, 2.0, 10.0)


def _no_context(model: str) -> int | None:
    return None


class _PendingCall:
    """A call that was let through, the last that was heard of it, and the timer of who is going to write that down."""

    def __init__(self, model: str, estimate: Estimate) -> None:
        self.model = model
        self.estimate = estimate
        self.latest: ModelCall | None = None
        self.note_timer: asyncio.TimerHandle | None = None

    @property
    def tokens(self) -> int:
        return self.estimate.input + self.estimate.output


class BudgetControl:
    """Keeps the calls of one run, which is open in the ledger, within its budgets.

    A call that only fits once others have ended waits for them, `wait_s` at most; `on_refusal` hears of every call that
    is refused, for whatever reason. `price_now` and `context_now` give theirs only where it need not be waited for.
    """

    def __init__(
        self,
        writer: LedgerWriter,
        *,
        spender: Spender,
        budgets: Budgets,
        price: PriceFunction,
        estimator: Estimator,
        on_refusal: Callable[[Excess], None],
        price_now: PriceFunction | None = None,
        context: Context = _no_context,
        context_now: Context | None = None,
        wait_s: float = 60.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._writer = writer
        self._spender = spender
        self._price = price
        self._price_now = price_now or price
        self._context = context
        self._context_now = context_now or context
        self._estimator = estimator
        self._on_refusal = on_refusal
        self._wait_s = wait_s
        self._clock = clock
        set_limits = {(node, limit) for node, budget in budgets.items() for limit, _ in iter_limits(budget)}
        self._in_dollars: list[Node] = [node for node in NODES if (node, "usd") in set_limits]
        self._limited = any(limit in _RESERVED_LIMITS for _, limit in set_limits)
        self._pending: dict[int, _PendingCall] = {}

    async def admit(self, request: Request, number: int) -> Refusal | None:
        """Reserves what the call may take; a ledger that cannot be used refuses it, as a full budget does."""
        if request.ask is None:
            return None
        call = _PendingCall(request.ask.model, self._estimator.estimate(request))
        excess = await self._try_reserve(number, call) if self._limited else None
        if excess is None:
            self._pending[number] = call
            if not self._limited:
                call.note_timer = asyncio.get_running_loop().call_later(_BEGIN_S, self._submit_begin, number, call)
            self._look_for_price(number, call)
            return None
        self._on_refusal(excess)
        return Refusal(problem=f"refused: budget of {excess.node}", message=excess.message)

    def on_progress(self, call: ModelCall) -> None:
        """Notes what came so far, after the loop has gone on, unless the call is over by then."""
        pending = self._pending.get(call.number)
        if pending is None:
            return
        pending.latest = call
        if pending.note_timer is None:
            pending.note_timer = asyncio.get_running_loop().call_later(_NOTE_S, self._submit_note, pending)

    def on_ended(self, call: ModelCall) -> None:
        """Settles the call, after the loop has gone on."""
        pending = self._pending.pop(call.number, None)
        if pending is None:
            return
        if pending.note_timer is not None:
            pending.note_timer.cancel()
        if call.problem.startswith("refused"):
            self._writer.submit(lambda ledger: ledger.release(self._spender.run_id, call.number))
            return
        if call.usage and call.whole:
            self._estimator.learn(pending.estimate, call.usage)
        at = self._clock()
        self._writer.submit(lambda ledger: self._settle(ledger, call, pending, at))

    def _submit_begin(self, number: int, call: _PendingCall) -> None:
        call.note_timer = None
        self._writer.submit(lambda ledger: self._begin(ledger, number, call))
        if call.latest is not None:
            self.on_progress(call.latest)

    def _look_for_price(self, number: int, call: _PendingCall, *, attempt: int = 0) -> None:
        """Nobody waits for a price that no limit needs; but a call that is lost keeps it."""
        if self._in_dollars or attempt == len(_PRICE_RETRIES_S) or self._pending.get(number) is not call:
            return
        nano = self._estimate_max_cost(call, self._price_now)
        if nano is None:
            again = functools.partial(self._look_for_price, number, call, attempt=attempt + 1)
            asyncio.get_running_loop().call_later(_PRICE_RETRIES_S[attempt], again)
        elif attempt and call.latest is None:
            self._writer.submit(lambda ledger: ledger.note_price(self._spender.run_id, number, nano))

    def _submit_note(self, pending: _PendingCall) -> None:
        pending.note_timer, call, at = None, pending.latest, self._clock()
        if call is not None:
            self._writer.submit(lambda ledger: self._note(ledger, call, pending, at))

    def _begin(self, ledger: Ledger, number: int, call: _PendingCall) -> None:
        call.estimate = call.estimate.with_context(self._context_now(call.model))
        charged = Amounts(nano=self._estimate_max_cost(call, self._price_now) or 0, tokens=call.tokens)
        ledger.begin(self._spender.run_id, number, charged=charged, model=call.model)

    def _note(self, ledger: Ledger, call: ModelCall, pending: _PendingCall, at: float) -> None:
        # Up to the next report, more of the answer may come that nobody will have written down.
        unseen = next_report_bytes(call.answer_bytes)
        stated, charged = compute_settlement(call, pending.estimate, answer_bytes=unseen)
        row = _build_row(
            self._spender, call, usage=stated, nano=self._compute_cost(call, stated, self._price_now), at=at
        )
        ledger.note(row, charged=self._compute_charge(call, charged, pending, self._price_now))

    async def _try_reserve(self, number: int, call: _PendingCall) -> Excess | None:
        try:
            return await self._reserve(number, call)
        except StateUnusable as error:
            return Excess(node="ledger", message=str(error), call=number)
        except asyncio.CancelledError:
            # Its thread may be reserving just now.
            self._writer.submit(lambda ledger: ledger.release(self._spender.run_id, number))
            raise

    async def _reserve(self, number: int, call: _PendingCall) -> Excess | None:
        deadline, look_s = time.monotonic() + self._wait_s, _POLL_S
        while True:
            found = await self._writer.execute(lambda ledger: self._reserve_once(ledger, number, call))
            if not isinstance(found, Denial):
                return found
            if not found.may_pass or time.monotonic() >= deadline:
                return self._describe(found, number, call)
            await asyncio.sleep(look_s)
            look_s = min(look_s * 2, _MAX_POLL_S)

    def _describe(self, denial: Denial, number: int, call: _PendingCall) -> Excess:
        def price(estimate: Estimate) -> int | None:
            return self._estimate_max_cost(_PendingCall(call.model, estimate), self._price_now)

        return describe_denial(denial, call.estimate, model=call.model, call=number, max_cost=price)

    def _reserve_once(self, ledger: Ledger, number: int, call: _PendingCall) -> Denial | Excess | None:
        """Priced and reserved on the ledger's thread at once: each change of threads costs the call's first byte."""
        if call.estimate.unsized:
            call.estimate = call.estimate.with_context(self._context(call.model))
        nano = self._estimate_max_cost(call, self._price if self._in_dollars else self._price_now)
        if self._in_dollars and nano is None:
            return describe_missing_price(self._format_node(self._in_dollars[0]), model=call.model, call=number)
        set_aside = nano if self._in_dollars else None
        return ledger.reserve(
            self._spender.run_id, number, nano=set_aside, tokens=call.tokens, model=call.model, charged_nano=nano
        )

    def _format_node(self, node: Node) -> str:
        spender = self._spender
        names: dict[Node, str] = {"project": spender.project, "task": spender.task, "run": spender.run_id}
        return f"{node} {names[node]}"

    def _estimate_max_cost(self, call: _PendingCall, price: PriceFunction) -> int | None:
        """The most that the call may cost: all input may have to be written into a cache, which costs more."""
        tokens, output = call.estimate.input, call.estimate.output
        ways: list[tuple[Usage, Mapping[str, int]]] = [
            (Usage(input=tokens, output=output), {}),
            (Usage(cache_write=tokens, output=output), {}),
        ]
        if call.estimate.caches_for_an_hour:
            ways.append((Usage(cache_write=tokens, output=output), {"cache_write_1h": tokens}))
        if call.estimate.searches:
            # Beside the ways without them: a list that has no price for a search still has one for the rest.
            ways += [(usage, {**extras, "searches": call.estimate.searches}) for usage, extras in ways]
        costs = [_try_price(price, call.model, usage, extras) for usage, extras in ways]
        return max((cost for cost in costs if cost is not None), default=None)

    def _settle(self, ledger: Ledger, call: ModelCall, pending: _PendingCall, at: float) -> None:
        stated, charged = compute_settlement(call, pending.estimate)
        row = _build_row(self._spender, call, usage=stated, nano=self._compute_cost(call, stated, self._price), at=at)
        if stated is not None and stated == charged:
            ledger.settle(row.run_id, row.call, row)
        else:
            ledger.settle(row.run_id, row.call, row, charged=self._compute_charge(call, charged, pending, self._price))

    def _compute_charge(
        self, call: ModelCall, charged: Usage | None, pending: _PendingCall, price: PriceFunction
    ) -> Amounts:
        if charged is None:
            return Amounts(nano=self._estimate_max_cost(pending, price) or 0, tokens=pending.tokens)
        return Amounts(nano=self._compute_cost(call, charged, price) or 0, tokens=charged.total)

    def _compute_cost(self, call: ModelCall, usage: Usage | None, price: PriceFunction) -> int | None:
        """Nothing costs nothing, whatever the model; what nobody stated costs nobody knows what."""
        if usage is None:
            return None
        return _try_price(price, call.model, usage, call.extras) if usage.total or call.extras else 0


def _try_price(price: PriceFunction, model: str, usage: Usage, extras: Mapping[str, int]) -> int | None:
    try:
        return price(model, usage, extras)
    except Exception:  # Whatever keeps a price from being found: it is unknown, and what was used must be kept.
        return None


def _build_row(spender: Spender, call: ModelCall, *, usage: Usage | None, nano: int | None, at: float) -> Spending:
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
