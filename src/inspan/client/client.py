"""One client for a program: of this machine, or of a server; the same methods, the same values."""

import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

import msgspec

from inspan.errors import BadInput
from inspan.folds.costs import By
from inspan.protocol.blueprint import Blueprint
from inspan.protocol.commands import Delivery
from inspan.protocol.loop import LoopPolicy
from inspan.protocol.task import Task
from inspan.protocol.wire import Record, decode_event
from inspan.runs.undo import UndoResult

from .checks import convert_fields
from .local import LocalBackend
from .operations import convert_params, find_operation
from .place import make_place
from .values import (
    JOBS,
    PAGE_EVENTS,
    PAGE_RUNS,
    AgentInfo,
    AgentListing,
    AnsweredQuestion,
    ApprovalListing,
    BlueprintDetails,
    BlueprintListing,
    BudgetListing,
    CommandedRun,
    CostSums,
    DoctorReport,
    EventLine,
    EventPage,
    EventQuery,
    LoopDetails,
    ManyQuery,
    OutputPiece,
    OutputQuery,
    RemoveResult,
    RunCost,
    RunDetails,
    RunDiff,
    RunFiles,
    RunInfo,
    RunListing,
    RunRecord,
    RunState,
    SentMessage,
    StartedRun,
    StopResult,
    TranscriptInfo,
)

_RECONNECT_S = 60.0


class Backend(Protocol):
    """Where a client's operations are done."""

    async def call(self, name: str, params: msgspec.Struct) -> Any:
        """What the operation of this name gives; raises `InspanError`."""
        ...

    def follow(self, run: str, *, after: int, kinds: Sequence[str]) -> AsyncIterator[Record]: ...

    def follow_all(self, runs: Sequence[str], *, kinds: Sequence[str]) -> AsyncIterator[RunRecord]: ...

    def output(self, run: str, name: str, *, offset: int) -> AsyncIterator[OutputPiece]: ...


class Client:
    """Runs, sessions, approvals, cost and the rest: of this machine, or of a server of inspan's by its address.

    `Client()` is for this process's own state folder and environment; `state` and `env` name others, so that several
    tenants live in one program. `Client(url, token=…)`, or with the link that `inspan serve` prints, asks a server; for
    `reconnect_s` seconds a stream of it that breaks is taken up again, without an event lost or doubled, and a start
    whose answer is lost is asked for again, and done once. A client holds nothing that had to be closed, and may be
    used in any loop of asyncio. Everything raises `InspanError`.
    """

    def __init__(
        self,
        url: str = "",
        *,
        token: str = "",
        state: str | os.PathLike[str] = "",
        env: Mapping[str, str] | None = None,
        ca_files: Iterable[str] = (),
        reconnect_s: float = _RECONNECT_S,
    ) -> None:
        self._backend = _choose_backend(url, token, _check_state(state), _check_env(env), ca_files, reconnect_s)
        self.agents = Agents(self._backend)
        self.runs = Runs(self._backend)
        self.sessions = Sessions(self._backend)
        self.approvals = Approvals(self._backend)
        self.budgets = Budgets(self._backend)
        self.loops = Loops(self._backend)
        self.blueprints = Blueprints(self._backend)

    def __repr__(self) -> str:
        return f"Client({self._backend!r})"

    def events(self, runs: Sequence[str] = (), *, kinds: Sequence[str] = ()) -> AsyncIterator[RunRecord]:
        """What is new from now on, of these `kinds` or all, in these runs until they have ended; without `runs`, in
        every run, for ever."""
        given = {"runs": _check_texts("runs", runs), "kinds": _check_texts("kinds", kinds)}
        checked = convert_fields(ManyQuery, given, name="events")
        return self._backend.follow_all(checked.runs, kinds=checked.kinds)

    async def cost(self, *, by: By = "agent", since: float = 0.0) -> CostSums:
        """What runs have used and cost, in groups; only what was spent `since`, in seconds since 1970."""
        return await _call(self._backend, "cost.sums", by=by, since=since)

    async def doctor(self, agents: Sequence[str] = ()) -> DoctorReport:
        """What works on the machine and what does not; with names, only of these agents."""
        return await _call(self._backend, "doctor", agent=_check_texts("agents", agents))


class _Group:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def _call(self, name: str, **given: Any) -> Any:
        return await _call(self._backend, name, **given)


