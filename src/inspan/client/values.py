"""What a client asks for and what it gets, as values that cross a wire; the command line's JSON is spelled the same."""

from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from inspan.contracts.driver import Capabilities
from inspan.folds.costs import By
from inspan.folds.live_state import LiveState
from inspan.protocol.blueprint import Blueprint
from inspan.protocol.budget import Node
from inspan.protocol.commands import Delivery
from inspan.protocol.cost import CostKind
from inspan.protocol.events import (
    AttemptEnded,
    AttemptStarted,
    Change,
    CheckEnded,
    Event,
    PermissionAsked,
    QuestionAsked,
    RunEnded,
    RunStarted,
    VerdictGiven,
)
from inspan.protocol.loop import LoopPolicy
from inspan.protocol.task import Task
from inspan.protocol.usage import Usage
from inspan.protocol.wire import Record
from inspan.runs.undo import UndoRecord

PAGE_RUNS, MOST_RUNS = 100, 10_000
PAGE_EVENTS, MOST_EVENTS = 1000, 10_000
JOBS = 4
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operation is given."""


class _Result(msgspec.Struct, frozen=True, kw_only=True):
    """What an operation gives. Fields are added in time: whoever reads it ignores those that it does not know."""


class Nothing(_Request, frozen=True, kw_only=True):
    """For an operation that needs to know nothing."""


class AgentName(_Request, frozen=True, kw_only=True):
    """One agent."""

    agent: Name


class RunName(_Request, frozen=True, kw_only=True):
    """One run: its own name, its short name, its id or the beginning of one, `@last`, `@2`, `@last-anywhere`."""

    run: Name


class RunQuery(_Request, frozen=True, kw_only=True):
    """Which runs are meant: those of the `project`, or of the project to which the folder `cwd` belongs, and so on.

    `search` is a part of a prompt, a name, an id or a folder. `before` is the `next` of the listing before.
    """

    ended: bool = True
    project: str = ""
    cwd: str = ""
    agent: str = ""
    outcome: str = ""
    work: str = ""
    search: str = ""
    before: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_RUNS)] = PAGE_RUNS


class EventQuery(RunName, frozen=True, kw_only=True):
    """Events behind the number `after`, of these `kinds` or of all."""

    after: Count = 0
    kinds: tuple[str, ...] = ()
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_EVENTS)] = PAGE_EVENTS


class ManyQuery(_Request, frozen=True, kw_only=True):
    """What is new in these runs, or in all of them, of these `kinds` or of all."""

    runs: tuple[Name, ...] = ()
    kinds: tuple[str, ...] = ()


OutputName = Literal["stdout", "stderr"]


class OutputQuery(RunName, frozen=True, kw_only=True):
    """What an agent's program has printed, from a byte on."""

    name: OutputName = "stdout"
    offset: Count = 0


class StopRequest(RunName, frozen=True, kw_only=True):
    """Politely, or at once when `now` is set."""

    now: bool = False


class RemoveRequest(RunName, frozen=True, kw_only=True):
    """With `dry_run`, nothing is deleted."""

    dry_run: bool = False


class DiffQuery(RunName, frozen=True, kw_only=True):
    """With `path`, names or patterns of git's, only what these select."""

    path: tuple[str, ...] = ()


class UndoRequest(RunName, frozen=True, kw_only=True):
    """With `dry_run`, no file is changed."""

    paths: tuple[str, ...] = ()
    dry_run: bool = False


class Message(RunName, frozen=True, kw_only=True):
    """What is said to an open session, and what becomes of it while a turn is running. The `id` is the sender's: the
    same one with the same text again is the same message."""

    text: str
    when: Delivery = "queue"
    id: Annotated[str, msgspec.Meta(max_length=100)] = ""


class ConfigureRequest(RunName, frozen=True, kw_only=True):
    """What is set from the next turn on; what is empty stays."""

    model: str = ""
    effort: str = ""
    mode: str = ""


class ApprovalAnswer(_Request, frozen=True, kw_only=True):
    """An answer to the question of exactly this `id`; where several runs have such a one, to that of `run`. With
    `asked_at`, as it was listed, it is to that question only, and never to a later one of the same id.

    A permission is given or not; `always` keeps it for the project, `input` takes the place of the tool's own. To a
    question belong `answers`, by its text.
    """

    id: Name
    run: str = ""
    asked_at: float | None = None
    allowed: bool = True
    always: bool = False
    reason: str = ""
    input: dict[str, Any] | None = None
    answers: dict[str, str] = {}


class CostQuery(_Request, frozen=True, kw_only=True):
    """What makes a group; only what was spent `since`, in seconds since 1970."""

    by: By = "agent"
    since: Annotated[float, msgspec.Meta(ge=0)] = 0.0


class TaskRequest(_Request, frozen=True, kw_only=True):
    """A task to be run by one agent."""

    task: Task


class LoopRequest(_Request, frozen=True, kw_only=True):
    """A task to be tried until it is done by the policy's rules."""

    task: Task
    policy: LoopPolicy = LoopPolicy()


