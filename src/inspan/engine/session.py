"""One run from its first event to its last: the same code in a supervisor and inside somebody's program.

Bytes of the agent go two ways: redacted into `stdout` and `stderr`, and through the dialect and the gate into the log.
"""

import asyncio
import fcntl
import os
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from inspan.contracts.driver import Driver
from inspan.folds.summary import Summary
from inspan.folds.usage import differs
from inspan.framing.jsonl import Lines, Overlong
from inspan.protocol.commands import Cancel, Command, Ping
from inspan.protocol.events import EndingBegan, ErrorReported, Event, RunEnded, Unrecognized, UsageDiffers
from inspan.protocol.limits import Ending
from inspan.protocol.outcome import Reason, outcome_of
from inspan.redaction import SecretSet
from inspan.stores.log import RunLog
from inspan.transports.spawn import Spawned

from .ending import Clock, bring_down, drop_life_line
from .large import LARGE_BYTES, lighten
from .model import ModelEndpoint
from .plan import Plan
from .recorder import RawFile, Recorder
from .sweep import sweep
from .verdict import Facts, judge

if TYPE_CHECKING:
    from .changes import Changes
    from .talk import Talk
    from .telling import Teller, Telling

_READ_BYTES = 256 * 1024
_DRAIN_S = 2.0
_HURRIED_S = 3.0
# An agent that was told that nothing more will come leaves by itself within this, or is made to.
_LEAVE_S = 1.5
_SENT_OFF = Ending(interrupt_s=0.5, terminate_s=1.0)


