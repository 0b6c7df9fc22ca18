"""Everything that can be told of a run, as past facts: one ordered stream whatever the agent."""

from typing import Any, Literal

import msgspec

from .cost import Cost, CostKind
from .outcome import FailureKind, Outcome, Reason, StuckCause, WatchdogStep
from .session import HookName, WaitsFor
from .task import Access, Work
from .usage import Usage

Change = Literal["added", "modified", "deleted"]


class _Event(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="kind"):
    """Common spelling of all events: a `kind`, then the fields that are not empty."""


class RunStarted(_Event, frozen=True, kw_only=True, tag="run_started"):
    """The first record of every log; `schema` is the version of everything after it, `name` the run's own, if any.

    `access` says what the agent may do on this machine, `ask` about which tools somebody is asked first, `credential`
    which key or login is used, without showing it, `base_url` where the model is reached if that is not the provider's
    usual address. `timeout_s` is for the run, or for each message of a `session`.
    A `private` sandbox shows the agent its folders, the system and what it may `read` besides, and nothing else.
    `weakened` is what confined the run before in its session, by field, where this run was told to be confined less.
    `worktree_of` is the folder of which `cwd` is in a git worktree of the run's own, with this `branch`.
    `work` is empty for the run of one agent; a `loop` has runs of its own, of which it is the `parent`, and a
    `blueprint` has loops. `continues` is what was lost, or ended early, and goes on in this one.
    """

    schema: int
    run_id: str
    agent: str
    agent_version: str = ""
    mode: str
    project: str
    task: str
    cwd: str
    model: str = ""
    session_id: str = ""
    resumes: str = ""
    forks: bool = False
    profile: str
    sandbox: str
    containment: str
    access: Access = ""
    private: bool = False
    read: list[str] = []
    net: str = ""
    weakened: dict[str, str] = {}
    resources: dict[str, float] = {}
    ask: list[str] = []
    model_from: str = ""
    credential: str = ""
    base_url: str = ""
    budgets: dict[str, str] = {}
    timeout_s: float | None = None
    session: bool = False
    warnings: list[str] = []
    name: str = ""
    worktree_of: str = ""
    branch: str = ""
    work: Work = ""
    parent: str = ""
    continues: str = ""
    inspan: str


class ThreadStarted(_Event, frozen=True, kw_only=True, tag="thread_started"):
    """The agent opened its conversation; `session_id` is what resumes it."""

    session_id: str
    model: str = ""
    tools: list[str] = []
    agent_version: str = ""


class TurnStarted(_Event, frozen=True, kw_only=True, tag="turn_started"):
    """The agent began to work on a prompt."""


class TurnCompleted(_Event, frozen=True, kw_only=True, tag="turn_completed"):
    """The agent says that it finished a turn. Its numbers are of this turn alone."""

    usage: Usage | None = None
    cost_usd: float | None = None


class TurnFailed(_Event, frozen=True, kw_only=True, tag="turn_failed"):
    """The agent says that a turn failed, and how."""

    failure: FailureKind
    message: str
    status: int | None = None
    usage: Usage | None = None
    cost_usd: float | None = None


class TurnInterrupted(_Event, frozen=True, kw_only=True, tag="turn_interrupted"):
    """The agent stopped its turn because it was told to; the session goes on."""

    usage: Usage | None = None
    cost_usd: float | None = None


class MessageSent(_Event, frozen=True, kw_only=True, tag="message_sent"):
    """Somebody said something to the agent. `queued`: it waits for its turn; `steers`: it went into the running one."""

    id: str
    text: str
    queued: bool = False
    steers: bool = False


class MessageStarted(_Event, frozen=True, kw_only=True, tag="message_started"):
    """A message that had waited goes to the agent."""

    id: str


class MessageEnded(_Event, frozen=True, kw_only=True, tag="message_ended"):
    """What came of one message of a session, with its own numbers; what was said stands before it."""

    id: str
    outcome: Outcome
    reason: Reason
    message: str = ""
    next: str = ""
    duration_s: float = 0.0
    usage: Usage | None = None
    cost_usd: float | None = None
    model_calls: int = 0
    denied: list[str] = []
    resets_at: float | None = None
    calls_without_cost: int = 0
    cost_kind: CostKind | None = None
    not_paid_usd: float | None = None


class SessionConfigured(_Event, frozen=True, kw_only=True, tag="session_configured"):
    """Model, effort or mode were set, from the next turn on."""

    model: str = ""
    effort: str = ""
    mode: str = ""


class ChannelChanged(_Event, frozen=True, kw_only=True, tag="channel_changed"):
    """The agent's program does not take the channel that was chosen, as `reason` says: it was started by the next."""

    before: str
    after: str
    reason: str = ""


class TextSaid(_Event, frozen=True, kw_only=True, tag="text_said"):
    """A whole message or block of text of the assistant."""

    text: str
    parent: str = ""