class BlueprintRequest(_Request, frozen=True, kw_only=True):
    """A blueprint, itself or by the name of one that comes with inspan, and what its agents have in common."""

    blueprint: Blueprint | str
    task: Task
    inputs: dict[str, str] = {}
    jobs: Annotated[int, msgspec.Meta(ge=1, le=1000)] = JOBS


class DoctorQuery(_Request, frozen=True, kw_only=True):
    """With `agent`, only these are looked at."""

    agent: tuple[str, ...] = ()


# What is given.


class AgentInfo(_Result, frozen=True, kw_only=True):
    """An agent: the version of its program here, where that lies, or why it cannot be used."""

    agent: str
    title: str
    version: str
    default: str
    program: str
    capabilities: Capabilities


class AgentListing(_Result, frozen=True, kw_only=True):
    """The agents that can be named."""

    agents: list[AgentInfo]


class RunInfo(_Result, frozen=True, kw_only=True):
    """A run in a listing. One that is `alive` has the outcome `running`, and a `state`: what it is doing.

    `work` is empty for a run of one agent; else it is a loop or a blueprint, which has runs of its own. `folder` is
    where it works, `path` its folder with its log.
    """

    run_id: str
    project: str
    task: str
    agent: str
    started_at: float
    duration_s: float
    outcome: str
    reason: str
    prompt: str
    tokens: int
    cost_usd: float | None
    session_id: str
    cwd: str
    cost_kind: CostKind
    not_paid_usd: float | None
    name: str
    short: str
    work: str
    continues: str
    folder: str
    path: str
    alive: bool
    state: LiveState | None = None

    @property
    def needs_person(self) -> bool:
        """Whether it waits for somebody's answer."""
        return self.state is not None and self.state.status == "waiting"


class RunListing(_Result, frozen=True, kw_only=True):
    """Runs: those that need a person, those that live, those that have ended, each the newest first. `next` is the
    `before` of the listing that goes on; `None` where there is no more."""

    runs: list[RunInfo]
    next: str | None = None


class RunDetails(_Result, frozen=True, kw_only=True):
    """All that is known of a run: its description, first and last event, answer, model calls and cost."""

    run_id: str
    run: dict[str, Any]
    name: str
    short: str
    folder: str
    started: RunStarted | None
    ended: RunEnded | None
    output: str
    calls: dict[str, Any]
    cost_usd: float | None
    cost_kind: CostKind
    not_paid_usd: float | None
    state: LiveState | None
    undo: list[UndoRecord]


class RunState(_Result, frozen=True, kw_only=True):
    """What a run is doing, or how it ended."""

    run_id: str
    alive: bool
    outcome: str
    reason: str
    state: LiveState | None = None


class StartedRun(_Result, frozen=True, kw_only=True):
    """A run, a loop or a blueprint that was started."""

    run_id: str
    short: str
    name: str = ""


class StopResult(_Result, frozen=True, kw_only=True):
    """Whether a living run heard that it is to end; `wait` waits for the end."""

    run_id: str
    heard: bool


class RemoveResult(_Result, frozen=True, kw_only=True):
    """A run that was deleted, or would be, and the worktrees that go with it."""

    run_id: str
    removed: bool
    worktrees: list[str]


class EventLine(_Result, frozen=True, kw_only=True):
    """An event with its number and its time, in seconds since 1970."""

    n: int
    t: float
    event: msgspec.Raw


class EventPage(_Result, frozen=True, kw_only=True):
    """Events of a run, in order. `last` is the number of the last that was looked at, also where it is of another kind;
    `ended`: nothing will follow it."""

    run_id: str
    events: list[EventLine]
    last: int
    ended: bool


class ChangedFile(_Result, frozen=True, kw_only=True):
    """A file that a run changed; its lines are not known where it is binary."""

    path: str
    change: Change
    added: int | None = None
    removed: int | None = None


class RunDiff(_Result, frozen=True, kw_only=True):
    """What a run changed below `top`. There is no patch where there were no snapshots: then the files are those of
    which its agent told, and `notes` say why."""

    run_id: str
    top: str
    files: list[ChangedFile]
    patch: str | None
    notes: list[str]


class RunFiles(_Result, frozen=True, kw_only=True):
    """The same without the patch."""

    run_id: str
    top: str
    files: list[ChangedFile]
    notes: list[str]


class TranscriptInfo(_Result, frozen=True, kw_only=True):
    """What an agent itself has kept of a session: all its turns. Of `missing_kinds` of events it keeps nothing."""

    run_id: str
    agent: str
    session_id: str
    source: str
    events: list[EventLine]
    missing_kinds: list[str]


class RunCost(_Result, frozen=True, kw_only=True):
    """What a run has used and cost; `calls` has its model calls by role and by model."""

    run_id: str
    usage: Usage | None
    calls: dict[str, Any]
    cost_usd: float | None
    cost_kind: CostKind
    not_paid_usd: float | None


class SentMessage(_Result, frozen=True, kw_only=True):
    """A message that a session took; its `id` is in the events that tell of it."""

    run_id: str
    id: str


class CommandedRun(_Result, frozen=True, kw_only=True):
    """An open session that did what it was told."""

    run_id: str


