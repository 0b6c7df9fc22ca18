"""One run from its first event to its last: the same code in a supervisor and inside somebody's program.

Bytes of the agent go two ways: redacted into `stdout` and `stderr`, and through the dialect and the gate into the log.
"""

import asyncio
import os
import socket
import stat
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from inspan.containment.sweep import kill_run_processes
from inspan.contracts.driver import Driver
from inspan.errors import StateUnusable
from inspan.folds.summary import Summary
from inspan.folds.usage import compare_usage
from inspan.framing.jsonl import LineSplitter, OverlongLine
from inspan.protocol.commands import ACCEPTED, Cancel, Command, Ping, Reply, ReportProgress, SubmitToolResult, refuse
from inspan.protocol.events import (
    ChannelChanged,
    EndingBegan,
    ErrorReported,
    Event,
    RunEnded,
    Unrecognized,
    UsageDiffers,
)
from inspan.protocol.limits import ShutdownTimeouts
from inspan.protocol.outcome import Reason
from inspan.protocol.plan import Alternative, Plan
from inspan.redaction import SecretSet
from inspan.stores.event_log import RunLog
from inspan.stores.large_text import LARGE_BYTES, spill_large_texts
from inspan.system import forking
from inspan.system.cancellation import run_to_end
from inspan.system.platform import enlarge_pipe, open_exit_fd
from inspan.system.programs import find_helper
from inspan.system.threads import call_in_thread
from inspan.transports.process import Spawned, was_read

from .model_endpoint import ModelEndpoint
from .recorder import RawFile, Recorder
from .shutdown import TimeLimits, close_liveness_pipe, stop_agent, wait_for_first
from .verdict import Facts, Verdict, describe_missing_calls, judge

if TYPE_CHECKING:
    from inspan.contracts.permissions import KeptApproval

    from .box_network import BoxNetwork
    from .callbacks import CallbackDispatcher, EventCallbacks
    from .changes import ChangeTracker
    from .conversation import Conversation
    from .dialogue import Dialogue
    from .next_channel import Handshake
    from .tool_calls import ToolCalls
    from .watchdog import Watchdog

_FIRST_SIGNAL_CODE = 128
_READ_BYTES = 256 * 1024
_DRAIN_S = 2.0
_FORCED_SNAPSHOT_S = 3.0
# An agent that was told that nothing more will come leaves by itself within this, or is made to.
_EXIT_GRACE_S = 1.5
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# More than inspan writes for any agent: a file that was grown meanwhile is not read to its end.
_LEFTOVER_BYTES = 64 * 1024 * 1024
_DONE_TIMEOUTS = ShutdownTimeouts(interrupt_s=0.5, terminate_s=1.0)