class TextDelta(_Event, frozen=True, kw_only=True, tag="text_delta"):
    """A piece of a text block as it arrives; the whole block follows as `text_said`."""

    block: str
    text: str


class AnswerGiven(_Event, frozen=True, kw_only=True, tag="answer_given"):
    """The answer of a run that was given a schema, as JSON text; whether it fits is said by the run's end."""

    text: str


class Citation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A source of an answer; `number` is what stands for it in the text, as [1]."""

    url: str
    title: str = ""
    date: str = ""
    number: int = 0


class CitationsGiven(_Event, frozen=True, kw_only=True, tag="citations_given"):
    """The sources that the answer rests on, as its provider names them."""

    citations: list[Citation]


class ReasoningSaid(_Event, frozen=True, kw_only=True, tag="reasoning_said"):
    """What the agent shows of its thinking."""

    text: str
    parent: str = ""


class ToolStarted(_Event, frozen=True, kw_only=True, tag="tool_started"):
    """The agent began a tool call."""

    id: str
    name: str
    input: Any = None
    parent: str = ""


class ToolOutput(_Event, frozen=True, kw_only=True, tag="tool_output"):
    """The last line that a tool at work has put out so far; its whole output follows with the end of the call."""

    id: str
    text: str


class ToolCompleted(_Event, frozen=True, kw_only=True, tag="tool_completed"):
    """A tool call came back."""

    id: str
    name: str = ""
    output: str = ""


class ToolFailed(_Event, frozen=True, kw_only=True, tag="tool_failed"):
    """A tool call came back as an error; `denied` when it was not allowed to run."""

    id: str
    name: str = ""
    output: str = ""
    denied: bool = False


class CommandExecuted(_Event, frozen=True, kw_only=True, tag="command_executed"):
    """A shell command ran to its end; its output is in the tool call of the same id."""

    id: str
    command: str
    exit_code: int | None = None


class FileChanged(_Event, frozen=True, kw_only=True, tag="file_changed"):
    """A file was changed: by the tool call of this id, or, without one, by something that only the files tell of."""

    path: str
    change: Change
    id: str = ""


class PlanStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a plan."""

    text: str
    state: Literal["pending", "active", "done"] = "pending"


class PlanChanged(_Event, frozen=True, kw_only=True, tag="plan_changed"):
    """The agent rewrote its plan."""

    steps: list[PlanStep]


class PermissionAsked(_Event, frozen=True, kw_only=True, tag="permission_asked"):
    """The agent wants a yes or no before it acts; `reason` is why, in its own words where it has some.

    `settled` says that the next event about it is the answer of a rule: nobody else is asked.
    """

    id: str
    tool: str
    input: Any = None
    reason: str = ""
    settled: bool = False


class PermissionAnswered(_Event, frozen=True, kw_only=True, tag="permission_answered"):
    """A permission was given or refused, and by whom; `input` is what was put in place of the agent's own."""

    id: str
    allowed: bool
    by: str = ""
    reason: str = ""
    input: Any = None
    always: bool = False