class AskedQuestion(_Result, frozen=True, kw_only=True):
    """What waits for an answer, in which run and since when."""

    run_id: str
    asked_at: float
    question: PermissionAsked | QuestionAsked


class KeptAnswer(_Result, frozen=True, kw_only=True):
    """What was allowed for good in a project."""

    project: str
    tool: str
    subject: str
    at: float


class ApprovalListing(_Result, frozen=True, kw_only=True):
    """What waits for an answer, oldest first, and what was allowed for good."""

    questions: list[AskedQuestion]
    kept: list[KeptAnswer]


class AnsweredQuestion(_Result, frozen=True, kw_only=True):
    """A question that was answered."""

    run_id: str
    id: str
    allowed: bool


class CostPart(_Result, frozen=True, kw_only=True):
    """Sums; what nobody could tell is not in them but counted. Tokens are `None` where nobody told any."""

    runs: int
    calls: int
    input: int | None
    output: int | None
    cache_read: int | None
    cache_write: int | None
    reasoning: int | None
    tokens_not_reported: int
    calls_without_tokens: int
    cost_usd: float | None
    cost_kind: CostKind
    not_paid_usd: float | None
    cost_not_reported: int
    calls_without_cost: int
    estimated_calls: int
    estimated_usd: float
    estimated_tokens: int


class CostGroup(CostPart, frozen=True, kw_only=True):
    """The sums of one agent, day, run and so on: all of it, by who counted, and by what the calls were for."""

    name: str
    scripted_runs: int
    scripted_usd: float
    sources: dict[str, CostPart]
    roles: dict[str, CostPart]


class CostSums(_Result, frozen=True, kw_only=True):
    """What runs have used and cost, in groups and together, by which price table."""

    by: By
    since: float | None
    groups: list[CostGroup]
    total: CostGroup
    prices: dict[str, Any] | None


class BudgetInfo(_Result, frozen=True, kw_only=True):
    """A node of the tree of budgets: what it allows, what is spent and what is set aside for calls under way."""

    node: Node
    project: str
    task: str | None
    run_id: str | None
    scripted: bool
    limits: dict[str, float | str | None]
    spent: dict[str, float]
    cost_usd: float | None
    cost_kind: CostKind
    not_paid_usd: float | None
    reserved: dict[str, float]
    since: float | None
    unpriced_calls: int
    estimated_calls: int


class BudgetEnd(_Result, frozen=True, kw_only=True):
    """A run that a budget has ended, and what it was told."""

    run_id: str
    project: str
    task: str
    message: str
    next_step: str


class BudgetListing(_Result, frozen=True, kw_only=True):
    """Projects, their tasks and of these the runs that live; and the newest runs that a budget has ended."""

    nodes: list[BudgetInfo]
    refusals: list[BudgetEnd]


class LoopAttempt(_Result, frozen=True, kw_only=True):
    """One run of a loop's agent, and what was found of it."""

    started: AttemptStarted
    ended: AttemptEnded | None
    checks: list[CheckEnded]
    verdicts: list[VerdictGiven]


class LoopDetails(_Result, frozen=True, kw_only=True):
    """Where a loop stands; those attempts are among its own that were made by the loops which it continues."""

    run_id: str
    attempts: list[LoopAttempt]
    state: LiveState | None
    ended: RunEnded | None


NodeStatus = Literal["", "running", "success", "failed", "skipped"]


class NodeInfo(_Result, frozen=True, kw_only=True):
    """What a node is, and what it does in a few words."""

    kind: str
    does: str


class BlueprintDetails(_Result, frozen=True, kw_only=True):
    """The graph of a blueprint that was started, what became of each node, and the report by now."""

    run_id: str
    order: list[str]
    needs: dict[str, list[str]]
    nodes: dict[str, NodeInfo]
    statuses: dict[str, str]
    report: dict[str, Any]


class BlueprintListing(_Result, frozen=True, kw_only=True):
    """The blueprints that come with inspan, by name."""

    blueprints: dict[str, Blueprint]


class DoctorFinding(_Result, frozen=True, kw_only=True):
    """One line of the doctor's report."""

    subject: str
    state: Literal["ok", "warning", "problem"]
    detail: str
    next_step: str = ""
    remedy: str = ""


class DoctorReport(_Result, frozen=True, kw_only=True):
    """What works on the machine, and what does not."""

    findings: list[DoctorFinding]


class RunRecord(NamedTuple):
    """A record of one among many runs: which run it is of, and the same as a `Record` has; a pair of the two."""

    run_id: str
    record: Record

    @property
    def number(self) -> int:
        """The record's number in the log of its run."""
        return self.record.number

    @property
    def time(self) -> float:
        """Its time, in seconds since 1970."""
        return self.record.time

    @property
    def kind(self) -> str:
        """The event's kind, as it is written."""
        return self.record.kind

    @property
    def event(self) -> Event:
        """What happened."""
        return self.record.event

    def to_json(self) -> str:
        """The line of `inspan events`, which does not name the run, without its end."""
        return self.record.to_json()


class OutputPiece(NamedTuple):
    """Bytes of an agent's own output, redacted, and where in its file they stand."""

    offset: int
    data: bytes