class Agents(_Group):
    """The agents that can be named."""

    async def list(self) -> "list[AgentInfo]":
        """All of them, with the versions of their programs there."""
        found: AgentListing = await self._call("agents.list")
        return found.agents

    async def get(self, agent: str) -> AgentInfo:
        """One of them; raises `UnknownAgent`."""
        return await self._call("agents.get", agent=agent)


class Runs(_Group):
    """Runs. A `run` is named by its id, its short name, its own name, the beginning of an id, or as `@last`."""

    async def start(self, task: Task) -> StartedRun:
        """Starts a task under a supervisor of its own; the configuration fills what it leaves open, as at the command
        line. A call that is cancelled here ends what it has started; over HTTP that may go on."""
        return await self._call("runs.start", task=_check(task, Task))

    async def list(
        self,
        *,
        ended: bool = True,
        project: str = "",
        cwd: str = "",
        agent: str = "",
        outcome: str = "",
        work: str = "",
        search: str = "",
        before: str = "",
        limit: int = PAGE_RUNS,
    ) -> "list[RunInfo]":
        """Runs: those that need a person, then those that live, then those that have ended, each newest first.

        A `cwd` stands for its project. `before` is a run of the listing before, to go on behind it.
        """
        given = {
            "ended": ended,
            "project": project,
            "cwd": os.path.abspath(cwd) if cwd else "",
            "agent": agent,
            "outcome": outcome,
            "work": work,
            "search": search,
            "before": before,
            "limit": limit,
        }
        found: RunListing = await self._call("runs.list", **given)
        return found.runs

    async def get(self, run: str) -> RunDetails:
        """All that is known of a run."""
        return await self._call("runs.get", run=run)

    async def state(self, run: str) -> RunState:
        """What a run is doing, or how it ended."""
        return await self._call("runs.state", run=run)

    async def wait(self, run: str) -> RunDetails:
        """Waits for a run's end. Cancelling this does not end the run."""
        async for _ in self.events(run, kinds=("run_ended",)):
            pass
        return await self.get(run)

    async def stop(self, run: str, *, now: bool = False) -> StopResult:
        """Asks a run to end, politely or at once; `wait` waits for the end."""
        return await self._call("runs.stop", run=run, now=now)

    async def remove(self, run: str, *, dry_run: bool = False) -> RemoveResult:
        """Deletes an ended run, and with the last run of each its session and its worktree."""
        return await self._call("runs.remove", run=run, dry_run=dry_run)

    def events(self, run: str, *, after: int = 0, kinds: Sequence[str] = ()) -> AsyncIterator[Record]:
        """The records of a run behind a number, as they come, until the last; of these `kinds`, or all."""
        given = {"run": run, "after": after, "kinds": _check_texts("kinds", kinds)}
        checked = convert_fields(EventQuery, given, name="events")
        return self._backend.follow(checked.run, after=checked.after, kinds=checked.kinds)

    async def list_events(
        self, run: str, *, after: int = 0, kinds: Sequence[str] = (), limit: int = PAGE_EVENTS
    ) -> "list[Record]":
        """A page of the records that there are by now."""
        texts = _check_texts("kinds", kinds)
        found: EventPage = await self._call("runs.events", run=run, after=after, kinds=texts, limit=limit)
        return [_to_record(each) for each in found.events]

    def output(self, run: str, name: str = "stdout", *, offset: int = 0) -> AsyncIterator[OutputPiece]:
        """What the agent's program itself has printed, on `stdout` or `stderr`, redacted: from a byte on, as it comes,
        until the run has ended."""
        checked = convert_fields(OutputQuery, {"run": run, "name": name, "offset": offset}, name="output")
        return self._backend.output(checked.run, checked.name, offset=checked.offset)

    async def diff(self, run: str, *, paths: Sequence[str] = ()) -> RunDiff:
        """What a run changed in its work tree, by now if it lives; only what `paths`, git's patterns, select."""
        return await self._call("runs.diff", run=run, path=_check_texts("paths", paths))

    async def files(self, run: str) -> RunFiles:
        """The files that a run changed."""
        return await self._call("runs.files", run=run)

    async def undo(self, run: str, *, paths: Sequence[str] = (), dry_run: bool = False) -> UndoResult:
        """Takes the changes of a run back in its work tree, all of them or none; nobody is asked."""
        return await self._call("runs.undo", run=run, paths=_check_texts("paths", paths), dry_run=dry_run)

    async def apply(self, run: str, *, paths: Sequence[str] = (), dry_run: bool = False) -> UndoResult:
        """Brings the changes of a run in again."""
        return await self._call("runs.apply", run=run, paths=_check_texts("paths", paths), dry_run=dry_run)

    async def transcript(self, run: str) -> TranscriptInfo:
        """What the agent itself has kept of a run's session."""
        return await self._call("runs.transcript", run=run)

    async def cost(self, run: str) -> RunCost:
        """What a run has used and cost, by now if it lives."""
        return await self._call("runs.cost", run=run)


