"""Limits that hold whatever the agent does, and the steps by which a run is brought down."""

import asyncio
import os
import signal
import time
from collections.abc import Callable

from inspan.protocol.limits import Ending, Limits
from inspan.protocol.outcome import Reason
from inspan.transports.spawn import Spawned, agent_pid


class Clock:
    """Arms a run's time limits; calls `end` with the reason once one is passed. No timer ticks while nothing is due."""

    def __init__(self, limits: Limits, *, end: Callable[[Reason, str], None]) -> None:
        self._limits = limits
        self._end = end
        self._heard_at = time.monotonic()
        self._started = False
        self._timers: list[asyncio.TimerHandle] = []

    def arm(self) -> None:
        """Starts counting, now."""
        limits = self._limits
        self._after(limits.timeout_s, self._run_passed)
        self._after(limits.start_timeout_s, self._start_passed)
        self._after(limits.idle_timeout_s, self._idle_passed)

    def hear(self, *, event: bool) -> None:
        """The agent gave a sign of life; `event` when it was one on its main output."""
        self._heard_at = time.monotonic()
        self._started = self._started or event

    def disarm(self) -> None:
        for timer in self._timers:
            timer.cancel()

    def _after(self, seconds: float | None, act: Callable[[], None]) -> None:
        if seconds is not None:
            self._timers.append(asyncio.get_running_loop().call_later(seconds, act))

    def _run_passed(self) -> None:
        self._end("run_timeout", f"the run took longer than {self._limits.timeout_s:g} s")

    def _start_passed(self) -> None:
        if not self._started:
            self._end("start_timeout", f"no event within {self._limits.start_timeout_s:g} s of the start")

    def _idle_passed(self) -> None:
        limit_s = self._limits.idle_timeout_s or 0.0
        left_s = self._heard_at + limit_s - time.monotonic()
        if left_s > 0:
            self._after(left_s, self._idle_passed)
        else:
            self._end("idle_timeout", f"no output for {limit_s:g} s")


async def bring_down(
    process: Spawned,
    *,
    depth: int,
    ask: Callable[[], bool],
    exited: "asyncio.Future[None]",
    hurry: "asyncio.Future[None]",
    steps: Ending,
) -> None:
    """Ask, interrupt, terminate, kill: each bounded, each skipped once the agent is gone; `hurry` goes to the last."""
    if exited.done():
        return
    polite: tuple[tuple[float, Callable[[], bool]], ...] = (
        (steps.ask_s, ask),
        (steps.interrupt_s, lambda: _signal(process, depth, signal.SIGINT)),
        (steps.terminate_s, lambda: _signal(process, depth, signal.SIGTERM)),
    )
    for seconds, act in polite:
        if hurry.done():
            break
        if act():
            await asyncio.wait({exited, hurry}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if exited.done():
            return
    kill(process)
    await asyncio.wait({exited}, timeout=steps.kill_s)


def kill(process: Spawned) -> None:
    """Ends the agent and everything it has started, at once."""
    if process.life >= 0:
        # The reaper kills everything below it and then leaves; killing the reaper would orphan them.
        drop_life_line(process)
        return
    try:
        os.kill(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def drop_life_line(process: Spawned) -> None:
    """Lets go of the pipe that a reaper holds on to; idempotent."""
    if process.life >= 0:
        os.close(process.life)
        process.life = -1


def _signal(process: Spawned, depth: int, number: signal.Signals) -> bool:
    try:
        os.kill(agent_pid(process.pid, depth=depth), number)
    except ProcessLookupError:
        return False
    return True