class Question(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One question to the user; without `options` it takes any text."""

    text: str
    options: list[str] = []
    several: bool = False
    secret: bool = False


class QuestionAsked(_Event, frozen=True, kw_only=True, tag="question_asked"):
    """The agent wants to know something from its user."""

    id: str
    questions: list[Question]


class QuestionAnswered(_Event, frozen=True, kw_only=True, tag="question_answered"):
    """The answers, by the texts of the questions; none, and a reason, where nobody answered."""

    id: str
    answers: dict[str, str] = {}
    by: str = ""
    reason: str = ""


class ToolRequested(_Event, frozen=True, kw_only=True, tag="tool_requested"):
    """The agent called a tool of the caller's: its result is waited for."""

    id: str
    name: str
    input: Any = None


class ToolAnswered(_Event, frozen=True, kw_only=True, tag="tool_answered"):
    """A tool of the caller's gave its result, which went to the agent; its own tool call tells the output."""

    id: str
    failed: bool = False


class HookCalled(_Event, frozen=True, kw_only=True, tag="hook_called"):
    """A function of the caller's is asked: before a tool is used, after it was, or when the agent has finished.

    `tool_id` is the call's own id. `output` belongs to `after_tool`; to `on_stop` belong the agent's last words in
    `output`, and how often it was sent on already.
    """

    id: str
    hook: HookName
    tool: str = ""
    tool_id: str = ""
    input: Any = None
    output: str = ""
    failed: bool = False
    continued: int = 0


class HookAnswered(_Event, frozen=True, kw_only=True, tag="hook_answered"):
    """What a hook came to: a tool is used, with another `input` where that was changed, or not; or the agent is told
    some `text`. `by` is `inspan` where no function answered."""

    id: str
    hook: HookName
    allowed: bool = True
    reason: str = ""
    input: Any = None
    text: str = ""
    by: str = "function"


class McpServerFailed(_Event, frozen=True, kw_only=True, tag="mcp_server_failed"):
    """An MCP server could not be used; the agent works without it."""

    name: str
    message: str = ""


class UsageReported(_Event, frozen=True, kw_only=True, tag="usage_reported"):
    """Tokens so far in this run, as the agent reports them."""

    usage: Usage
    cost_usd: float | None = None


class ModelCallEnded(_Event, frozen=True, kw_only=True, tag="model_call_ended"):
    """One call that the agent made to its model, as the gateway saw it.

    `role` parts its own work from what it asks on the side and from what it sends again; `extras` are numbers beside
    the tokens that cost money; `cost_usd` is `None` where no price is known, or nobody is paid. `not_paid_usd` is what
    the answer of a script or a cassette would have cost, in a run with a budget in dollars.
    """

    call: int
    wire: str
    model: str = ""
    status: int | None = None
    usage: Usage | None = None
    duration_s: float = 0.0
    problem: str = ""
    message: str = ""
    resets_at: float | None = None
    role: Literal["main", "side", "retry"] = "main"
    extras: dict[str, int] = {}
    cost_usd: float | None = None
    not_paid_usd: float | None = None


class BudgetRefused(_Event, frozen=True, kw_only=True, tag="budget_refused"):
    """A model call was not made, because a budget has no room for it; `node` is the one that said no.

    `message` and `next` are those of the run's end.
    """

    node: str
    message: str
    call: int = 0
    next: str = ""


class UsageDiffers(_Event, frozen=True, kw_only=True, tag="usage_differs"):
    """The agent's own count of tokens is not the gateway's, by so many percent in the field that differs most."""

    told: Usage
    measured: Usage
    percent: float


class RateLimited(_Event, frozen=True, kw_only=True, tag="rate_limited"):
    """The provider said to wait; `resets_at` is seconds since 1970 where it said until when.

    `held`: it said so to another run, and this one's calls wait with it.
    """

    message: str = ""
    resets_at: float | None = None
    held: bool = False


class WorktreeLeft(_Event, frozen=True, kw_only=True, tag="worktree_left"):
    """What becomes of the run's own git worktree: `kept` with what changed in it, or removed because nothing did.

    `files` are changed or new and not committed, `commits` are those since it was made, on `branch`, if it has one.
    `unreachable` commits were made and are on no branch any more; `operation` is one of git's that was not finished.
    """

    path: str
    kept: bool
    branch: str = ""
    files: int = 0
    ignored: int = 0
    commits: int = 0
    unreachable: int = 0
    operation: str = ""
    problem: str = ""


class AttemptStarted(_Event, frozen=True, kw_only=True, tag="attempt_started"):
    """A loop claimed a run for its next attempt; `resumes` is the run whose session goes on in it."""

    attempt: int
    run_id: str
    agent: str
    resumes: str = ""


class AttemptEnded(_Event, frozen=True, kw_only=True, tag="attempt_ended"):
    """How the run of an attempt ended. `tree` stands for the files as they were then, where that is known. With
    `files_unknown`, others may have changed than `files_changed`."""

    attempt: int
    run_id: str
    outcome: Outcome
    reason: Reason
    message: str = ""
    resets_at: float | None = None
    can_resume: bool = False
    tree: str = ""
    files_changed: list[str] = []
    usage: Usage | None = None
    cost: Cost | None = None
    model_calls: int = 0
    files_unknown: bool = False


class CheckStarted(_Event, frozen=True, kw_only=True, tag="check_started"):
    """A loop began to check an attempt."""

    attempt: int
    check: str


class CheckEnded(_Event, frozen=True, kw_only=True, tag="check_ended"):
    """What a check came to, with the beginning and the end of what it printed."""

    attempt: int
    check: str
    passed: bool
    exit_code: int | None = None
    timed_out: bool = False
    output: str = ""
    duration_s: float = 0.0


class VerifierStarted(_Event, frozen=True, kw_only=True, tag="verifier_started"):
    """A loop claimed a run for an agent that is to say whether an attempt has done the task."""

    attempt: int
    run_id: str
    agent: str


class VerdictGiven(_Event, frozen=True, kw_only=True, tag="verdict_given"):
    """What that agent says, and why; `agreed` is `None` where it gave no verdict."""

    attempt: int
    run_id: str
    agent: str
    agreed: bool | None = None
    reason: Reason = "done"
    text: str = ""
    resets_at: float | None = None
    usage: Usage | None = None
    cost: Cost | None = None
    model_calls: int = 0


class WaitStarted(_Event, frozen=True, kw_only=True, tag="wait_started"):
    """A loop waits before its next attempt, until then in seconds since 1970; it goes on with `agent`."""

    attempt: int
    until: float
    why: str
    agent: str


class NodeStarted(_Event, frozen=True, kw_only=True, tag="node_started"):
    """A blueprint began a node; `run_id` is the loop that an agent's node is."""

    node: str
    type: str
    round: int = 1
    run_id: str = ""


class NodeOutput(_Event, frozen=True, kw_only=True, tag="node_output"):
    """What a node put out."""

    node: str
    text: str


class NodeEnded(_Event, frozen=True, kw_only=True, tag="node_ended"):
    """How a node of a blueprint ended. `outputs` are what others find by name, `runs` those of its agents.

    One that was `skipped` says in `error` what it would have needed, and nothing where it was not wanted. With
    `files_unknown`, others may have changed than `files_changed`.
    """

    node: str
    type: str
    round: int = 1
    status: Literal["success", "failed", "skipped"]
    error: str = ""
    reason: Reason | None = None
    outputs: dict[str, str] = {}
    exit_code: int | None = None
    timed_out: bool = False
    duration_s: float = 0.0
    runs: list[str] = []
    files_changed: list[str] = []
    usage: Usage | None = None
    cost: Cost | None = None
    model_calls: int = 0
    files_unknown: bool = False


class WatchdogActed(_Event, frozen=True, kw_only=True, tag="watchdog_acted"):
    """What was done about a run that had been silent for `silent_s`, longer than what it `waits_for` may take.

    `cause` is what it is stuck on, by its last events, and `message` the same as a sentence. `skipped` says why the
    step could not be taken. `by` is `triage` where an agent was asked what to do; its words are the `advice`, and where
    they were of no use, why.
    """

    step: WatchdogStep
    cause: StuckCause
    message: str = ""
    waits_for: WaitsFor = ""
    silent_s: float = 0.0
    skipped: str = ""
    by: Literal["rules", "triage"] = "rules"
    advice: str = ""


class ErrorReported(_Event, frozen=True, kw_only=True, tag="error_reported"):
    """Something went wrong that does not by itself end the run; with `about` `files`, so that it is not known which
    files were changed."""

    message: str
    about: Literal["", "files"] = ""


class Unrecognized(_Event, frozen=True, kw_only=True, tag="unrecognized"):
    """A frame that the dialect does not know, kept as it came."""

    raw: str
    note: str = ""


class EndingBegan(_Event, frozen=True, kw_only=True, tag="ending_began"):
    """inspan began to end the run, for this reason."""

    reason: Reason
    message: str = ""


class RunEnded(_Event, frozen=True, kw_only=True, tag="run_ended"):
    """The last record of every log. `usage` is as the gateway counted, where there was one; `told` as the agent did.

    `cost_usd` is without `calls_without_cost`, of which nobody could tell it. `cost_kind` says whether it is all of
    what was paid, a part of it (`partial`), or why there is none: `unknown`, or `not_paid` for the answers of a script
    or a cassette, which would have cost `not_paid_usd`. With `files_unknown`, others may have changed than
    `files_changed`.
    """

    outcome: Outcome
    reason: Reason
    message: str = ""
    next: str = ""
    exit_code: int | None = None
    signal: int | None = None
    duration_s: float = 0.0
    session_id: str = ""
    usage: Usage | None = None
    cost_usd: float | None = None
    model_calls: int = 0
    files_changed: list[str] = []
    resets_at: float | None = None
    denied: list[str] = []
    told: Usage | None = None
    calls_without_cost: int = 0
    cost_kind: CostKind | None = None
    not_paid_usd: float | None = None
    files_unknown: bool = False


Event = (
    RunStarted
    | ThreadStarted
    | TurnStarted
    | TurnCompleted
    | TurnFailed
    | TurnInterrupted
    | MessageSent
    | MessageStarted
    | MessageEnded
    | SessionConfigured
    | ChannelChanged
    | TextSaid
    | TextDelta
    | AnswerGiven
    | CitationsGiven
    | ReasoningSaid
    | ToolStarted
    | ToolOutput
    | ToolCompleted
    | ToolFailed
    | CommandExecuted
    | FileChanged
    | PlanChanged
    | PermissionAsked
    | PermissionAnswered
    | QuestionAsked
    | QuestionAnswered
    | ToolRequested
    | ToolAnswered
    | HookCalled
    | HookAnswered
    | McpServerFailed
    | UsageReported
    | ModelCallEnded
    | BudgetRefused
    | UsageDiffers
    | RateLimited
    | WorktreeLeft
    | AttemptStarted
    | AttemptEnded
    | CheckStarted
    | CheckEnded
    | VerifierStarted
    | VerdictGiven
    | WaitStarted
    | NodeStarted
    | NodeOutput
    | NodeEnded
    | WatchdogActed
    | ErrorReported
    | Unrecognized
    | EndingBegan
    | RunEnded
)