class Sessions(_Group):
    """Open sessions: runs that take messages. `Task(session=True)` starts one."""

    async def list(self) -> "list[RunInfo]":
        """Those that are open, newest first."""
        found: RunListing = await self._call("sessions.list")
        return found.runs

    async def send(self, run: str, text: str, *, when: Delivery = "queue", id: str = "") -> SentMessage:
        """Says something. While a turn is running it waits, goes into the turn (`steer`), or is refused. The same `id`
        and text again are the same message, which is said once; another text under an `id` is refused."""
        return await self._call("sessions.send", run=run, text=text, when=when, id=id)

    async def interrupt(self, run: str) -> CommandedRun:
        """Ends the turn that is running; the session stays."""
        return await self._call("sessions.interrupt", run=run)

    async def close(self, run: str) -> CommandedRun:
        """Ends the session once what was sent to it is done."""
        return await self._call("sessions.close", run=run)

    async def configure(self, run: str, *, model: str = "", effort: str = "", mode: str = "") -> CommandedRun:
        """Sets what is given, from the next turn on."""
        return await self._call("sessions.configure", run=run, model=model, effort=effort, mode=mode)


class Approvals(_Group):
    """What agents ask for, and what was allowed for good."""

    async def list(self) -> ApprovalListing:
        """What waits for an answer, oldest first, and what is kept."""
        return await self._call("approvals.list")

    async def allow(
        self,
        id: str,
        *,
        run: str = "",
        asked_at: float | None = None,
        always: bool = False,
        input: Mapping[str, Any] | None = None,
    ) -> AnsweredQuestion:
        """Allows a tool once, or `always` in its project; with another `input` in place of the agent's own.

        The `id` is whole. `run` tells apart those of several runs; with `asked_at`, as it was listed, nothing is
        allowed that was asked later by the same id: that raises `CommandRefused`.
        """
        which = {"id": id, "run": run, "asked_at": asked_at}
        return await self._call("approvals.answer", **which, allowed=True, always=always, input=_to_dict(input))

    async def deny(
        self, id: str, *, run: str = "", asked_at: float | None = None, reason: str = ""
    ) -> AnsweredQuestion:
        """Refuses a tool, or an answer; the agent is told the reason."""
        which = {"id": id, "run": run, "asked_at": asked_at}
        return await self._call("approvals.answer", **which, allowed=False, reason=reason)

    async def answer(
        self, id: str, answers: Mapping[str, str], *, run: str = "", asked_at: float | None = None
    ) -> AnsweredQuestion:
        """Answers a question, by its text."""
        which = {"id": id, "run": run, "asked_at": asked_at}
        return await self._call("approvals.answer", **which, answers=_to_dict(answers))


class Budgets(_Group):
    """What may be spent."""

    async def list(self) -> BudgetListing:
        """The tree of budgets, with what is spent and set aside, and the newest runs that a budget has ended."""
        return await self._call("budgets.list")


class Loops(_Group):
    """Tasks that are tried until they are done. As runs, they are listed, followed, waited for and stopped."""

    async def start(self, task: Task, policy: LoopPolicy | None = None) -> StartedRun:
        """Starts a loop in a process of its own."""
        rules = _check(policy or LoopPolicy(), LoopPolicy)
        return await self._call("loops.start", task=_check(task, Task), policy=rules)

    async def list(self, *, ended: bool = True, limit: int = PAGE_RUNS) -> "list[RunInfo]":
        """Loops as `runs.list` gives them."""
        found: RunListing = await self._call("runs.list", work="loop", ended=ended, limit=limit)
        return found.runs

    async def get(self, run: str) -> LoopDetails:
        """Where a loop stands: its attempts, their checks, what was said of them."""
        return await self._call("loops.get", run=run)


