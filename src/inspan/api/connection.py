"""The two ways to an open session: a run of this process, and one with a supervisor of its own."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Protocol

import msgspec

from inspan.errors import AgentFailed, RunNotFound, Unsupported
from inspan.folds.summary import Summary
from inspan.protocol.commands import Cancel, Command, Ping, Reply, refuse
from inspan.protocol.events import Event
from inspan.protocol.known_types import know_type
from inspan.protocol.task import Task
from inspan.protocol.wire import Record
from inspan.runs.control_client import ask_run
from inspan.runs.find import refresh_summary
from inspan.runs.follow_async import follow_records
from inspan.stores.run_folder import RunFolder, read_json
from inspan.system.cancellation import run_to_end, wait_for_end
from inspan.system.threads import call_stranger

from .in_process import FinishedRun, HandleCommand, run_in_process
from .result import build_result
from .run import start_supervised_run

_POLL_S = 0.01
_UNDO_S = 30.0
_CLOSED = "the session has ended"


class Connection(Protocol):
    """An open session. `hear` gets every record from the first on, in order, in this loop."""

    folder: RunFolder
    task: Task

    async def open(self, hear: Callable[[Record], None]) -> None: ...

    async def send(self, command: Command) -> Reply: ...

    async def wait_closed(self) -> Summary: ...

    async def kill(self) -> None:
        """Ends the run at once, or lets go of it where it is not ours."""
        ...

    async def release(self) -> None:
        """Lets go of the run, which goes on; raises `Unsupported` where it cannot. Idempotent."""
        ...


class LocalConnection:
    """A run inside this process, which dies with it."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.folder: RunFolder
        self._run: asyncio.Task[FinishedRun] | None = None
        self._handle: HandleCommand | None = None
        self._number = 0
        self._hear: Callable[[Record], None] = lambda record: None

    async def open(self, hear: Callable[[Record], None]) -> None:
        self._hear = hear
        loop = asyncio.get_running_loop()
        started: asyncio.Future[None] = loop.create_future()

        def on_start(folder: RunFolder, handle: HandleCommand) -> None:
            self.folder, self._handle = folder, handle
            if not started.done():
                started.set_result(None)

        running = self._run = loop.create_task(
            run_in_process(self.task, on_event=self._on_event, on_start=on_start), name="inspan session"
        )
        try:
            await asyncio.wait({running, started}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await wait_for_end(running)
            raise
        if not started.done():
            finished = running.result()  # What cannot be started raises; what could not be spawned is a result.
            build_result(finished.folder, finished.task, finished.summary).check()
            raise AgentFailed("The session ended before it began.", reason="crashed")

    async def send(self, command: Command) -> Reply:
        if self._handle is None or self._run is None or self._run.done():
            return refuse(_CLOSED, closed=True)
        return self._handle(command)

    async def wait_closed(self) -> Summary:
        if self._run is None:
            return Summary()
        return (await asyncio.shield(self._run)).summary

    async def kill(self) -> None:
        if self._run:
            self._run.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await wait_for_end(self._run)

    async def release(self) -> None:
        step = "Open it with supervised=True."
        raise Unsupported("detach", self.folder.run_id, "this session lives in this process.", next_step=step)

    async def _on_event(self, event: Event) -> None:
        self._number += 1
        self._hear(Record(self._number, time.time(), event))


class SupervisedConnection:
    """A run with a supervisor of its own: followed by its log, commanded by its socket."""

    def __init__(self, folder: RunFolder, state: str, task: Task, *, owned: bool) -> None:
        self.folder = folder
        self.task = task
        self._state = state
        self._owned = owned
        self._following: asyncio.Task[None] | None = None

    async def open(self, hear: Callable[[Record], None]) -> None:
        self._following = asyncio.get_running_loop().create_task(self._follow(hear), name="inspan session")

    async def send(self, command: Command) -> Reply:
        reply = await call_stranger(lambda: ask_run(self.folder.socket, command))
        return reply or refuse(_CLOSED, closed=True)

    async def wait_closed(self) -> Summary:
        if self._following:
            await asyncio.shield(self._following)
        return await call_stranger(lambda: refresh_summary(self._state, self.folder))

    async def kill(self) -> None:
        if self._owned:
            await self.send(Cancel(by="interrupted", now=True))
        await self.release()

    async def release(self) -> None:
        if self._following:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following

    async def _follow(self, hear: Callable[[Record], None]) -> None:
        records: AsyncIterator[Record] = follow_records(self._state, self.folder)
        async for record in records:
            hear(record)


async def start_supervised(task: Task) -> SupervisedConnection:
    """Starts a session under a supervisor, and waits until it takes commands."""
    folder, state = await start_supervised_run(task)
    connection = SupervisedConnection(folder, state, task, owned=True)
    try:
        await _wait_until_open(connection, folder, state)
    except asyncio.CancelledError:
        await run_to_end(_stop_when_open(connection, folder, state))  # Nobody would know of it.
        raise
    return connection


async def _stop_when_open(connection: SupervisedConnection, folder: RunFolder, state: str) -> None:
    """Ends a session that takes no commands yet, as soon as it does."""
    deadline = time.monotonic() + _UNDO_S
    while not (await connection.send(Cancel(by="interrupted", now=True))).ok and time.monotonic() < deadline:
        if (await call_stranger(lambda: refresh_summary(state, folder))).ended:
            return
        await asyncio.sleep(_POLL_S)


async def _wait_until_open(connection: SupervisedConnection, folder: RunFolder, state: str) -> None:
    task = connection.task
    deadline = time.monotonic() + (task.limits.start_timeout_s or 60.0)
    while not (await connection.send(Ping())).ok:
        summary = await call_stranger(lambda: refresh_summary(state, folder))
        if summary.ended or time.monotonic() > deadline:
            build_result(folder, task, summary).check()
        await asyncio.sleep(_POLL_S)


async def attach(folder: RunFolder, state: str) -> SupervisedConnection:
    """The way to a session that somebody else opened; raises `RunNotFound` where there is none that is open."""
    task = msgspec.convert(read_json(folder.file("run.json"))["task"], know_type(Task))
    connection = SupervisedConnection(folder, state, task, owned=False)
    if not task.session:
        step = "Open one with inspan.open_session, or `inspan chat`."
        raise RunNotFound(f"Run {folder.run_id} is no session: it took one prompt.", next_step=step)
    if not (await connection.send(Ping())).ok:
        step = f"Go on with it in a new one: resume={folder.run_id!r}."
        raise RunNotFound(f"Session {folder.run_id} is not open any more.", next_step=step)
    return connection