class RunExecution:
    """Owns a started agent until its log has ended. Make it inside a running loop, `await run()`, nothing is left."""

    def __init__(
        self,
        plan: Plan,
        spawned: Spawned,
        *,
        driver: Driver,
        log: RunLog,
        listener: socket.socket | None = None,
        on_event: "EventCallbacks | None" = None,
    ) -> None:
        self._plan = plan
        self._process = spawned
        self._driver = driver
        self._loop = asyncio.get_running_loop()
        self._secrets = SecretSet.get_shared(plan.secrets)
        self._callbacks = _build_dispatcher(on_event, self.report_problem) if on_event else None
        self._recorder = Recorder(
            log,
            secrets=self._secrets,
            loop=self._loop,
            on_events=self._callbacks.dispatch if self._callbacks else None,
            on_sync_error=self._fail,
        )
        self._dialogue = self._build_dialogue() if spawned.stdin >= 0 else None
        self._dialect = self._dialogue or driver.channels[0].dialect(plan.task, plan.session.reported)
        self._time_limits = TimeLimits(plan.task.limits, end=self._on_limit)
        self._tools = _build_tool_calls(self.record) if plan.task.tools else None
        self._model = ModelEndpoint(
            plan, listener, driver=driver, record=self.record, end=self._on_limit, tools=self._tools
        )
        self._conversation = self._build_conversation() if plan.process.conversation else None
        self._handshake = _build_handshake(plan) if plan.alternatives else None
        self._watchdog = self._build_watchdog() if _is_watched(plan) else None
        self._emit = self._choose_emit()
        self._changes = _build_change_tracker(plan)
        self._network: BoxNetwork | None = None
        self._lines = LineSplitter()
        self._stderr_lines = LineSplitter()
        self._stop_request: tuple[Reason, str] | None = None
        self._stop_step = ""
        self._exhausted = ""
        self._full = False
        self._broken = False
        self._forced = False
        self._prompt_was_read: bool | None = None
        self._started_at = time.monotonic()
        self._stop_requested: asyncio.Future[None] = self._loop.create_future()
        self._force: asyncio.Future[None] = self._loop.create_future()
        self._expect_process()

    def _expect_process(self) -> None:
        """What is known of a process that was just started: nothing."""
        self._open_pipes = 2
        self._exit_code: int | None = None
        self._signal: int | None = None
        self._exited: asyncio.Future[None] = self._loop.create_future()
        self._drained: asyncio.Future[None] = self._loop.create_future()
        self._agent_done: asyncio.Future[None] = self._loop.create_future()

    @property
    def summary(self) -> Summary:
        """What the run has come to so far; complete, with its end, once `run` has returned or raised."""
        return self._recorder.summary

    async def run(self, *, on_start: Callable[[], Awaitable[None]] | None = None) -> RunEnded:
        """Runs to the end, whatever happens; a cancelled caller gets its cancellation after the log has ended."""
        cancelled: asyncio.CancelledError | None = None
        self._recorder.adopt(self._plan.started)
        self._start_reading()
        try:
            if on_start:
                await on_start()
            await self._run_agent()
        except asyncio.CancelledError as error:
            cancelled = error
            self.end("interrupted", "the program that started the run cancelled it", now=True)
        except Exception as error:  # The gateway or the control socket could not be set up: the run ends, honestly.
            self._fail(error)
        ended = await run_to_end(self._finish())
        if cancelled:
            raise cancelled
        return ended

    def end(
        self, reason: Reason, message: str, *, now: bool = False, grace_s: float = 0.0, next_step: str = ""
    ) -> None:
        """Asks for the end of the run; the first reason given stands, a later `now` only makes it quicker.

        With a grace, the agent has so long to leave by itself before it is made to.
        """
        self._note_stop(reason, message, next_step=next_step)
        if self._watchdog:
            self._watchdog.close()
        if grace_s:
            self._loop.call_later(grace_s, _set_done, self._stop_requested)
        else:
            _set_done(self._stop_requested)
        if now:
            _set_done(self._force)

    def _note_stop(self, reason: Reason, message: str, *, next_step: str = "") -> None:
        if self._stop_request is None and not self._exited.done():
            self._stop_request = (reason, message)
            self._stop_step = next_step
            self.record([EndingBegan(reason=reason, message=message)])

    def handle_command(self, command: Command) -> Reply:
        """Carries out a command from outside, or says why not."""
        if isinstance(command, Cancel):
            self.end(command.by, "killed on request" if command.now else "asked to stop", now=command.now)
            return ACCEPTED
        if isinstance(command, Ping):
            return ACCEPTED
        if self._tools and isinstance(command, SubmitToolResult):
            return self._tools.submit(command)
        if self._tools and isinstance(command, ReportProgress):
            return self._tools.report(command)
        if self._conversation is None:
            return refuse(f"run {self._plan.run_id} is no open session: it takes no messages")
        has_left = (self._exited.done() or self._agent_done.done()) and not self._handshake  # Else it may come back.
        if self._stop_request or has_left:
            return refuse("it is ending", closed=True)
        return self._conversation.handle(command)

    # What a conversation needs of its run.

    def tell(self, command: Command) -> bool:
        output = self._dialect.send(command)
        self.record(output.events)
        return bool(output.frames or output.events)

    def judge_message(self, summary: Summary, stop_request: tuple[Reason, str] | None) -> Verdict:
        return judge(
            Facts(
                driver=self._driver,
                summary=summary,
                exit_code=None,
                signal=None,
                stderr="",
                stop_request=stop_request,
                last_call=self._model.last_call if summary.calls else None,
                calls_seen=None if self._model.calls_seen is None else summary.calls,
                mismatch=self._model.request_mismatch,
                folder=self._plan.folder,
                schema=self._plan.task.output_schema,
            )
        )

    def begin_message(self) -> None:
        self._model.begin_message()
        self._time_limits.arm()
        if self._watchdog:
            self._watchdog.begin_message()

    def end_message(self) -> None:
        self._time_limits.disarm()
        if self._watchdog:
            self._watchdog.disarm()

    def pause_limits(self, waiting: bool) -> None:
        if waiting:
            self._time_limits.pause()
        else:
            self._time_limits.resume()
        if self._watchdog and waiting:
            self._watchdog.disarm()
        elif self._watchdog:
            self._watchdog.arm()

    # What a watchdog needs of its run.

    def nudge(self, text: str) -> str:
        """Says something into the running turn; gives why that cannot be."""
        if self._conversation is None:
            return f"{self._driver.title} takes no message while it works on this channel"
        return self._conversation.nudge(text)

    def interrupt(self, message: str) -> str:
        """Ends the running turn; gives why that cannot be."""
        if self._conversation is None:
            return f"{self._driver.title} cannot be interrupted on this channel"
        return self._conversation.interrupt_turn("stuck", message)

    def end_with_turn(self, message: str) -> None:
        """The turn was interrupted: a run that has no other ends with it."""
        if not self._plan.task.session:
            self._note_stop("stuck", message)

    def kill(self, message: str) -> None:
        """Ends the run."""
        self.end("stuck", message)

    @property
    def model_active_at(self) -> float:
        """When the model was last heard of, by the clock of the event loop."""
        return self._model.active_at

    @property
    def is_held(self) -> bool:
        """Whether a model call waits for a budget or a rate limit."""
        return self._model.is_held

    @property
    def calls_model(self) -> bool | None:
        """Whether a model call is on its way; `None` where nobody can see that."""
        return self._model.calls_model

    def _build_watchdog(self) -> "Watchdog":
        from .watchdog_setup import build_watchdog  # Start-up time: few runs are watched.

        return build_watchdog(self._plan, self, secrets=self._secrets)

    def leave(self) -> None:
        if self._dialogue:
            self._dialogue.finish()

    @property
    def is_settled(self) -> bool:
        return self._model.is_settled

    async def settle(self, seconds: float) -> None:
        await self._model.settle(seconds)

    def _on_limit(
        self, reason: Reason, message: str, *, now: bool = False, grace_s: float = 0.0, next_step: str = ""
    ) -> None:
        """A limit was passed: of one message, where the session can go on without it, else of the run."""
        if self._conversation and self._conversation.stop_message(reason, message):
            return
        self.end(reason, message, now=now, grace_s=grace_s, next_step=next_step)

    def _build_conversation(self) -> "Conversation":
        # Start-up time: most runs take no messages.
        from inspan.contracts.permissions import KeptApproval, build_rulebook

        from .conversation import Conversation  # Start-up time, as above.

        kept = [KeptApproval(tool=tool, subject=subject) for tool, subject in self._plan.approvals]
        return Conversation(
            self,
            task=self._plan.task,
            preamble=self._plan.process.preamble,
            title=self._driver.title,
            support=self._driver.channels[0].session,
            rules=build_rulebook(self._plan.task, frozenset(kept)),
            keep=self._keep_approval,
        )

    def _keep_approval(self, kept: "KeptApproval") -> None:
        from inspan.stores.approvals import store_approval  # Start-up time: few runs ask.

        try:
            store_approval(self._plan.state, self._plan.project, kept)
        except StateUnusable as error:
            self.report_problem(f"what was allowed for good is not kept: {error}")

    def _emit_observed(self, events: Sequence[Event]) -> None:
        if self._conversation:
            events = self._conversation.admit(events)
        self._recorder.emit(events)
        for event in events:
            if self._watchdog:
                self._watchdog.observe(event)
            if self._conversation:
                self._conversation.observe(event)

    def _emit_in_handshake(self, events: Sequence[Event]) -> None:
        """Until the agent works: a failure is told only once no other channel is left."""
        handshake = self._handshake
        kept = handshake.filter_events(events, has_calls=self._model.has_calls) if handshake else events
        if handshake and handshake.is_over:
            self._handshake = None
            self._emit = self._choose_emit()
        self._emit_observed(kept)
        if handshake and handshake.problem:
            _set_done(self._agent_done)

    def _choose_emit(self) -> Callable[[Sequence[Event]], None]:
        if self._handshake:
            return self._emit_in_handshake
        return self._emit_observed if self._conversation or self._watchdog else self._recorder.emit

    async def _run_agent(self) -> None:
        if not self._conversation:
            self._time_limits.arm()
            if self._watchdog:
                self._watchdog.arm()
        if self._changes:
            self._changes.begin()
            await (
                self._changes.wait_until_ready()
            )  # Until then the agent's first call waits: it can change nothing before.
        await self._adopt_network()
        await self._model.open()
        self.record(self._dialect.open().events)
        if self._conversation:
            self._conversation.begin()
        await self._wait_for_end()
        while self._handshake and await self._try_next_channel(self._handshake):
            await self._wait_for_end()
        if self._agent_done.done():
            await wait_for_first(self._exited, self._stop_requested, seconds=_EXIT_GRACE_S)
        await self._stop_agent()

    async def _adopt_network(self) -> None:
        """What listens in the network of a box is made there, and handed over."""
        link, self._process.link = self._process.link, -1
        if link < 0:
            return
        from .box_network import BoxNetwork  # Start-up time: few runs have a network of their own.

        if self._network:
            await self._network.close()
        self._network = BoxNetwork(self._plan.process, record=self.record)
        listener = await self._network.open(link)
        if listener and self._plan.route.uses_gateway:
            await self._model.adopt(listener)
        elif listener:
            listener.close()

    async def _wait_for_end(self) -> None:
        """Until the agent is gone, has done all that it was told, or is to be ended."""
        ends = (self._exited, self._stop_requested, self._agent_done)
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)

    async def _try_next_channel(self, handshake: "Handshake") -> bool:
        """Starts the agent by its next channel where this one has failed; false where the run goes on, or ends."""
        if self._exited.done():
            await asyncio.wait({self._drained}, timeout=_DRAIN_S)
        if not self._is_channel_broken(handshake):
            return False
        while alternative := handshake.take_next():
            await self._stop_agent()
            await asyncio.wait({self._drained}, timeout=_DRAIN_S)
            if self._stop_request or self._broken:
                return False
            try:
                self._change_channel(alternative, handshake)
                await self._adopt_network()
            except OSError as error:
                self.report_problem(f"channel {alternative.channel} cannot be started: {error.strerror or error}")
                continue
            return True
        if handshake.first and not self._stop_request:
            self._stop_request = (handshake.first.reason, handshake.first.message)
        return False

    def _is_channel_broken(self, handshake: "Handshake") -> bool:
        if self._stop_request or self._broken or self._model.has_calls or handshake.is_over:
            return False
        if handshake.problem:
            return True
        left_by_itself = self._exited.done() and self._signal is None and (self._exit_code or 0) < _FIRST_SIGNAL_CODE
        # That a scenario was not asked for follows from it.
        return left_by_itself and handshake.blame(judge(msgspec.structs.replace(self._facts(), mismatch="")))

    def _change_channel(self, alternative: Alternative, handshake: "Handshake") -> None:
        from .next_channel import adopt_channel, rename_output, update_description  # Start-up time: this is rare.

        plan, driver, spawned = adopt_channel(self._plan, alternative)
        self._release()
        rename_output(self._plan)
        before = self._plan.agent.channel
        self._plan, self._driver, self._process = plan, driver, spawned
        self._expect_process()
        self._dialogue = self._build_dialogue() if self._process.stdin >= 0 else None
        self._dialect = self._dialogue or self._driver.channels[0].dialect(self._plan.task, self._plan.session.reported)
        self._lines, self._stderr_lines = LineSplitter(), LineSplitter()
        self._start_reading()
        update_description(self._plan)
        self.record([ChannelChanged(before=before, after=alternative.channel, reason=handshake.reason)])
        self.record(self._dialect.open().events)
        self._resume_conversation()

    def _resume_conversation(self) -> None:
        """Says to an agent that was started anew what the one before it was told."""
        process, support = self._plan.process, self._driver.channels[0].session
        if self._conversation:
            self._conversation.restart(support, preamble=process.preamble, resend=process.conversation)
        elif process.conversation:
            self._conversation = self._build_conversation()
            self._conversation.begin()

    async def _stop_agent(self) -> None:
        self._forced = self._forced or not self._exited.done()
        await stop_agent(
            self._process,
            agent_depth=self._plan.process.agent_depth,
            ask=lambda: bool(self._dialect.send(Cancel()).frames),
            exited=self._exited,
            force=self._force,
            timeouts=_DONE_TIMEOUTS if self._agent_done.done() and not self._stop_request else ShutdownTimeouts(),
        )

    def _start_reading(self) -> None:
        self._stdout = RawFile(os.path.join(self._plan.folder, "stdout"), self._secrets)
        self._stderr = RawFile(os.path.join(self._plan.folder, "stderr"), self._secrets)
        enlarge_pipe(self._process.stdout, _READ_BYTES)
        self._exit_fd = open_exit_fd(self._process.pid)
        self._loop.add_reader(self._exit_fd, self._reap)
        self._loop.add_reader(self._process.stdout, self._read, self._process.stdout, self._on_stdout)
        self._loop.add_reader(self._process.stderr, self._read, self._process.stderr, self._on_stderr)

    def _reap(self) -> None:
        self._loop.remove_reader(self._exit_fd)
        try:
            _, status = os.waitpid(self._process.pid, 0)
            code = os.waitstatus_to_exitcode(status)
            self._exit_code, self._signal = (code, None) if code >= 0 else (128 - code, -code)
        except ChildProcessError:
            pass  # Somebody else's watcher took the status: the exit code stays unknown.
        _set_done(self._exited)

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
            self._fail(error)
        if not self._open_pipes:
            _set_done(self._drained)

    def _on_stdout(self, chunk: bytes) -> None:
        """Takes bytes of the agent's main output; an empty chunk is its end."""
        self._time_limits.record_activity(event=True)
        if self._watchdog:
            self._watchdog.record_activity()
        self._stdout.write(chunk)
        receive, emit = self._dialect.receive, self._emit
        for line in self._lines.feed(chunk) if chunk else self._lines.flush():
            if isinstance(line, OverlongLine):
                emit([_overlong_event(line)])
            elif len(line) > LARGE_BYTES and not self._dialogue:
                emit(receive(self._spill(line)).events)
            elif line:
                emit(receive(line).events)
        if self._dialogue and not chunk:
            emit(self._dialogue.close().events)
        self._recorder.flush()

    def _spill(self, line: bytes, place: int = 0) -> bytes:
        number = self._recorder.next_number + place
        return spill_large_texts(line, folder=self._plan.folder, secrets=self._secrets, number=number)

    def _build_dialogue(self) -> "Dialogue":
        from .dialogue import build_dialogue  # Start-up time: most agents are told everything at the start.

        return build_dialogue(
            self._plan,
            self._driver,
            stdin=self._process.stdin,
            loop=self._loop,
            spill=self._spill,
            on_done=lambda: _set_done(self._agent_done),
            on_stdin_overflow=lambda words: self.end("crashed", words),
        )

    def _on_stderr(self, chunk: bytes) -> None:
        self._time_limits.record_activity(event=False)
        if self._watchdog:
            self._watchdog.record_activity()
        self._stderr.write(chunk)
        for line in self._stderr_lines.feed(chunk) if chunk else self._stderr_lines.flush():
            if not isinstance(line, OverlongLine):
                self._emit(self._dialect.receive_stderr(line).events)
        self._recorder.flush()

    def record(self, events: Sequence[Event]) -> None:
        """Appends events to the log, through the gate."""
        try:
            self._emit(events)
            self._recorder.flush()
        except Exception as error:  # As in `_read`: the store may be full, a callback may break.
            self._fail(error)

    def report_problem(self, message: str) -> None:
        """Tells of a trouble that does not end the run, as long as its log takes it."""
        if not self.summary.ended:
            self.record([ErrorReported(message=message)])

    def _fail(self, error: Exception) -> None:
        """The harness itself cannot go on: the agent is killed, and the log says why."""
        self._broken = True
        if isinstance(error, OSError):
            self._full = True
            self._stop_request = ("store", f"the run's folder cannot be written: {error.strerror or error}")
        elif not self._full:
            self._stop_request = ("harness", f"inspan broke: {error!r}")
        _set_done(self._stop_requested)
        _set_done(self._force)

    async def _finish(self) -> RunEnded:
        """From the last that the agent does to the last that is told of it."""
        await self._shut_down()
        self._release()
        await self._sweep()
        await self._leave_groups()
        await self._disarm_git()
        await self._report_changes()
        self._remove_leftovers()
        await self._remove_stand_ins()
        await self._leave_worktree()
        ended = self._conclude()
        if self._callbacks:
            await self._callbacks.close()
        return ended

    async def _shut_down(self) -> None:
        """Ends the agent with all that it started, and its model."""
        if self._watchdog:
            self._watchdog.close()
        await self._stop_agent()
        await asyncio.wait({self._drained}, timeout=_DRAIN_S)
        self._time_limits.disarm()
        if self._tools:
            self._tools.close()
        await self._model.close()
        if self._network:
            await self._network.close()
        if self._changes:
            await self._changes.end_first_snapshot()  # Its programs are the run's too: a sweep would kill them.

    def _release(self) -> None:
        self._prompt_was_read = self._check_prompt_was_read()
        if self._dialogue:
            self._dialogue.close_stdin()
        for fd in (self._exit_fd, self._process.stdout, self._process.stderr):
            self._loop.remove_reader(fd)
            forking.close(fd)
        close_liveness_pipe(self._process)
        for file in (self._stdout, self._stderr):
            try:
                file.close()
            except OSError as error:
                self._fail(error)

    async def _sweep(self) -> None:
        """Looks for what containment has missed, unless the agent left by itself: then the namespace has gone with it.

        A reaper can be killed by its agent, and a namespace's first process can outlive the one that was to hold it.
        """
        if self._forced or self._plan.process.liveness_pipe or self._signal or self._exit_code is None:
            await call_in_thread(
                partial(kill_run_processes, self._plan.run_id)
            )  # Some 3 ms for each 100 processes of the machine.

    async def _leave_groups(self) -> None:
        """Removes the control groups of the run's limits, and tells what they have cost it."""
        groups = self._plan.process.entry.groups if self._plan.process.entry else []
        if not groups:
            return
        # Start-up time: few have any.
        from inspan.containment.control_groups import count_memory_kills, count_refused_processes, remove_groups

        if refused := count_refused_processes(groups):
            self._exhausted = "--pids"
            what = "once" if refused == 1 else f"{refused} times"
            self.report_problem(f"It could start no other process {what}: the run had as many as it may (--pids).")
        if killed := count_memory_kills(groups):
            self._exhausted = "--memory"
            what = "1 process was" if killed == 1 else f"{killed} processes were"
            self.report_problem(f"{what} killed because the run had used up its memory (--memory).")
        await call_in_thread(partial(remove_groups, groups))

    async def _disarm_git(self) -> None:
        """Takes out of git data what a box could leave there for later, before anybody uses git."""
        task = self._plan.task
        if self._plan.process.private and task.mode == "exec" and not self._broken:
            from inspan.stores.git_traces import disarm_git  # Start-up time: few runs have a box.

            folders, since, seen = (task.cwd, *task.extra_dirs), self._plan.created_at, self._plan.seen
            look = partial(disarm_git, folders, since=since, besides=task.read, seen=seen)
            for problem in await call_in_thread(look):
                self.report_problem(problem)

    def _check_prompt_was_read(self) -> bool | None:
        """Whether the agent has read what it was to work on, as far as the kernel can tell; asked once."""
        if self._dialogue:
            return self._dialogue.prompt_was_read
        if self._process.given < 0:
            return None
        try:
            return was_read(self._process.given)
        finally:
            os.close(self._process.given)

    async def _report_changes(self) -> None:
        if self._changes and not self._broken:
            limit_s = _FORCED_SNAPSHOT_S if self._stop_request else None
            self.record(await self._changes.finish(self.summary.files, limit_s=limit_s))
            self.summary.drop_files(self._changes.unchanged)
            if self._changes.failure:
                step = "See for yourself: `git status`." if find_helper("git") else "Install git."
                message = f"Which files were changed is not known: {self._changes.failure} {step}"
                self.record([ErrorReported(message=message, about="files")])

    async def _leave_worktree(self) -> None:
        worktree = self._plan.worktree
        if worktree and not self._broken:
            from .worktree_end import leave_worktree  # Start-up time: few runs have a worktree of their own.

            leave = partial(leave_worktree, self._plan.state, worktree.path, run_id=self._plan.run_id)
            self.record([await call_in_thread(leave)])

    def _remove_leftovers(self) -> None:
        for name in self._plan.leftovers.folders:
            try:
                os.rmdir(os.path.join(self._plan.task.cwd, name))
            except OSError:
                pass  # Not there, or not empty: then it is no litter.
        for path in self._plan.leftovers.files:
            with suppress(OSError):
                if _holds(path, self._secrets):
                    os.unlink(path)

    async def _remove_stand_ins(self) -> None:
        paths = self._plan.leftovers.stand_ins
        if paths and not self._broken:
            from inspan.stores.stand_ins import remove_stand_ins  # Start-up time: few runs have any.

            await call_in_thread(partial(remove_stand_ins, self._plan.state, paths, run_id=self._plan.run_id))

    def _compare_usage(self) -> None:
        """Tells where the agent's own count of its tokens is not the gateway's."""
        told, measured = self.summary.usage, self.summary.gateway_usage
        percent = compare_usage(told, measured) if told and measured and not self._broken else None
        if told and measured and percent:
            self.record([UsageDiffers(told=told, measured=measured, percent=round(percent, 1))])

    def _conclude(self) -> RunEnded:
        self._compare_usage()
        missing = "" if self._broken else describe_missing_calls(self._facts())
        if missing:
            self.report_problem(missing)
        if self._conversation and not self._broken:
            self._conversation.close(judge(self._facts(closed=False)))
        ended = self._build_run_ended(self._facts())
        self._recorder.close(ended, full=self._full)
        return ended

    def _facts(self, *, closed: bool | None = None) -> Facts:
        sent_off = self._agent_done.done()  # How it left after its turn says nothing about that turn.
        return Facts(
            driver=self._driver,
            summary=self.summary,
            exit_code=None if sent_off else self._exit_code,
            signal=None if sent_off else self._signal,
            stderr=self._stderr.tail.decode(errors="replace"),
            stop_request=self._stop_request,
            stop_step=self._stop_step,
            last_call=self._model.last_call,
            calls_seen=self._model.calls_seen,
            mismatch=self._model.mismatch,
            exhausted=self._exhausted,
            prompt_was_read=self._prompt_was_read,
            folder=self._plan.folder,
            schema=self._plan.task.output_schema,
            closed=self._plan.task.session and sent_off if closed is None else closed,
        )

    def _build_run_ended(self, facts: Facts) -> RunEnded:
        verdict = judge(facts)
        return self.summary.build_end(
            verdict.reason,
            verdict.message,
            next_step=verdict.step,
            duration_s=time.monotonic() - self._started_at,
            exit_code=self._exit_code,
            signal=self._signal,
        )