class Blueprints(_Group):
    """Tasks that are graphs of nodes. As runs, they are listed, followed, waited for and stopped."""

    async def ready(self) -> "dict[str, Blueprint]":
        """Those that come with inspan, by name."""
        found: BlueprintListing = await self._call("blueprints.list")
        return found.blueprints

    async def start(
        self,
        blueprint: Blueprint | str,
        task: Task,
        *,
        inputs: Mapping[str, str] | None = None,
        jobs: int = JOBS,
    ) -> StartedRun:
        """Starts a blueprint, itself or one that comes with inspan, in a process of its own; `task` is what its agents
        have in common."""
        given: dict[str, Any] = {"inputs": dict(inputs or {}), "jobs": jobs}
        return await self._call("blueprints.start", blueprint=blueprint, task=_check(task, Task), **given)

    async def list(self, *, ended: bool = True, limit: int = PAGE_RUNS) -> "list[RunInfo]":
        """Blueprints that were started, as `runs.list` gives them."""
        found: RunListing = await self._call("runs.list", work="blueprint", ended=ended, limit=limit)
        return found.runs

    async def get(self, run: str) -> BlueprintDetails:
        """The graph of one that was started, what became of each node, and the report by now."""
        return await self._call("blueprints.get", run=run)


async def _call(backend: Backend, name: str, **given: Any) -> Any:
    return await backend.call(name, convert_params(find_operation(name), given))


def _check_state(state: str | os.PathLike[str]) -> str:
    path = os.fspath(state) if hasattr(state, "__fspath__") else state
    if not isinstance(path, str):
        raise BadInput("state", path, "it is no path.", next_step="Give a text or a Path.")
    return path


def _check_env(env: Mapping[str, str] | None) -> Mapping[str, str] | None:
    try:
        return None if env is None else msgspec.convert(dict(env), dict[str, str])
    except (TypeError, ValueError) as error:
        raise BadInput("env", "", f"it has more than texts: {error}.", next_step="Give names and values.") from error


def _choose_backend(
    url: str, token: str, state: str, env: Mapping[str, str] | None, ca_files: Iterable[str], reconnect_s: float
) -> Backend:
    url, pasted = _split_link(url)
    token = token or pasted
    if not url:
        if token:
            raise BadInput("token", "(hidden)", "there is no url that it is for.", next_step="Give Client(url, …).")
        return LocalBackend(make_place(state=state, env=env))
    if state:
        raise BadInput("state", state, "a server has its own.", next_step="Leave it out, or leave out the url.")
    if not token:
        raise BadInput("token", "", "a server wants one.", next_step="`inspan serve` prints it.")
    # Extra weight: whoever works on this machine needs no HTTP.
    from .remote import RemoteBackend

    environment = os.environ if env is None else env
    return RemoteBackend(url, token=token, env=environment, ca_files=ca_files, reconnect_s=reconnect_s)


def _split_link(url: str) -> tuple[str, str]:
    """An address and the token of the link that `inspan serve` prints, if it is that."""
    address, found, token = url.strip().partition("#token=")
    return (address, token) if found else (url, "")


def _check(value: Any, kind: type[Any]) -> Any:
    """The value with all that is in it looked at; raises `BadInput` for another kind."""
    if not isinstance(value, kind):
        raise BadInput(kind.__name__.lower(), value, f"it is no {kind.__name__}.", next_step=f"Give a {kind.__name__}.")
    try:
        return msgspec.to_builtins(value)
    except (TypeError, ValueError) as error:
        step = "Give texts, numbers and lists of them; a path as str(path)."
        raise BadInput(kind.__name__.lower(), "", f"it cannot be written down: {error}.", next_step=step) from error


def _check_texts(name: str, values: Sequence[str]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise BadInput(name, values, "it is one text, not a list of them.", next_step=f"Give [{values!r}].")
    return tuple(values)


def _to_dict(value: object) -> object:
    return dict(cast(Mapping[str, Any], value)) if isinstance(value, Mapping) else value


def _to_record(line: EventLine) -> Record:
    return Record(line.n, line.t, decode_event(bytes(line.event)))
