"""Running a task: here and now, or detached and followed; and one door for programs that do not wait."""

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from inspan.errors import BadInput
from inspan.planning.validate import Environment, validate
from inspan.protocol.commands import Cancel, Command, Reply
from inspan.protocol.events import Event
from inspan.protocol.known_types import know_type
from inspan.protocol.task import Task
from inspan.running.callbacks import EventCallback
from inspan.running.prepared_run import PreparedRun
from inspan.running.start import start_supervisor
from inspan.runs.find import find_run_folder, refresh_summary, stop
from inspan.runs.follow import follow as follow_here
from inspan.runs.follow_async import follow_events
from inspan.runs.force import order_end
from inspan.runs.projects import LAST, LAST_ANYWHERE, scope_of
from inspan.stores.paths import state_home
from inspan.stores.run_folder import RunFolder, read_json
from inspan.system.children import reap
from inspan.system.threads import call_in_thread

from .in_process import HandleCommand, OnClaim, OnStart, prepare_in_thread, require_loop, run_in_process
from .options import Path, check_callbacks, check_count, confine_task, normalize_task, path_of
from .result import AgentResult, build_result

if TYPE_CHECKING:
    from inspan.contracts.reporter import Reporter
    from inspan.contracts.sandbox import RunSandbox

    from .responder import Responder

T = TypeVar("T")


async def run(
    task: Task,
    *,
    on_event: EventCallback | None = None,
    reporter: "Reporter | None" = None,
    sandbox: "RunSandbox | str | None" = None,
) -> AgentResult:
    """Runs the task to its end in this process; raises `InspanError` for what cannot be started.

    An agent that fails is a result, not an exception. Cancelling the call ends the run, and the agent dies with this
    process. `on_event` gets every event in order, before redaction (pieces of text and texts over 1 MB come redacted):
    a coroutine function is awaited in this loop, any other is called in a thread of its own. If it is slow the run does
    not wait for it, if it raises it is still called; this call returns once it has heard everything. `reporter` is
    told of the run apart from that, in a thread of its own and redacted as the log is; what it raises ends its telling.
    `sandbox` is the name of one, as in the task, or one that is open: then the run is confined as it is, and whoever
    opened it tears it down. Where the task says otherwise, that is refused.
    """
    return await run_task(confine_task(normalize_task(task), sandbox), on_event=on_event, reporter=reporter)


async def run_task(
    task: Task,
    *,
    on_event: EventCallback | None = None,
    reporter: "Reporter | None" = None,
    on_claim: OnClaim | None = None,
    responder: "Responder | None" = None,
) -> AgentResult:
    """The same; `on_claim` hears of the run's folder before its agent is started, so that no run is ever forgotten.
    The `responder` answers what the agent asks."""
    check_callbacks(on_event, reporter)
    heard = _make_listener(reporter)
    listeners = tuple(each for each in (on_event, responder.on_event if responder else None) if each)
    finished = await run_in_process(
        normalize_task(task),
        on_event=listeners,
        on_redacted=heard,
        on_claim=on_claim,
        on_start=_bind(responder) if responder else None,
    )
    if responder:
        await responder.close()
    return build_result(finished.folder, finished.task, finished.summary)


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
        check_count("from_number", from_number)
        return follow_events(self._state, self._folder, from_number=from_number)

    async def wait(self) -> AgentResult:
        """Waits for its end. Cancelling this does not end the run."""
        async for _ in self.events():
            pass
        summary = await asyncio.to_thread(refresh_summary, self._state, self._folder)
        task = msgspec.convert(read_json(self._folder.file("run.json"))["task"], know_type(Task))
        return build_result(self._folder, task, summary)

    async def stop(self, *, now: bool = False) -> bool:
        """Asks it to end, politely or at once; says whether it heard. It does not wait for the end: `wait` does."""
        command = Cancel(by="killed" if now else "stopped", now=now)
        return await asyncio.to_thread(order_end, self._state, self._folder, command=command)