class Session:
    """Owns a started agent until its log has ended. Make it inside a running loop, `await run()`, nothing is left."""

    def __init__(
        self,
        plan: Plan,
        spawned: Spawned,
        *,
        driver: Driver,
        log: RunLog,
        listener: socket.socket | None = None,
        on_event: "Teller | None" = None,
    ) -> None:
        self._plan = plan
        self._process = spawned
        self._driver = driver
        self._loop = asyncio.get_running_loop()
        self._secrets = SecretSet.shared(plan.secrets)
        self._telling = _telling(on_event, self._complain) if on_event else None
        self._recorder = Recorder(
            log,
            secrets=self._secrets,
            loop=self._loop,
            tell=self._telling.tell if self._telling else None,
            on_refusal=self._break,
        )
        self._talk = self._talking() if spawned.stdin >= 0 else None
        self._dialect = self._talk or driver.channels[0].dialect(plan.task, plan.told)
        self._clock = Clock(plan.task.limits, end=self.end)
        self._model = ModelEndpoint(plan, listener, driver=driver, record=self._record, end=self.end)
        self._changes = _changes(plan)
        self._lines = Lines()
        self._stderr_lines = Lines()
        self._wish: tuple[Reason, str] | None = None
        self._full = False
        self._broken = False
        self._open_pipes = 2
        self._exit_code: int | None = None
        self._signal: int | None = None
        self._started_at = time.monotonic()
        self._exited: asyncio.Future[None] = self._loop.create_future()
        self._drained: asyncio.Future[None] = self._loop.create_future()
        self._wished: asyncio.Future[None] = self._loop.create_future()
        self._hurry: asyncio.Future[None] = self._loop.create_future()
        self._finished: asyncio.Future[None] = self._loop.create_future()

    @property
    def summary(self) -> Summary:
        """What the run has come to so far; complete, with its end, once `run` has returned or raised."""
        return self._recorder.summary

    async def run(self, *, on_start: Callable[[], Awaitable[None]] | None = None) -> RunEnded:
        """Runs to the end, whatever happens; a cancelled caller gets its cancellation after the log has ended."""
        cancelled: asyncio.CancelledError | None = None
        self._record([self._plan.started])
        self._watch()
        try:
            if on_start:
                await on_start()
            await self._live()
        except asyncio.CancelledError as error:
            cancelled = error
            self.end("interrupted", "the program that started the run cancelled it", now=True)
        except Exception as error:  # The gateway or the control socket could not be set up: the run ends, honestly.
            self._break(error)
        cancelled = await _undisturbed(self._quieten) or cancelled
        self._let_go()
        cancelled = await _undisturbed(self._tell_changes) or cancelled
        self._tidy()
        ended = self._conclude()
        if self._telling:
            cancelled = await _undisturbed(self._telling.close) or cancelled
        if cancelled:
            raise cancelled
        return ended

    def end(self, reason: Reason, message: str, *, now: bool = False, grace_s: float = 0.0) -> None:
        """Asks for the end of the run; the first reason given stands, a later `now` only makes it quicker.

        With a grace, the agent has so long to leave by itself before it is made to.
        """
        if self._wish is None and not self._exited.done():
            self._wish = (reason, message)
            self._record([EndingBegan(reason=reason, message=message)])
        if grace_s:
            self._loop.call_later(grace_s, _set, self._wished)
        else:
            _set(self._wished)
        if now:
            _set(self._hurry)

    def obey(self, command: Command) -> str:
        """Carries out a command from outside; gives a sentence when it cannot."""
        if isinstance(command, Cancel):
            self.end(command.by, "killed on request" if command.now else "asked to stop", now=command.now)
            return ""
        if isinstance(command, Ping):
            return ""
        return f"{self._driver.title} takes no such command in this mode"

    async def _live(self) -> None:
        self._clock.arm()
        if self._changes:
            self._changes.begin()
            await self._changes.ready()  # Until then the agent's first call waits: it can change nothing before.
        await self._model.open()
        self._record(self._dialect.open().events)
        await self._first_of(self._exited, self._wished, self._finished)
        if self._finished.done():
            await self._first_of(self._exited, self._wished, seconds=_LEAVE_S)
        await self._bring_down()

    async def _first_of(self, *futures: "asyncio.Future[None]", seconds: float | None = None) -> None:
        await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    async def _bring_down(self) -> None:
        await bring_down(
            self._process,
            depth=self._plan.depth,
            ask=lambda: bool(self._dialect.send(Cancel()).frames),
            exited=self._exited,
            hurry=self._hurry,
            steps=_SENT_OFF if self._finished.done() and not self._wish else Ending(),
        )

    def _watch(self) -> None:
        self._stdout = RawFile(os.path.join(self._plan.folder, "stdout"), self._secrets)
        self._stderr = RawFile(os.path.join(self._plan.folder, "stderr"), self._secrets)
        with suppress(OSError):  # The system's allowance for pipes may be used up; then there are more, smaller reads.
            fcntl.fcntl(self._process.stdout, fcntl.F_SETPIPE_SZ, _READ_BYTES)
        self._pidfd = os.pidfd_open(self._process.pid)
        self._loop.add_reader(self._pidfd, self._reap)
        self._loop.add_reader(self._process.stdout, self._read, self._process.stdout, self._hear)
        self._loop.add_reader(self._process.stderr, self._read, self._process.stderr, self._overhear)

    def _reap(self) -> None:
        self._loop.remove_reader(self._pidfd)
        try:
            _, status = os.waitpid(self._process.pid, 0)
            code = os.waitstatus_to_exitcode(status)
            self._exit_code, self._signal = (code, None) if code >= 0 else (128 - code, -code)
        except ChildProcessError:
            pass  # Somebody else's watcher took the status: the exit code stays unknown.
        _set(self._exited)

    def _read(self, fd: int, take: Callable[[bytes], None]) -> None:
        try:
            chunk = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return
        try:
            if not chunk:
                self._loop.remove_reader(fd)
                self._open_pipes -= 1
            if not self._broken:
                take(chunk)
        except Exception as error:  # A full disk, or a fault of ours or of a callback: either ends the run, honestly.
            self._break(error)
        if not self._open_pipes:
            _set(self._drained)

    def _hear(self, chunk: bytes) -> None:
        """Takes bytes of the agent's main output; an empty chunk is its end."""
        self._clock.hear(event=True)
        self._stdout.write(chunk)
        receive, emit = self._dialect.receive, self._recorder.emit
        for line in self._lines.feed(chunk) if chunk else self._lines.flush():
            if isinstance(line, Overlong):
                emit([_too_long(line)])
            elif len(line) > LARGE_BYTES and not self._talk:
                emit(receive(self._lightened(line)).events)
            elif line:
                emit(receive(line).events)
        if self._talk and not chunk:
            emit(self._talk.close().events)
        self._recorder.settle()

    def _lightened(self, line: bytes, place: int = 0) -> bytes:
        number = self._recorder.next_number + place
        return lighten(line, folder=self._plan.folder, secrets=self._secrets, number=number)

    def _talking(self) -> "Talk":
        from .conversing import talk_of  # Start-up time: most agents are told everything at the start.

        return talk_of(
            self._plan,
            self._driver,
            stdin=self._process.stdin,
            loop=self._loop,
            lighten=self._lightened,
            on_done=lambda: _set(self._finished),
            on_deaf=lambda words: self.end("crashed", words),
        )

    def _overhear(self, chunk: bytes) -> None:
        self._clock.hear(event=False)
        self._stderr.write(chunk)
        for line in self._stderr_lines.feed(chunk) if chunk else self._stderr_lines.flush():
            if not isinstance(line, Overlong):
                self._recorder.emit(self._dialect.overhear(line).events)
        self._recorder.settle()

    def _record(self, events: Sequence[Event]) -> None:
        try:
            self._recorder.emit(events)
            self._recorder.settle()
        except Exception as error:  # As in `_read`: the store may be full, a callback may break.
            self._break(error)

    def _complain(self, message: str) -> None:
        if not self.summary.ended:
            self._record([ErrorReported(message=message)])

    def _break(self, error: Exception) -> None:
        """The harness itself cannot go on: the agent is killed, and the log says why."""
        self._broken = True
        if isinstance(error, OSError):
            self._full = True
            self._wish = ("store", f"the run's folder cannot be written: {error.strerror or error}")
        elif not self._full:
            self._wish = ("harness", f"inspan broke: {error!r}")
        _set(self._wished)
        _set(self._hurry)

    async def _quieten(self) -> None:
        """Ends the agent with all that it started, and its model; begun again, it goes on where it was."""
        await self._bring_down()
        await asyncio.wait({self._drained}, timeout=_DRAIN_S)
        self._clock.disarm()
        await self._model.close()
        if self._changes:
            await self._changes.settle()  # Its programs are the run's too: a sweep would kill them.

    def _let_go(self) -> None:
        if self._talk:
            self._talk.hang_up()
        for fd in (self._pidfd, self._process.stdout, self._process.stderr):
            self._loop.remove_reader(fd)
            os.close(fd)
        drop_life_line(self._process)
        if self._plan.life_line:
            sweep(self._plan.run_id)  # A reaper that the agent has killed could not do it.
        for file in (self._stdout, self._stderr):
            try:
                file.close()
            except OSError as error:
                self._break(error)

    async def _tell_changes(self) -> None:
        if self._changes and not self._broken:
            limit_s = _HURRIED_S if self._wish else None
            self._record(await self._changes.finish(self.summary.files, limit_s=limit_s))

    def _tidy(self) -> None:
        for name in self._plan.litter:
            try:
                os.rmdir(os.path.join(self._plan.task.cwd, name))
            except OSError:
                pass  # Not there, or not empty: then it is no litter.

    def _compare(self) -> None:
        """Tells where the agent's own count of its tokens is not the gateway's."""
        told, measured = self.summary.usage, self.summary.gateway_usage
        percent = differs(told, measured) if told and measured and not self._broken else None
        if told and measured and percent:
            self._record([UsageDiffers(told=told, measured=measured, percent=round(percent, 1))])

    def _conclude(self) -> RunEnded:
        self._compare()
        sent_off = self._finished.done()  # How it left after its turn says nothing about that turn.
        facts = Facts(
            driver=self._driver,
            summary=self.summary,
            exit_code=None if sent_off else self._exit_code,
            signal=None if sent_off else self._signal,
            stderr=self._stderr.tail.decode(errors="replace"),
            wish=self._wish,
            last_call=self._model.last_call,
            complaint=self._model.complaint,
            folder=self._plan.folder,
            schema=self._plan.task.output_schema,
        )
        ended = self._ended(facts)
        self._recorder.close(ended, full=self._full)
        return ended

    def _ended(self, facts: Facts) -> RunEnded:
        verdict, summary = judge(facts), self.summary
        return RunEnded(
            outcome=outcome_of(verdict.reason),
            reason=verdict.reason,
            message=verdict.message,
            next=verdict.next_step.replace("RUN", self._plan.run_id),
            exit_code=self._exit_code,
            signal=self._signal,
            duration_s=round(time.monotonic() - self._started_at, 3),
            session_id=summary.session_id,
            usage=summary.spent,
            cost_usd=summary.spent_usd,
            model_calls=summary.calls,
            files_changed=summary.files_changed,
            resets_at=summary.rate_limit.resets_at if summary.rate_limit else None,
            denied=summary.denied,
            told=summary.usage if summary.gateway_usage else None,
        )


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _changes(plan: Plan) -> "Changes | None":
    if plan.task.mode == "complete":
        return None
    from .changes import Changes  # Start-up time: an answer changes no files.

    return Changes(plan.folder, cwd=plan.task.cwd, mode=plan.task.mode, hidden=(plan.state,))


def _telling(function: "Teller", complain: Callable[[str], None]) -> "Telling":
    from .telling import Telling  # Start-up time: a supervisor calls nobody.

    return Telling(function, on_problem=complain)


async def _undisturbed(work: Callable[[], Awaitable[object]]) -> asyncio.CancelledError | None:
    """Sees a bounded piece of work through, however often the caller is cancelled; gives the last cancellation.

    Work that was cut off is begun again. It has no task of its own: a loop that shuts down would cancel that one too.
    """
    cancelled = None
    while True:
        try:
            await work()
            return cancelled
        except asyncio.CancelledError as error:
            cancelled = error


def _too_long(line: Overlong) -> Unrecognized:
    return Unrecognized(raw=line.head.decode(errors="replace"), note=f"a line of {line.length} bytes is over the limit")
