"""Running a task: here and now, or detached and followed; and one door for programs that do not wait."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from inspan.engine.embed import prepared_apart, run_here
from inspan.engine.runs import find, settle, stop
from inspan.engine.start import start as start_supervisor
from inspan.engine.telling import Listener
from inspan.errors import BadInput
from inspan.protocol.commands import Cancel
from inspan.protocol.events import Event
from inspan.protocol.task import Task
from inspan.stores.folder import RunFolder, read_json
from inspan.stores.paths import state_home

from .following import events_of
from .options import checked
from .result import Result, result_of

if TYPE_CHECKING:
    from inspan.contracts.reporter import Reporter

T = TypeVar("T")


async def run(task: Task, *, on_event: Listener | None = None, reporter: "Reporter | None" = None) -> Result:
    """Runs the task to its end in this process; raises `InspanError` for what cannot be started.

    An agent that fails is a result, not an exception. Cancelling the call ends the run, and the agent dies with this
    process. `on_event` gets every event in order, before redaction (pieces of text and texts over 1 MB come redacted):
    a coroutine function is awaited in this loop, any other is called in a thread of its own. If it is slow the run does
    not wait for it, if it raises it goes on being called; this call returns once it has heard everything. `reporter` is
    told of the run apart from that, in a thread of its own and redacted as the log is; what it raises ends its telling.
    """
    finished = await run_here(checked(task), on_event=on_event, on_redacted=_heard(reporter))
    return result_of(finished.folder, finished.task, finished.summary)


class Run:
    """A run with a supervisor of its own: it goes on when this program ends, and can be found again by `run_id`."""

    def __init__(self, folder: RunFolder, state: str) -> None:
        self.run_id: str = folder.run_id
        self._folder = folder
        self._state = state

    def __repr__(self) -> str:
        return f"Run({self.run_id!r})"

    def events(self, *, from_number: int = 1) -> AsyncIterator[Event]:
        """Its events from a number on, as they come, until the last."""
        return events_of(self._state, self._folder, from_number=from_number)

    async def wait(self) -> Result:
        """Waits for its end. Cancelling this does not end the run."""
        async for _ in self.events():
            pass
        summary = await asyncio.to_thread(settle, self._state, self._folder)
        task = msgspec.convert(read_json(self._folder.file("run.json"))["task"], Task)
        return result_of(self._folder, task, summary)

    async def stop(self, *, now: bool = False) -> bool:
        """Asks it to end, politely or at once; says whether it heard."""
        command = Cancel(by="killed" if now else "stopped", now=now)
        return await asyncio.to_thread(stop, self._folder, command=command)


async def start(task: Task) -> Run:
    """Starts a task under a supervisor of its own and returns at once; raises `InspanError` if it cannot be."""
    prepared = await prepared_apart(checked(task))
    pid = start_supervisor(prepared)
    if pid:
        threading.Thread(target=_reap, args=(pid,), name="inspan-reaper", daemon=True).start()
    return Run(prepared.folder, prepared.plan.state)


def follow(run: Run | str, *, from_number: int = 1) -> AsyncIterator[Event]:
    """The events of a run, given itself or its id (a unique beginning of one, or `@last`); raises `RunNotFound`."""
    found = run if isinstance(run, Run) else find_run(run)
    return found.events(from_number=from_number)


def find_run(name: str) -> Run:
    """A run of this machine by its id, the beginning of one, or `@last`; raises `RunNotFound`."""
    state = state_home(os.environ)
    return Run(find(state, name), state)


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """The one door for programs without a loop: `run_sync(inspan.run(task))` waits for what any function here gives."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    work.close()
    raise BadInput("run_sync", "", "a loop is running here already.", next_step="Use await in place of run_sync.")


def _reap(pid: int) -> None:
    """Waits for a supervisor of ours to leave: a program that stays would collect dead ones otherwise."""
    with suppress(ChildProcessError):  # Somebody else's watcher took it, or children are ignored here.
        os.waitpid(pid, 0)


def _heard(reporter: "Reporter | None") -> Listener | None:
    if reporter is None:
        return None
    # Start-up time: few runs are reported.
    from inspan.reporters.events import report_events
    from inspan.reporters.guarded import Guarded

    return report_events(Guarded(reporter)).show
