"""Limits that hold whatever the agent does, and the steps by which a run is brought down."""

import asyncio
import math
import os
import signal
import time
from collections.abc import Callable

from inspan.protocol.limits import Limits, ShutdownTimeouts
from inspan.protocol.outcome import Reason
from inspan.system import forking
from inspan.system.platform import list_children, read_process_state
from inspan.transports.process import Spawned, find_agent_pid

_SLICE_S = 0.1
# A stop takes effect when the process next leaves the kernel, where it may be making mounts.
_HALT_LOOKS = 1000
_HALT_LOOK_S = 0.001


class TimeLimits:
    """Arms a run's time limits; calls `end` with the reason once one is passed. No timer ticks while nothing is due."""

    def __init__(self, limits: Limits, *, end: Callable[[Reason, str], None]) -> None:
        self._limits = limits
        self._end = end
        self._active_at = time.monotonic()
        self._started = False
        self._timers: list[asyncio.TimerHandle] = []
        self._armed_at = 0.0
        self._left_s: float | None = None

    def arm(self) -> None:
        """Starts counting, now: for a run, or for one message of a session."""
        self._left_s = self._limits.timeout_s
        self._count()

    def pause(self) -> None:
        """Stops counting, for as long as a person is waited for."""
        if self._left_s is not None:
            self._left_s = max(0.0, self._left_s - (time.monotonic() - self._armed_at))
        self.disarm()

    def resume(self) -> None:
        """Counts on from where it was paused."""
        self._count()

    def _count(self) -> None:
        self.disarm()
        self._armed_at = self._active_at = time.monotonic()
        self._schedule(self._left_s, self._on_run_timeout)
        if not self._started:
            self._schedule(self._limits.start_timeout_s, self._on_start_timeout)
        self._schedule(self._limits.idle_timeout_s, self._on_idle_timeout)

    def record_activity(self, *, event: bool) -> None:
        """The agent gave a sign of life; `event` when it was one on its main output."""
        self._active_at = time.monotonic()
        self._started = self._started or event

    def disarm(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _schedule(self, seconds: float | None, act: Callable[[], None]) -> None:
        if seconds is not None:
            self._timers.append(asyncio.get_running_loop().call_later(seconds, act))

    def _on_run_timeout(self) -> None:
        self._end("run_timeout", f"the run took longer than {self._limits.timeout_s:g} s")

    def _on_start_timeout(self) -> None:
        if not self._started:
            self._end("start_timeout", f"no event within {self._limits.start_timeout_s:g} s of the start")

    def _on_idle_timeout(self) -> None:
        limit_s = self._limits.idle_timeout_s or 0.0
        left_s = self._active_at + limit_s - time.monotonic()
        if left_s > 0:
            self._schedule(left_s, self._on_idle_timeout)
        else:
            self._end("idle_timeout", f"no output for {limit_s:g} s")


async def stop_agent(
    process: Spawned,
    *,
    agent_depth: int,
    ask: Callable[[], bool],
    exited: "asyncio.Future[None]",
    force: "asyncio.Future[None]",
    timeouts: ShutdownTimeouts,
) -> None:
    """Ask, interrupt, terminate, kill: each bounded, each skipped once the agent is gone; `force` goes to the last."""
    if exited.done():
        return
    polite: tuple[tuple[float, Callable[[], bool]], ...] = (
        (timeouts.ask_s, ask),
        (timeouts.interrupt_s, lambda: _send_signal(process, agent_depth, signal.SIGINT)),
        (timeouts.terminate_s, lambda: _send_signal(process, agent_depth, signal.SIGTERM)),
    )
    for seconds, act in polite:
        if force.done():
            break
        if act():
            await wait_for_first(exited, force, seconds=seconds)
        if exited.done():
            return
    await kill(process)
    await asyncio.wait({exited}, timeout=timeouts.kill_s)


async def wait_for_first(*futures: "asyncio.Future[None]", seconds: float) -> None:
    """Waits so long for the first of them, in slices: time for which the whole machine stands still, the other side
    has not had either."""
    for _ in range(math.ceil(seconds / _SLICE_S)):
        done, _ = await asyncio.wait(futures, timeout=_SLICE_S, return_when=asyncio.FIRST_COMPLETED)
        if done:
            return


async def kill(process: Spawned) -> None:
    """Ends the agent and everything it has started, at once."""
    if process.life >= 0:
        # The reaper kills everything below it and then leaves; killing the reaper would orphan them.
        close_liveness_pipe(process)
        return
    # A namespace ends with its first process, which binds itself to its parent only late in its start: if the parent
    # were killed before, it would go on alone. A parent that is stopped has all its children, and makes no more.
    _send(process.pid, signal.SIGSTOP)
    await _wait_until_stopped(process.pid)
    for pid in (*list_children(process.pid), process.pid):
        _send(pid, signal.SIGKILL)


def close_liveness_pipe(process: Spawned) -> None:
    """Lets go of the pipe that a reaper holds on to; idempotent."""
    if process.life >= 0:
        forking.close(process.life)
        process.life = -1


async def _wait_until_stopped(pid: int) -> None:
    """Waits until a process does nothing any more, or is gone; a moment at most."""
    for _ in range(_HALT_LOOKS):
        if read_process_state(pid) in "TtZX":
            return
        await asyncio.sleep(_HALT_LOOK_S)


def _send_signal(process: Spawned, depth: int, number: signal.Signals) -> bool:
    """Whether the agent was there to be told; one that is still being started has nothing to bring to an end."""
    pid = find_agent_pid(process.pid, depth=depth)
    return pid is not None and _send(pid, number)


def _send(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
