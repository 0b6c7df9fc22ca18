"""A run that makes model calls, with a real ledger under it and no gateway around it."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from inspan.gateway.model_call import ModelCall
from inspan.gateway.upstream import Ask, Inputs, Request
from inspan.protocol.budget import Budget, Node
from inspan.protocol.limits import Rates
from inspan.protocol.usage import Usage
from inspan.spending.budgets import BudgetControl, PriceFunction
from inspan.spending.estimates import Estimator
from inspan.spending.ledger_writer import LedgerWriter
from inspan.spending.rates import RateControl, RateLimitNotice
from inspan.spending.refusals import Excess
from inspan.stores.ledger import Ledger
from inspan.stores.ledger_sums import Spender
from tests.stores.accounts import held, parse_budgets

T = TypeVar("T")
MODEL = "some-model"
# How long a ledger is waited for: by those whose turn comes, and by those who are to find it locked.
PATIENT_S, IMPATIENT_S = 60.0, 0.3
# Dollars for a million tokens: nano-dollars for a thousandth of one token.
NANO = {
    "input": 3_000,
    "output": 15_000,
    "cache_read": 300,
    "cache_write": 3_750,
    "cache_write_1h": 6_000,
    "search": 10_000_000,
}


def price(model: str, usage: Usage, extras: Mapping[str, int]) -> int | None:
    """What `MODEL` costs; of others nobody knows it."""
    if model != MODEL:
        return None
    for_an_hour = extras.get("cache_write_1h", 0)
    return (
        extras.get("searches", 0) * NANO["search"]
        + usage.input * NANO["input"]
        + usage.output * NANO["output"]
        + usage.cache_read * NANO["cache_read"]
        + (usage.cache_write - for_an_hour) * NANO["cache_write"]
        + for_an_hour * NANO["cache_write_1h"]
    )


def request(
    size: int = 300,
    *,
    plain: bytes | None = None,
    max_output: int | None = None,
    model: str = MODEL,
    key: str = "",
    inputs: Inputs | None = None,
) -> Request:
    """A call to a model with a body of this size."""
    body = b"x" * size if plain is None else plain
    return Request(
        method="POST",
        path="/v1/messages",
        headers={"x-api-key": key} if key else {},
        body=body,
        plain=body,
        wire="messages",
        purpose="call",
        ask=Ask(model=model, stream=True, tools=(), newest_text="", max_output=max_output, inputs=inputs or Inputs()),
    )


def call(number: int, **changes: object) -> ModelCall:
    """A call that went well and said what it used."""
    values: dict[str, object] = {
        "wire": "messages",
        "model": MODEL,
        "status": 200,
        "usage": Usage(input=100, output=10),
        "duration_s": 0.1,
        "whole": True,
        "answer_bytes": 300,
    }
    return ModelCall(number=number, **{**values, **changes})  # pyright: ignore[reportArgumentType] (a test names fields)


class SpendingRun:
    """One run: its books, its controls, and what they told."""

    def __init__(
        self, root: Path, run_id: str = "r1", *, budgets: Mapping[Node, Budget] | None = None, wait_s: float = PATIENT_S
    ) -> None:
        root.mkdir(exist_ok=True)
        self.state = str(root / "state")
        self.refused: list[Excess] = []
        self.limited: list[RateLimitNotice] = []
        self.troubles: list[str] = []
        self.budgets = dict(budgets or {})
        lock = root / f"{run_id}.lock"
        self._lock = held(lock)
        self.spender = Spender(
            run_id=run_id,
            project="web-1a2b",
            task="default",
            agent="scripted",
            session="s1",
            lock=str(lock),
            started_at=time.time(),
        )
        self.estimator = Estimator()
        self.books = LedgerWriter(lambda: Ledger(self.state, wait_s=wait_s), on_problem=self.troubles.append)

    async def open(self) -> None:
        assert await self.books.execute(lambda ledger: ledger.open_run(self.spender, self.budgets)) is None

    def budget(
        self,
        *,
        wait_s: float = 0.0,
        estimator: Estimator | None = None,
        price: PriceFunction = price,
        context: int | None = None,
    ) -> BudgetControl:
        return BudgetControl(
            self.books,
            spender=self.spender,
            budgets=self.budgets,
            price=price,
            estimator=estimator or self.estimator,
            on_refusal=self.refused.append,
            wait_s=wait_s,
            context=lambda model: context,
        )

    def rates(self, rates: Rates, *, key: str = "key-1", host: str = "api.example.org") -> RateControl:
        return RateControl(
            self.books,
            run_id=self.spender.run_id,
            provider="example",
            host=host,
            key=key,
            rates=rates,
            estimator=self.estimator,
            on_limited=self.limited.append,
        )

    async def wait_settled(self) -> None:
        """Everything that was told is written."""
        await self.books.execute(lambda ledger: None)

    async def close(self) -> None:
        await self.books.close()
        os.close(self._lock)


async def cancel_while_writing(scene: SpendingRun, asking: Coroutine[object, object, object]) -> None:
    """Cancels what waits for the ledger, whose thread goes on and writes all the same."""
    other = Ledger(scene.state)
    with other.file.write_transaction():
        waiting = asyncio.ensure_future(asking)
        await asyncio.sleep(0.2)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        assert waiting.cancelled()
    other.close()
    await scene.wait_settled()


def play(root: Path, act: Callable[[SpendingRun], Awaitable[T]], *, wait_s: float = PATIENT_S, **budgets: str) -> T:
    """Runs a test's part on a loop, in a scene that is open."""

    async def played() -> T:
        scene = SpendingRun(root, budgets=parse_budgets(**budgets), wait_s=wait_s)
        try:
            await scene.open()
            return await act(scene)
        finally:
            await scene.close()

    return asyncio.run(played())
