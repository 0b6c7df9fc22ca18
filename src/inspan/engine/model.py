"""The run's model endpoint: its gateway, and what the gateway's calls mean for the run."""

import asyncio
import socket
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from inspan.contracts.driver import Driver
from inspan.protocol.events import ErrorReported, Event, ModelCallEnded, RateLimited
from inspan.protocol.outcome import FailureKind, Reason
from inspan.redaction import SecretSet

from .plan import Plan
from .verdict import seen_by_gateway

if TYPE_CHECKING:
    from collections.abc import Callable

    from inspan.gateway import Gateway, ModelCall
    from inspan.gateway.control import Control
    from inspan.gateway.faults import Faults

    from .money.account import Money
    from .upstreams import Answering

_ASKED_AGAIN: frozenset[FailureKind] = frozenset({"rate_limit", "overloaded", "network", "invalid_response"})
_TELLING_S = 5.0
_MESSAGE_CHARACTERS = 2000


class End(Protocol):
    """How a run is ended; with a grace its agent may leave by itself first."""

    def __call__(self, reason: Reason, message: str, *, grace_s: float = 0.0) -> None: ...


class ModelEndpoint:
    """Stands behind the listener that the agent was pointed at; without a listener it does nothing."""

    def __init__(
        self,
        plan: Plan,
        listener: socket.socket | None,
        *,
        driver: Driver,
        record: "Callable[[Sequence[Event]], None]",
        end: End,
    ) -> None:
        self._plan = plan
        self._listener = listener
        self._driver = driver
        self._record = record
        self._end = end
        self._redact = SecretSet.shared(plan.secrets).redact_text
        self._gateway: Gateway | None = None
        self._answering: Answering | None = None
        self._money: Money | None = None
        self._telling: set[asyncio.Task[None]] = set()
        self._opened_at = time.monotonic()
        self.last_call: ModelCallEnded | None = None

    @property
    def complaint(self) -> str:
        """A sentence when a scenario or a cassette and the agent's calls did not fit."""
        return self._answering.complaint if self._answering else ""

    async def open(self) -> None:
        if self._listener or self._plan.task.budgets:
            # Start-up time: the agent is running already while these load, and direct runs never need them.
            from .money.account import Money

            self._money = Money(self._plan, provider=self._driver.provider, record=self._record, end=self._end)
            self._money.open()
        if self._listener is None:
            return
        from inspan.gateway import Gateway

        from .upstreams import Answering

        self._answering = Answering(self._plan, redact=self._redact)
        self._gateway = Gateway(
            token=self._plan.token,
            upstream=self._answering.upstream,
            on_call=self._call_ended,
            stall_timeout_s=self._plan.task.limits.stall_timeout_s,
            on_stall=self._stalled,
            controls=self._controls(),
            faults=self._faults(),
            refusal_status=self._driver.refusal_status,
            expects_tools=self._plan.task.mode != "complete" and not self._driver.hosted,
            # With a key in the token's place, whoever holds the token could read what else the account keeps.
            passes_other=self._plan.route.reaches_provider and not self._plan.route.key,
        )
        await self._gateway.open(self._listener)

    async def close(self) -> None:
        if self._gateway:
            await self._gateway.close()
        elif self._listener:
            self._listener.close()
        if self._answering:
            await self._answering.close()
            if self._answering.problem:
                self._record([ErrorReported(message=self._answering.problem)])
        if self._telling:
            await asyncio.wait(self._telling, timeout=_TELLING_S)
        if self._money:
            await self._money.close(time.monotonic() - self._opened_at)

    def _controls(self) -> "list[Control]":
        """What may refuse a call: the limit on turns, where the agent does not keep that limit itself, and money."""
        money = self._money.controls() if self._money else []
        most = self._plan.task.limits.max_turns
        if most is None or self._driver.capabilities.max_turns != "no":
            return money
        from inspan.gateway.turns import TurnLimit  # Start-up time: few runs have this limit.

        excess = f"the agent wanted to make model call {most + 1}, and {most} are allowed"
        return [TurnLimit(most=most, on_excess=lambda: self._end("max_turns", excess)), *money]

    def _faults(self) -> "Faults | None":
        if not self._plan.task.faults:
            return None
        from inspan.gateway.faults import Faults, parse_fault  # Start-up time: few runs ask for faults.

        return Faults([parse_fault(text) for text in self._plan.task.faults], seed=self._plan.task.fault_seed)

    def _call_ended(self, call: "ModelCall") -> None:
        ended = self.last_call = self._described(call)
        limited = [RateLimited(message=ended.message, resets_at=call.resets_at)] if call.status == 429 else []
        if not self._plan.route.reaches_provider:
            self._record([ended, *limited])
            return self._give_up(ended)
        telling = asyncio.get_running_loop().create_task(self._tell_cost(call, ended))
        self._telling.add(telling)
        return telling.add_done_callback(self._telling.discard)

    def _give_up(self, call: ModelCallEnded) -> None:
        """Ends the run where the agent would make the failed call again, for minutes, and cannot be kept from it."""
        kind = seen_by_gateway(call)
        if kind and kind in _ASKED_AGAIN and self._driver.asks_again and call.role != "side":
            self._end(kind, call.message or f"model call {call.call} failed: {call.problem}")

    async def _tell_cost(self, call: "ModelCall", ended: ModelCallEnded) -> None:
        """Tells of a call once its price is known, which takes a moment for a model that was never asked before."""
        cost_usd = await self._money.cost_of(call) if self._money else None
        self._record([msgspec.structs.replace(ended, cost_usd=cost_usd)])
        self._give_up(ended)

    def _described(self, call: "ModelCall") -> ModelCallEnded:
        # Redact, then cut: half a secret is not found any more.
        message = self._redact(call.message)[:_MESSAGE_CHARACTERS]
        return ModelCallEnded(
            call=call.number,
            wire=call.wire,
            model=call.model,
            status=call.status,
            usage=call.usage,
            duration_s=round(call.duration_s, 3),
            problem=call.problem,
            message=message,
            resets_at=call.resets_at,
            role=call.role,
            extras=call.extras,
        )

    def _stalled(self, call: "ModelCall") -> None:
        limit_s = self._plan.task.limits.stall_timeout_s or 0.0
        self._end("model_stall", f"model call {call.number} sent nothing for {limit_s:g} s")
