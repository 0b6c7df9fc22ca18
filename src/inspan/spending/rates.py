"""Rates of calls: one run's refusal by a provider holds back others that ask the same, and users set limits of theirs.

A hold is for what was refused: calls to that model, at that host, with that key. It is for every model only where the
provider says that the limit is the account's; that two models were told the same moment does not show it, since daily
windows of many models end together, and to be refused once costs less than to wait for nothing. A hold lasts as long
as the provider said, and no longer. Where it refused without a time (429 alone) the others wait
for 2 s, doubled with each further refusal up to 30 s. An overload (503, 529) is only a hold with a time, 60 s at most:
the times of a plan's windows stand beside it and are about something else.
"""

import asyncio
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from random import random
from typing import NamedTuple

from inspan.errors import StateUnusable
from inspan.gateway.control import Refusal
from inspan.gateway.model_call import ModelCall
from inspan.gateway.upstream import Request
from inspan.protocol.http_status import is_error_status
from inspan.protocol.limits import Rates
from inspan.stores.ledger import Ledger
from inspan.stores.ledger_rates import Hold, RateLedger, Wait, is_limited

from .estimates import Estimator
from .ledger_writer import LedgerWriter

_RATE_LIMITED = 429
_OVERLOADED = (503, 529)
_LONGEST_OVERLOAD_S = 60.0
_MAX_POLL_S = 5.0
# So that all who wait for one moment do not ask in the same.
_JITTER_S = 0.25
# Providers round: two that are so near are the same moment.
_ROUNDING_S = 1.0
_KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key")


class RateLimitNotice(NamedTuple):
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
        writer: LedgerWriter,
        *,
        run_id: str,
        provider: str,
        host: str,
        key: str,
        rates: Rates,
        estimator: Estimator,
        on_limited: Callable[[RateLimitNotice], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._writer = writer
        self._run_id = run_id
        self._provider = provider
        self._host = host
        self._key = key
        self._rates = rates
        self._estimator = estimator
        self._on_limited = on_limited
        self._clock = clock
        self._ledgers: dict[str, RateLedger] = {}
        self._pending: dict[int, tuple[str, int]] = {}
        # By model, the empty one for all of them: which holds are on, as far as this run has heard, and until when.
        self._reported_until: dict[str, float] = {}
        self._limited: set[str] = set()

    async def admit(self, request: Request, number: int) -> Refusal | None:
        """Waits while it must; where that would be longer than `longest_hold_s`, it is a 429 as the provider's own."""
        if request.ask is None:
            return None
        key = self._key or _find_key(request)
        tokens = self._estimator.estimate(request).input if self._rates.tokens_per_minute else 0
        try:
            refusal = await self._wait_to_enter(key, number, request.ask.model, tokens)
        except StateUnusable:
            refusal = None
        except asyncio.CancelledError:
            self._leave(key, number, guessed=tokens, used=0)
            raise
        if refusal is None:
            self._pending[number] = (key, tokens)
        return refusal

    def on_progress(self, call: ModelCall) -> None:
        """What a call takes of the rates was guessed, and is corrected at its end."""

    def on_ended(self, call: ModelCall) -> None:
        """Gives back what the call had taken, and lets the others know what the provider said."""
        if call.number not in self._pending:
            return
        key, guessed = self._pending.pop(call.number)
        was_refused = call.problem.startswith("refused")
        is_error = is_error_status(call.status)
        used = call.usage.total if call.usage else 0 if was_refused or is_error else None
        self._leave(key, call.number, guessed=guessed, used=used)
        if was_refused:
            return
        if _is_hold(call):
            until, model = _compute_hold_end(call, self._clock()), "" if call.limits_account else call.model
            self._report_hold(until, call.message, model=model, held=False)
            self._writer.submit(lambda ledger: self._ledger_for(ledger, key).record_hold(until, model=model))
        elif self._limited & {call.model, ""} and call.status is not None and not is_error:
            self._limited -= {call.model, ""}
            self._writer.submit(lambda ledger: self._ledger_for(ledger, key).clear_hold(call.model))

    async def _wait_to_enter(self, key: str, number: int, model: str, tokens: int) -> Refusal | None:
        deadline = time.monotonic() + self._rates.longest_hold_s
        while wait := await self._writer.execute(lambda ledger: self._enter(ledger, key, number, model, tokens)):
            if wait.hold:
                until = wait.hold.until if wait.hold.is_stated else None
                self._report_hold(until, _describe_hold(wait.hold, self._host), model=wait.hold.model, held=True)
            if time.monotonic() + wait.seconds > deadline:
                return _build_refusal(wait, self._provider, self._host)
            await asyncio.sleep(min(wait.seconds, _MAX_POLL_S) + random() * _JITTER_S)
        return None

    def _enter(self, ledger: Ledger, key: str, number: int, model: str, tokens: int) -> Wait | None:
        return self._ledger_for(ledger, key).acquire(
            self._run_id, number, model=model, rates=self._rates, tokens=tokens
        )

    def _leave(self, key: str, number: int, *, guessed: int, used: int | None) -> None:
        if is_limited(self._rates):
            self._writer.submit(
                lambda ledger: self._ledger_for(ledger, key).release(
                    self._run_id, number, rates=self._rates, guessed=guessed, used=used
                )
            )

    def _report_hold(self, until: float | None, message: str, *, model: str, held: bool) -> None:
        """Once for each hold: again only for a later time, or after an answer."""
        before = self._reported_until.get(model, 0.0)
        is_news = model not in self._limited if until is None else until > before + _ROUNDING_S
        self._limited.add(model)
        self._reported_until[model] = max(before, until or 0.0)
        if is_news:
            self._on_limited(RateLimitNotice(message=message, until=until, held=held))

    def _ledger_for(self, ledger: Ledger, key: str) -> RateLedger:
        if key not in self._ledgers:
            self._ledgers[key] = RateLedger(ledger, provider=self._provider, host=self._host, key=key)
        return self._ledgers[key]


def _is_hold(call: ModelCall) -> bool:
    return call.status == _RATE_LIMITED or (call.status in _OVERLOADED and call.resets_at is not None)


def _compute_hold_end(call: ModelCall, now: float) -> float | None:
    if call.resets_at is None or call.status == _RATE_LIMITED:
        return call.resets_at
    return min(call.resets_at, now + _LONGEST_OVERLOAD_S)


def _find_key(request: Request) -> str:
    return next((request.headers[name] for name in _KEY_HEADERS if request.headers.get(name)), "")


def _describe_hold(hold: Hold, host: str) -> str:
    until = f", and takes none until {datetime.fromtimestamp(hold.until, UTC):%Y-%m-%d %H:%M:%S} UTC"
    what = f"a call to {hold.model} with the same key" if hold.model else "a call with the same key, for every model"
    return f"{host} has refused {what}{until if hold.is_stated else ''}"


def _build_refusal(wait: Wait, provider: str, host: str) -> Refusal:
    seconds = max(1, math.ceil(wait.seconds))
    whom = provider if wait.hold is None else f"{wait.hold.model} at {host}" if wait.hold.model else host
    message = f"Too many calls to {whom}: {wait.why} leaves no room for the next {seconds} s."
    headers = {"retry-after": str(seconds)}
    return Refusal(status=_RATE_LIMITED, message=message, problem="refused: rate limit", headers=headers)
