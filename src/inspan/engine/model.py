"""The run's model endpoint: its gateway, and what the gateway's calls mean for the run."""

import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from inspan.protocol.events import Event, ModelCallEnded, RateLimited
from inspan.protocol.outcome import Reason
from inspan.redaction import SecretSet

from . import registry
from .plan import Plan

if TYPE_CHECKING:
    from inspan.gateway import Gateway, ModelCall, ScriptUpstream
    from inspan.gateway.upstream import Upstream

_MESSAGE_CHARACTERS = 2000


class ModelEndpoint:
    """Stands behind the listener that the agent was pointed at; without a listener it does nothing."""

    def __init__(
        self,
        plan: Plan,
        listener: socket.socket | None,
        *,
        record: Callable[[Sequence[Event]], None],
        end: Callable[[Reason, str], None],
    ) -> None:
        self._plan = plan
        self._listener = listener
        self._record = record
        self._end = end
        self._redact = SecretSet.shared(plan.secrets).redact_text
        self._gateway: Gateway | None = None
        self._script: ScriptUpstream | None = None
        self.last_call: ModelCallEnded | None = None

    @property
    def complaint(self) -> str:
        """A sentence when the scenario and the agent's calls did not fit."""
        return self._script.complaint if self._script else ""

    async def open(self) -> None:
        if self._listener is None:
            return
        # Start-up time: the agent is running already while these load, and direct runs never need them.
        from inspan.gateway import Gateway, ScriptUpstream, load_scenario

        scenario = load_scenario(self._plan.task.model_from.partition(":")[2])
        self._script = ScriptUpstream(scenario, cwd=self._plan.task.cwd, redact=self._redact)
        self._gateway = Gateway(
            token=self._plan.token,
            upstream=self._limited(self._script),
            on_call=self._call_ended,
            stall_timeout_s=self._plan.task.limits.stall_timeout_s,
            on_stall=self._stalled,
        )
        await self._gateway.open(self._listener)

    def _limited(self, upstream: "Upstream") -> "Upstream":
        """The upstream with the limit on turns in front of it, where the agent does not keep that limit itself."""
        most = self._plan.task.limits.max_turns
        if most is None or registry.driver(self._plan.agent).capabilities.max_turns != "no":
            return upstream
        from inspan.gateway.turns import TurnLimit  # Start-up time: few runs have this limit.

        excess = f"the agent wanted to make model call {most + 1}, and {most} are allowed"
        return TurnLimit(upstream, most=most, on_excess=lambda: self._end("max_turns", excess))

    async def close(self) -> None:
        if self._gateway:
            await self._gateway.close()
        elif self._listener:
            self._listener.close()

    def _call_ended(self, call: "ModelCall") -> None:
        # Redact, then cut: half a secret is not found any more.
        message = self._redact(call.message)[:_MESSAGE_CHARACTERS]
        self.last_call = ModelCallEnded(
            call=call.number,
            wire=call.wire,
            model=call.model,
            status=call.status,
            usage=call.usage,
            duration_s=round(call.duration_s, 3),
            problem=call.problem,
            message=message,
            resets_at=call.resets_at,
        )
        limited = [RateLimited(message=message, resets_at=call.resets_at)] if call.status == 429 else []
        self._record([self.last_call, *limited])

    def _stalled(self, call: "ModelCall") -> None:
        limit_s = self._plan.task.limits.stall_timeout_s or 0.0
        self._end("model_stall", f"model call {call.number} sent nothing for {limit_s:g} s")
