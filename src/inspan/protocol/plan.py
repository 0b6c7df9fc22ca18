"""One run, decided to the last argument: what planning hands on. It holds secrets and is never stored."""

import msgspec

from inspan import __version__

from .budget import format_budget
from .events import RunStarted
from .network import NetworkPolicy
from .task import Access, Task
from .usage import SessionTotals
from .wire import SCHEMA

DIRECT, LIVE = "direct", "live"


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """Where model calls go. It may hold a key: it is passed on in memory and never stored.

    Without a gateway, `url` is the address that the agent is to be led to; empty where it finds the way by itself.
    `variable` is where the agent expects its key, and finds the run's token. Without one, behind a gateway, the agent
    brings its own login and the gateway passes it on.
    """

    model_from: str
    url: str = ""
    key: str = ""
    variable: str = ""
    proxies: dict[str, str] = {}
    ca_files: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return self.model_from.partition(":")[0]

    @property
    def file(self) -> str:
        return self.model_from.partition(":")[2]

    @property
    def uses_gateway(self) -> bool:
        return self.kind != DIRECT

    @property
    def reaches_provider(self) -> bool:
        return self.kind in (LIVE, "record")

    @property
    def needs_tls(self) -> bool:
        return self.reaches_provider and self.url.startswith("https:")


class AgentChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Which agent, in which version, through which of its channels, and whose models it uses with which key or login:
    `credential` names it without showing it. `base_url` is the address that somebody named in place of the usual one.
    """

    name: str
    version: str
    channel: str
    provider: str
    credential: str
    base_url: str = ""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What is set up on the way to the agent's process: `groups` are the control groups that it joins, `ports` where it
    is to find our listeners in a network of its own, `filter` the program for its system calls. Where it is `scoped`,
    sockets of the host that have no path are out of its reach. `proxies` are those of the user, through which goes what
    it may reach. Its network is made `inside` where its own command line does it, further on.
    """

    groups: list[str] = []
    isolated: bool = False
    inside: bool = False
    ports: list[int] = []
    filter: bytes = b""
    scoped: bool = False
    proxies: dict[str, str] = {}


class AgentProcess(msgspec.Struct, frozen=True, kw_only=True):
    """The process that is started, and how it is held.

    `stdin` is all that is said to it, unless `keeps_stdin`: then it is how its dialect begins; in a `conversation` the
    prompt is the first message of those that follow, and the `preamble` stands before the first. The agent is
    `agent_depth` children below it. With a `liveness_pipe` it ends when nobody holds the other end any more.
    """

    argv: list[str]
    env: dict[str, str]
    stdin: bytes
    keeps_stdin: bool
    conversation: bool
    preamble: str
    liveness_pipe: bool
    agent_depth: int
    sandbox: str
    containment: str
    access: Access
    private: bool = False
    network: NetworkPolicy = NetworkPolicy()
    entry: Entry | None = None


class Alternative(msgspec.Struct, frozen=True, kw_only=True):
    """Another channel of the same agent, for when its program does not take the first: `files` are written by then."""

    channel: str
    version: str
    process: AgentProcess
    files: dict[str, bytes] = {}


class SessionChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The session that a run belongs to: `key` is ours, `id` the agent's own where it is known before the start.

    `reported` is what the agent had told of it before.
    """

    key: str
    id: str
    reported: SessionTotals


class Leftovers(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent or its launch leaves behind and the run's end removes: empty folders, files that hold a secret,
    and what its box had to make, inner ones first.
    """

    folders: list[str]
    files: list[str]
    stand_ins: list[str] = []


class RunWorktree(msgspec.Struct, frozen=True, kw_only=True):
    """The git worktree that a run works in: its `path` and its `branch`, which is empty where its HEAD is detached.

    `checkout` is the work tree of the user's that it was made from, and `folder` the folder in there.
    """

    path: str
    branch: str
    checkout: str
    folder: str


class TriagePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a watchdog asks: the helper that is started, its `task`, which lacks the prompt, and the environment in
    which that is prepared, marshalled, for it need not be UTF-8."""

    argv: list[str]
    task: Task
    env: bytes


class SeenGit(msgspec.Struct, frozen=True, kw_only=True):
    """What there was of git data when a run started, for its end to know what is new.

    `changed` is when links in it were changed, and files that were changed just before; `folders` are the numbers
    (inodes) of folders that git obeys something in; `listed` is the git data in which each link is in `changed`;
    `inner` are the folders that an index had as repositories.
    """

    changed: dict[str, int] = {}
    folders: dict[str, int] = {}
    listed: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One run, decided to the last argument. It holds secrets: it is passed on in memory and never stored.

    `approvals` are the calls, by tool and subject, that were allowed for good in its project. `alternatives` are tried
    in order where the agent's program does not take the channel. `weakened` is what confined the run that it continues
    more than it does this one, by field. `seen` is what a box has started with of git data.
    """

    run_id: str
    created_at: float
    folder: str
    state: str
    task: Task
    project: str
    agent: AgentChoice
    session: SessionChoice
    process: AgentProcess
    token: str
    route: Route
    path_placeholders: dict[str, str]
    secrets: tuple[tuple[str, str], ...]
    leftovers: Leftovers
    seen: SeenGit = SeenGit()
    warnings: list[str] = []
    approvals: list[tuple[str, str]] = []
    alternatives: list[Alternative] = []
    worktree: RunWorktree | None = None
    triage: TriagePlan | None = None
    weakened: dict[str, str] = {}

    @property
    def started(self) -> RunStarted:
        """The first event of the run's log."""
        return RunStarted(
            schema=SCHEMA,
            run_id=self.run_id,
            agent=self.agent.name,
            agent_version=self.agent.version,
            mode=self.task.mode,
            project=self.project,
            task=self.task.task,
            cwd=self.task.cwd,
            model=self.task.model,
            session_id=self.session.id,
            resumes=self.task.resume,
            forks=self.task.fork,
            profile=self.task.profile,
            sandbox=self.process.sandbox,
            containment=self.process.containment,
            access=self.process.access,
            private=self.process.private,
            read=list(self.task.read) if self.process.private else [],
            net=str(self.process.network),
            weakened=self.weakened,
            resources=self.task.limits.resources,
            ask=list(self.task.ask),
            model_from=self.route.model_from,
            credential=self.agent.credential,
            base_url=self.agent.base_url,
            budgets={node: format_budget(budget) for node, budget in self.task.budgets.items()},
            timeout_s=self.task.limits.timeout_s,
            session=self.task.session,
            warnings=self.warnings,
            name=self.task.name,
            worktree_of=self.worktree.folder if self.worktree else "",
            branch=self.worktree.branch if self.worktree else "",
            parent=self.task.parent,
            continues=self.task.continues,
            inspan=__version__,
        )
