"""Rates of calls: one run's refusal by a provider holds back all that use the same key, and users set limits of theirs.

A hold lasts as long as the provider said, and no longer. Where it refused without a time (429 alone) the others wait
for 2 s, doubled with each further refusal up to 30 s. An overload (503, 529) is only a hold with a time, 60 s at most:
the times of a plan's windows stand beside it and are about something else.
"""

import asyncio
import math
import time
from collections.abc import Callable
from random import random
from typing import NamedTuple

from inspan.errors import StateUnusable
from inspan.gateway.call import ModelCall
from inspan.gateway.control import Refusal
from inspan.gateway.upstream import Request
from inspan.protocol.limits import Rates
from inspan.stores.ledger import Ledger
from inspan.stores.ledger_traffic import Traffic, Wait, is_limited

from .books import Books
from .estimates import Estimator

_TOO_MANY = 429
_OVERLOADED = (503, 529)
_LONGEST_OVERLOAD_S = 60.0
_ERROR_STATUS = 400
_LONGEST_LOOK_S = 5.0
# So that all who wait for one moment do not ask in the same.
_SPREAD_S = 0.25
# Providers round: two that are so near are the same moment.
_SAME_S = 1.0
_KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key")


class Limited(NamedTuple):
    """The run has to wait. `until` is None where the provider named no time; `held`: it was another run's call."""

    message: str
    until: float | None
    held: bool


class RateControl:
    """Holds the calls of one run back. `key` empty: whoever asks brings its own, which is then told by its headers.

    `on_limited` hears once of each hold that concerns the run. A ledger that cannot be used holds nobody back.
    """

    def __init__(
        self,
        books: Books,
        *,
        run_id: str,
        provider: str,
        key: str,
        rates: Rates,
        estimator: Estimator,
        on_limited: Callable[[Limited], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._books = books
        self._run_id = run_id
        self._provider = provider
        self._key = key
        self._rates = rates
        self._estimator = estimator
        self._on_limited = on_limited
        self._clock = clock
        self._traffic: dict[str, Traffic] = {}
        self._under_way: dict[int, tuple[str, int]] = {}
        self._is_limited = False
        self._told_until = 0.0

    async def admit(self, request: Request, number: int) -> Refusal | None:
        """Waits while it must; where that would be longer than `longest_hold_s`, it is a 429 as the provider's own."""
        if request.ask is None:
            return None
        key = self._key or _key_in(request)
        tokens = self._estimator.of(request).input if self._rates.tokens_per_minute else 0
        try:
            refusal = await self._entered(key, number, tokens)
        except StateUnusable:
            refusal = None
        except asyncio.CancelledError:
            self._leave(key, number, guessed=tokens, used=0)
            raise
        if refusal is None:
            self._under_way[number] = (key, tokens)
        return refusal

    def ended(self, call: ModelCall) -> None:
        """Gives back what the call had taken, and lets the others know what the provider said."""
        if call.number not in self._under_way:
            return
        key, guessed = self._under_way.pop(call.number)
        was_refused = call.problem.startswith("refused")
        is_error = call.status is not None and call.status >= _ERROR_STATUS
        used = call.usage.total if call.usage else 0 if was_refused or is_error else None
        self._leave(key, call.number, guessed=guessed, used=used)
        if was_refused:
            return
        if _is_hold(call):
            until = _until(call, self._clock())
            self._tell(until, call.message, held=False)
            self._books.tell(lambda ledger: self._of(ledger, key).told_to_wait(until))
        elif self._is_limited and call.status is not None and not is_error:
            self._is_limited = False
            self._books.tell(lambda ledger: self._of(ledger, key).answered())

    async def _entered(self, key: str, number: int, tokens: int) -> Refusal | None:
        deadline = time.monotonic() + self._rates.longest_hold_s
        while wait := await self._books.ask(lambda ledger: self._enter(ledger, key, number, tokens)):
            if wait.hold:
                message = f"{self._provider} has refused a call with the same key"
                self._tell(wait.hold.until if wait.hold.told else None, message, held=True)
            if time.monotonic() + wait.seconds > deadline:
                return _refusal(wait, self._provider)
            await asyncio.sleep(min(wait.seconds, _LONGEST_LOOK_S) + random() * _SPREAD_S)
        return None

    def _enter(self, ledger: Ledger, key: str, number: int, tokens: int) -> Wait | None:
        return self._of(ledger, key).enter(self._run_id, number, rates=self._rates, tokens=tokens)

    def _leave(self, key: str, number: int, *, guessed: int, used: int | None) -> None:
        if is_limited(self._rates):
            self._books.tell(
                lambda ledger: self._of(ledger, key).leave(
                    self._run_id, number, rates=self._rates, guessed=guessed, used=used
                )
            )

    def _tell(self, until: float | None, message: str, *, held: bool) -> None:
        """Once for each hold: again only for a later time, or after an answer."""
        is_news = not self._is_limited if until is None else until > self._told_until + _SAME_S
        self._is_limited = True
        self._told_until = max(self._told_until, until or 0.0)
        if is_news:
            self._on_limited(Limited(message=message, until=until, held=held))

    def _of(self, ledger: Ledger, key: str) -> Traffic:
        if key not in self._traffic:
            self._traffic[key] = Traffic(ledger, provider=self._provider, key=key)
        return self._traffic[key]


def _is_hold(call: ModelCall) -> bool:
    return call.status == _TOO_MANY or (call.status in _OVERLOADED and call.resets_at is not None)


def _until(call: ModelCall, now: float) -> float | None:
    if call.resets_at is None or call.status == _TOO_MANY:
        return call.resets_at
    return min(call.resets_at, now + _LONGEST_OVERLOAD_S)


def _key_in(request: Request) -> str:
    return next((request.headers[name] for name in _KEY_HEADERS if request.headers.get(name)), "")


def _refusal(wait: Wait, provider: str) -> Refusal:
    seconds = max(1, math.ceil(wait.seconds))
    message = f"Too many calls to {provider}: {wait.why} leaves no room for the next {seconds} s."
    headers = {"retry-after": str(seconds)}
    return Refusal(status=_TOO_MANY, message=message, problem="refused: rate limit", headers=headers)