def _set_done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _build_change_tracker(plan: Plan) -> "ChangeTracker | None":
    if plan.task.mode == "complete":
        return None
    from .changes import ChangeTracker  # Start-up time: an answer changes no files.

    checkout = plan.worktree.checkout if plan.worktree else ""
    return ChangeTracker(plan.folder, cwd=plan.task.cwd, mode=plan.task.mode, hidden=(plan.state,), checkout=checkout)


def _build_dispatcher(function: "EventCallbacks", complain: Callable[[str], None]) -> "CallbackDispatcher":
    from .callbacks import CallbackDispatcher  # Start-up time: a supervisor calls nobody.

    return CallbackDispatcher(function, on_problem=complain)


def _is_watched(plan: Plan) -> bool:
    return plan.task.watchdog is not None and plan.task.watchdog.has_limit


def _build_handshake(plan: Plan) -> "Handshake":
    from .next_channel import Handshake  # Start-up time: most runs have one channel.

    return Handshake(plan.alternatives)


def _build_tool_calls(record: Callable[[Sequence[Event]], None]) -> "ToolCalls":
    from .tool_calls import ToolCalls  # Start-up time: few runs have tools of the caller's.

    return ToolCalls(record)


def _holds(path: str, secrets: SecretSet) -> bool:
    """Whether a secret stands in a file that was written for the agent; some programs take theirs no other way.

    The agent may have put a pipe or a link there since: nobody waits for the one, or follows the other.
    """
    with open(os.open(path, _FILE), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return False
        text = file.read(_LEFTOVER_BYTES).decode(errors="replace")
    return secrets.redact_text(text) != text


def _overlong_event(line: OverlongLine) -> Unrecognized:
    return Unrecognized(raw=line.head.decode(errors="replace"), note=f"a line of {line.length} bytes is over the limit")