async def start(task: Task) -> Run:
    """Starts a task under a supervisor of its own and returns at once; raises `InspanError` if it cannot be.

    The loop goes on turning meanwhile. A call that is cancelled starts nothing, or ends what it has started.
    """
    require_loop("inspan.start")
    return Run(*await start_supervised_run(task))


async def start_supervised_run(task: Task) -> tuple[RunFolder, str]:
    """The same; gives the run's folder and the state folder that it is in."""
    prepared = await prepare_in_thread(normalize_task(task), supervised=True)
    # At once, for nothing may come between: what is prepared is either started or undone.
    await call_in_thread(lambda: _start(prepared), limit=None, undo=lambda _: _cancel_run(prepared))
    return prepared.folder, prepared.plan.state


def follow(run: Run | str, *, from_number: int = 1, cwd: Path = "") -> AsyncIterator[Event]:
    """The events of a run, given itself or a name that `find_run` takes; raises `RunNotFound`."""
    check_count("from_number", from_number)
    found = run if isinstance(run, Run) else find_run(run, cwd=cwd)
    return found.events(from_number=from_number)


def find_run(name: str, *, cwd: Path = "") -> Run:
    """A run of this machine by its name, its short name, its id or the beginning of one; raises `RunNotFound`.

    `@last` is the last run of the project to which `cwd`, by default the current folder, belongs, `@2` the one before
    it; `@last-anywhere` is the last of all. A name is looked for in that project first.
    """
    if not isinstance(cast(object, name), str):
        step = f"Give a run id, the beginning of one, {LAST} or {LAST_ANYWHERE}."
        raise BadInput("name", name, "it is not the name of a run.", next_step=step)
    return Run(*locate_run(name, cwd=cwd))


def locate_run(name: str, *, cwd: Path = "") -> tuple[RunFolder, str]:
    """The same; gives the run's folder and the state folder that it is in."""
    scope = None if cwd == "" else scope_of(path_of("cwd", cwd))
    state = state_home(os.environ)
    return find_run_folder(state, name, scope=scope), state


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """The one door for programs without a loop: `run_sync(inspan.run(task))` waits for what any function here gives."""
    if not asyncio.iscoroutine(cast(object, work)):
        step = "For example run_sync(inspan.run(task))."
        raise BadInput("run_sync", work, "it is not a call to wait for.", next_step=step)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    work.close()
    raise BadInput("run_sync", "", "a loop is running here already.", next_step="Use await in place of run_sync.")


def validate_environment(task: Task, *, env: Mapping[str, str] = os.environ) -> Environment:
    """What a run of this task would use: program, version, access, sandbox.

    Raises `InspanError` for the first that would stop it. That an agent has neither a key nor a login does so in the
    profile `clean` alone; elsewhere the agent may know a way of its own, and it is one of the `warnings`.
    """
    return validate(normalize_task(task), env=env)


def _bind(responder: "Responder") -> OnStart:
    def on_start(folder: RunFolder, handle: HandleCommand) -> None:
        async def send(command: Command) -> Reply:
            return handle(command)

        responder.bind(folder.run_id, send)

    return on_start


def _start(prepared: PreparedRun) -> None:
    reap(start_supervisor(prepared))


def _cancel_run(prepared: PreparedRun) -> None:
    """Ends a run whose starter was cancelled meanwhile, and waits for its end."""
    if stop(prepared.folder, command=Cancel(by="interrupted", now=True)):
        for _ in follow_here(prepared.plan.state, prepared.folder):
            pass


def _make_listener(reporter: "Reporter | None") -> EventCallback | None:
    if reporter is None:
        return None
    # Start-up time: few runs are reported.
    from inspan.reporters.events import report_events
    from inspan.reporters.safe_reporter import SafeReporter

    return report_events(SafeReporter(reporter)).show
