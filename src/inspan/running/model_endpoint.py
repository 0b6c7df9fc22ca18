"""The run's model endpoint: its gateway, and what the gateway's calls mean for the run."""

import asyncio
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from inspan.contracts.driver import Driver
from inspan.contracts.end_run import EndRun
from inspan.protocol.events import ErrorReported, Event, ModelCallEnded, RateLimited
from inspan.protocol.outcome import FailureKind
from inspan.protocol.plan import Plan
from inspan.redaction import SecretSet

from .verdict import describe_failure, gateway_failure_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from inspan.gateway import Gateway, ModelCall
    from inspan.gateway.control import Control
    from inspan.gateway.faults import Faults
    from inspan.gateway.tool_endpoint import ToolEndpoint
    from inspan.gateway.turn_limit import TurnLimit
    from inspan.spending.account import SpendingAccount

    from .tool_calls import ToolCalls
    from .upstreams import RunUpstream

_RETRIED_KINDS: frozenset[FailureKind] = frozenset({"rate_limit", "overloaded", "network", "invalid_response"})
# Longer than a price may take that has to be looked up: a call is told of in any case.
_REPORT_S = 25.0
_MESSAGE_CHARACTERS = 2000


class ModelEndpoint:
    """Stands behind the listener that the agent was pointed at; without a listener it does nothing."""

    def __init__(
        self,
        plan: Plan,
        listener: socket.socket | None,
        *,
        driver: Driver,
        record: "Callable[[Sequence[Event]], None]",
        end: EndRun,
        tools: "ToolCalls | None" = None,
    ) -> None:
        self._plan = plan
        self._listener = listener
        self._driver = driver
        self._record = record
        self._end = end
        self._tools = tools
        self._redact = SecretSet.get_shared(plan.secrets).redact_text
        self._gateway: Gateway | None = None
        self._upstream: RunUpstream | None = None
        self._account: SpendingAccount | None = None
        self._turn_limit: TurnLimit | None = None
        self._reports: set[asyncio.Task[None]] = set()
        self._told_of_call = asyncio.Event()
        self._opened_at = time.monotonic()
        self.last_call: ModelCallEnded | None = None
        self._calls = 0

    @property
    def calls_seen(self) -> int | None:
        """How many model calls came here; None where the agent was pointed at nothing of ours."""
        return self._calls if self._listener else None

    @property
    def has_calls(self) -> bool:
        """Whether any model call came here, one that goes on too."""
        return bool(self._calls) or not self.is_settled

    @property
    def mismatch(self) -> str:
        """A sentence when a scenario or a cassette and the agent's calls did not fit."""
        return self._upstream.mismatch if self._upstream else ""

    @property
    def request_mismatch(self) -> str:
        """The same of the calls so far."""
        return self._upstream.request_mismatch if self._upstream else ""

    async def adopt(self, listener: socket.socket) -> None:
        """Serves this listener from now on, which the agent finds under the same address."""
        if self._listener:
            self._listener.close()
        self._listener = listener
        if self._gateway:  # Another process of the same run.
            await self._gateway.open(listener)

    async def open(self) -> None:
        if self._listener or self._plan.task.budgets:
            # Start-up time: the agent is running already while these load, and direct runs never need them.
            from inspan.spending.account import SpendingAccount

            self._account = SpendingAccount(
                self._plan, provider=self._driver.provider.vendor, record=self._record, end=self._end
            )
            self._account.open()
        if self._listener is None:
            return
        from inspan.gateway import Gateway  # Start-up time: runs without a gateway do not need it.

        from .upstreams import RunUpstream  # Start-up time: runs without a gateway do not need it.

        self._upstream = RunUpstream(self._plan, redact=self._redact)
        self._gateway = Gateway(
            token=self._plan.token,
            upstream=self._upstream.upstream,
            on_call=self._on_call_ended,
            stall_timeout_s=self._plan.task.limits.stall_timeout_s,
            on_stall=self._on_stall,
            controls=self._build_controls(),
            faults=self._build_faults(),
            refusal_status=self._driver.refusal_status,
            expects_tools=self._plan.task.mode != "complete" and not self._driver.program.hosted,
            # With a key in the token's place, whoever holds the token could read what else the account keeps.
            passes_other=self._plan.route.reaches_provider and not self._plan.route.key,
            on_fault=self._on_gateway_fault,
            tools=self._build_tools(),
        )
        await self._gateway.open(self._listener)

    @property
    def is_settled(self) -> bool:
        """Whether every call that came here has been told of."""
        return not self._reports and not (self._gateway and self._gateway.calls_in_flight)

    @property
    def active_at(self) -> float:
        """When a model call last began, brought something or ended, by the clock of the event loop."""
        return self._gateway.active_at if self._gateway else 0.0

    @property
    def is_held(self) -> bool:
        """Whether a call waits for a budget or a rate limit."""
        return bool(self._gateway and self._gateway.calls_held)

    @property
    def calls_model(self) -> bool | None:
        """Whether a call is on its way; `None` where none comes through here."""
        return bool(self._gateway.calls_in_flight) if self._gateway else None

    async def settle(self, seconds: float) -> None:
        """Waits for that, so long at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self.is_settled:
                    self._told_of_call.clear()
                    await self._told_of_call.wait()

    def begin_message(self) -> None:
        """From now on turns are counted for another message."""
        if self._turn_limit:
            self._turn_limit.reset()

    async def close(self) -> None:
        if self._gateway:
            await self._gateway.close()
            self._record(list(_describe_rejected_requests(self._gateway)))
        elif self._listener:
            self._listener.close()
        if self._upstream:
            await self._upstream.close()
            if self._upstream.problem:
                self._record([ErrorReported(message=self._upstream.problem)])
        if self._reports:
            await asyncio.wait(self._reports, timeout=_REPORT_S)
        if self._account:
            await self._account.close(time.monotonic() - self._opened_at)

    def _build_controls(self) -> "list[Control]":
        """What may refuse a call: the limit on turns, where the agent does not keep that limit itself, and money."""
        money = self._account.build_controls() if self._account else []
        most = self._plan.task.limits.max_turns
        if most is None or self._driver.capabilities.max_turns != "no":
            return money
        from inspan.gateway.turn_limit import TurnLimit  # Start-up time: few runs have this limit.

        excess = f"the agent tried to make model call {most + 1}; the limit is {most}"
        self._turn_limit = TurnLimit(max_calls=most, on_excess=lambda: self._end("max_turns", excess))
        return [self._turn_limit, *money]

    def _build_tools(self) -> "ToolEndpoint | None":
        if self._tools is None:
            return None
        from inspan.gateway.tool_endpoint import ToolEndpoint  # Start-up time: few runs have tools of the caller's.

        return ToolEndpoint(self._plan.task.tools, self._tools.call)

    def _build_faults(self) -> "Faults | None":
        if not self._plan.task.faults:
            return None
        from inspan.gateway.faults import Faults, parse_fault  # Start-up time: few runs ask for faults.

        return Faults([parse_fault(text) for text in self._plan.task.faults], seed=self._plan.task.fault_seed)

    def _on_call_ended(self, call: "ModelCall") -> None:
        self._calls += 1
        ended = self.last_call = self._build_event(call)
        limited = [RateLimited(message=ended.message, resets_at=call.resets_at)] if call.status == 429 else []
        if not self._plan.route.reaches_provider:
            not_paid_usd = self._account.compute_cost_now(call) if self._account else None
            self._record([msgspec.structs.replace(ended, not_paid_usd=not_paid_usd), *limited])
            self._told_of_call.set()
            return self._end_if_retried(ended)
        telling = asyncio.get_running_loop().create_task(self._report_cost(call, ended))
        self._reports.add(telling)
        return telling.add_done_callback(self._forget_report)

    def _forget_report(self, telling: "asyncio.Task[None]") -> None:
        self._reports.discard(telling)
        self._told_of_call.set()

    def _end_if_retried(self, call: ModelCallEnded) -> None:
        """Ends the run where the agent would make the failed call again, for minutes, and cannot be kept from it."""
        kind = gateway_failure_kind(call)
        if kind and kind in _RETRIED_KINDS and self._driver.always_retries and call.role != "side":
            self._end(kind, _describe_failed_call(call))

    async def _report_cost(self, call: "ModelCall", ended: ModelCallEnded) -> None:
        """Tells of a call once its price is known, which takes a moment for a model that was never asked before."""
        cost_usd = await self._account.compute_cost(call) if self._account else None
        self._record([msgspec.structs.replace(ended, cost_usd=cost_usd)])
        self._end_if_retried(ended)

    def _build_event(self, call: "ModelCall") -> ModelCallEnded:
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

    def _on_gateway_fault(self, error: Exception) -> None:
        """The gateway is ours: that it broke says nothing of the network or the provider."""
        from inspan.gateway.http.server import log_fault  # Start-up time: it is loaded by now.

        self._end("harness", f"inspan's gateway broke: {error!r}")
        log_fault(error)

    def _on_stall(self, call: "ModelCall") -> None:
        limit_s = self._plan.task.limits.stall_timeout_s or 0.0
        self._end("model_stall", f"model call {call.number} sent nothing for {limit_s:g} s")


def _describe_failed_call(call: ModelCallEnded) -> str:
    said = describe_failure(call)
    return said if said == call.message else f"model call {call.call} failed: {said}"


def _describe_rejected_requests(gateway: "Gateway") -> "Iterator[Event]":
    """What the gateway did not serve, as one number: it must not be able to fill the log."""
    if gateway.unauthorized_requests:
        count = _format_count(gateway.unauthorized_requests)
        yield ErrorReported(message=f"The gateway rejected {count} without the run's token.")
    if gateway.unexpected_requests:
        count = _format_count(gateway.unexpected_requests)
        yield ErrorReported(message=f"The gateway refused {count} from the agent that it does not serve.")


def _format_count(number: int) -> str:
    return "1 request" if number == 1 else f"{number} requests"
