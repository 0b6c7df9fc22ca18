"""A reply that is measured on its way out, and watched while nothing goes out."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from inspan.gateway.control import Control, next_report_bytes
from inspan.gateway.http.server import HttpReply
from inspan.gateway.upstream import Reply
from inspan.gateway.wires.wire import Wire
from inspan.protocol.http_status import is_error_status

from .model_call import ModelCall, Role
from .usage_meter import Room, UsageMeter

_TICK_S = 0.001  # Timers of the loop may come this much too early.


@dataclass(frozen=True, kw_only=True, slots=True)
class StallWatch:
    """How long a call may stay silent, and who hears of it; no timeout, no watch."""

    timeout_s: float | None
    on_stall: Callable[[ModelCall], None] | None


class MeteredReply:
    """Passes one call's answer on and can say at any time, as a `ModelCall`, what is known of it.

    What the upstream sends is measured, whatever of it reaches the client. Silence counts from `begin` on.
    """

    def __init__(
        self,
        client: HttpReply,
        *,
        wire: Wire,
        model: str,
        number: int,
        watch: StallWatch,
        request_bytes: int = 0,
        room: Room | None = None,
    ) -> None:
        self._client = client
        self._reply: Reply = client
        self._wire = wire
        self._model = model
        self._watch = watch
        self._request_bytes = request_bytes
        self.number = number
        self.role: Role = "main"
        self.admitted_by: list[Control] = []
        self._meter = UsageMeter(wire, room=room)
        self._loop = asyncio.get_running_loop()
        self._began_at = self._loop.time()
        self._active_at = self._began_at
        self._timer: asyncio.TimerHandle | None = None
        self._noted_problem = ""
        self._is_silent = False
        self._is_finished = False
        self._is_cut = False
        self._report_bytes = 1
        self._is_reported_whole = False

    def begin(self, wrap: Callable[[Reply], Reply] | None = None) -> None:
        """The upstream is asked now; `wrap` may put something between this reply and the client."""
        if wrap:
            self._reply = wrap(self._client)
        self._arm()

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        self._meter.start(status, headers)
        await self._reply.start(status, headers)
        self._arm()

    async def write(self, data: bytes) -> None:
        # Measured before it is sent: clients hang up on the last event, whose tokens are spent anyway.
        self._meter.feed(data)
        if self.admitted_by:
            self._report_progress()
        await self._reply.write(data)
        self._arm()

    async def finish(self) -> None:
        self._meter.finish()
        self._is_finished = True
        await self._reply.finish()

    def cut(self) -> None:
        self._is_cut = True
        self._reply.cut()

    def note(self, problem: str) -> None:
        self._noted_problem = problem

    @property
    def active_at(self) -> float:
        """When it began, or something last went out of it, by the clock of the event loop."""
        return self._active_at

    @property
    def started(self) -> bool:
        return self._meter.status is not None

    def report(self) -> ModelCall:
        """What is known by now."""
        return ModelCall(
            number=self.number,
            wire=self._wire.name,
            model=self._model,
            status=self._meter.status,
            usage=self._meter.usage,
            duration_s=self._loop.time() - self._began_at,
            problem=self._noted_problem or self._find_problem(),
            message=self._meter.message,
            resets_at=self._meter.resets_at,
            role=self.role,
            extras=self._meter.extras,
            whole=self._meter.is_whole,
            limits_account=self._meter.limits_account,
            request_bytes=self._request_bytes,
            answer_bytes=self._meter.bytes_read,
        )

    def disarm(self) -> None:
        """Ends the watch; to be called when the answer is over, however it ended. Nothing of it is kept any more."""
        self._meter.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _report_progress(self) -> None:
        is_whole = self._meter.is_whole and not self._is_reported_whole
        is_due = self._meter.bytes_read >= self._report_bytes or is_whole
        if not is_due or is_error_status(self._meter.status):
            return
        self._is_reported_whole = self._meter.is_whole
        self._report_bytes = next_report_bytes(self._meter.bytes_read)
        call = self.report()
        for control in self.admitted_by:
            control.on_progress(call)

    def _find_problem(self) -> str:
        if self._is_silent:
            return "stalled"
        if self._has_failed():
            return ""
        if self._meter.has_failed:
            return "error in the answer"
        if self._meter.has_ended:
            return ""
        if self._is_finished and self._meter.is_unread:
            return "too large to be read"
        if self._is_finished and not self._meter.events_read:
            return "garbage"
        hung_up = self._client.client_is_gone and not self._is_cut and not self._is_finished
        return "client hung up" if hung_up else "cut"

    def _has_failed(self) -> bool:
        return self._is_finished and is_error_status(self._meter.status)

    def _arm(self) -> None:
        """From here on silence counts anew. The timer that runs is left alone: setting one costs more than looking."""
        self._is_silent = False
        self._active_at = self._loop.time()
        if self._watch.timeout_s is not None and self._timer is None and not self._is_finished:
            self._timer = self._loop.call_later(self._watch.timeout_s, self._check_silence, self._watch.timeout_s)

    def _check_silence(self, timeout_s: float) -> None:
        left_s = self._active_at + timeout_s - self._loop.time()
        if left_s > _TICK_S:
            self._timer = self._loop.call_later(left_s, self._check_silence, timeout_s)
        else:
            self._on_silence()

    def _on_silence(self) -> None:
        self._timer = None
        self._is_silent = True
        if self._watch.on_stall is not None:
            self._watch.on_stall(self.report())
