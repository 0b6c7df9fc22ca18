"""What is wanted, in words that know no agent."""

from typing import Any, Literal

import msgspec

from .budget import Budget, Node
from .limits import Limits, Price, Rates, WatchdogLimits
from .session import HookName

Mode = Literal["exec", "review", "complete"]
Profile = Literal["user", "clean"]
Work = Literal["", "loop", "blueprint"]
"""What a log tells of: the run of one agent, a loop, which has runs of its own, or a blueprint, which has loops."""
Access = Literal["", "full", "allowed_tools", "sandbox", "read_only", "read_only_sandbox", "no_tools", "remote"]
"""What an agent may do on this machine; empty where an older log does not say so."""


class McpServer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An MCP server for the agent: a `command` that speaks on its stdin and stdout, or the `url` of one."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A tool of the caller's, as the agent is told of it; `input_schema` is the JSON Schema of what it is given."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] = {}


class Preset(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What makes an agent of the user's own: the agent that it is `like`, its `command`, and `flags` right behind."""

    like: str
    command: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One piece of work for one agent. `agent` empty means the default agent; a program may give a `cwd` that counts
    from its current folder. `name` is what its run is called beside its id; no other run of the project has it.

    With a `preset`, `agent` is the name of one that inspan does not know; the configuration fills it in.

    `mode`: `exec` may do everything, `review` reads and runs and cannot edit, `complete` gives one answer, no tools.
    `allowed_tools` is, in `exec`, all that the agent may use (`None`: everything); in the other modes it adds to what
    the mode grants. `system_prompt` replaces the agent's own, `append_system_prompt` stands behind it. `resume` is the
    name of a run, `@last` (of the project of `cwd`) or the agent's own session id, and that session's folder must be
    `cwd`; `fork` leaves that session as it is and goes on in a copy. `output_schema` is the JSON Schema that the answer
    of `complete` must fit. `attachments` are paths of images and files. `channel` is the way into the agent, its usual
    one where it is empty. `key_from` says where the API key is (`env:NAME`, `file:PATH`, `cmd:COMMAND`,
    `keyring:SERVICE/USER`); `login` uses the subscription login of the user in its place. `options` are arguments for
    the agent's own program. `sandbox` is a place to work in (`worktree`: a git worktree of the run's own), a boundary
    around the agent (`bwrap`, `none`), or both, joined by `+`; empty is what the agent needs, in `cwd` itself.
    A worktree begins at the commit `start`, or at HEAD of the checkout.

    `sandbox` is what confines the agent; `net` what it may reach from there: `none`, `gateway`, `open` or
    `allow=HOST,…`; `read` are the paths that it may read besides the system's and its own. A sandbox that runs a
    container makes it of `image`. `control_groups` are those of a sandbox that is open: the run shares its limits.

    With `session` the run stays open for further messages, and its prompt may be empty. `ask` are the tools, in the
    words of `allowed_tools`, that somebody is asked about before the agent uses them; `*` stands for all about which
    the agent itself would ask. `tools` are the caller's own: the agent calls them as `mcp__inspan__NAME`. `hooks` are
    the moments at which the caller's program is asked what becomes of it.

    `model_from` says who answers the model calls: `live` (the provider, through the gateway), `direct` (the provider,
    without one), `record:FILE`, `replay:FILE` or `script:FILE`; empty is `live` wherever it can be. `base_url` is the
    provider's address in place of the usual one. `budgets` hold for the whole project, the task and this run; `faults`
    (`call 3: 529`) spoil model calls on purpose. `strict` refuses a version of the agent that was not tested. `rates`
    and `prices` (by model) are about the provider.

    `watchdog` says how long it may be silent before something is done about it; `None` is what the settings say, which
    is nothing, but for the runs of a loop.

    `parent` is the loop, or the blueprint, that the run belongs to, and `continues` what goes on in this one.
    """

    prompt: str
    cwd: str
    agent: str = ""
    preset: Preset | None = None
    mode: Mode = "exec"
    model: str = ""
    effort: str = ""
    system_prompt: str = ""
    append_system_prompt: str = ""
    allowed_tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()
    extra_dirs: tuple[str, ...] = ()
    mcp_servers: dict[str, McpServer] = {}
    attachments: tuple[str, ...] = ()
    output_schema: dict[str, Any] | None = None
    resume: str = ""
    fork: bool = False
    project: str = ""
    task: str = "default"
    name: str = ""
    profile: Profile = "user"
    channel: str = ""
    login: bool = False
    key_from: str = ""
    sandbox: str = ""
    start: str = ""
    net: str = ""
    read: tuple[str, ...] = ()
    image: str = ""
    model_from: str = ""
    base_url: str = ""
    budgets: dict[Node, Budget] = {}
    rates: Rates = Rates()
    prices: dict[str, Price] = {}
    faults: tuple[str, ...] = ()
    fault_seed: int = 0
    partial: bool = False
    strict: bool = False
    limits: Limits = Limits()
    watchdog: WatchdogLimits | None = None
    control_groups: tuple[str, ...] = ()
    env: dict[str, str] = {}
    options: tuple[str, ...] = ()
    session: bool = False
    ask: tuple[str, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    hooks: tuple[HookName, ...] = ()
    parent: str = ""
    continues: str = ""

    @property
    def converses(self) -> bool:
        """Whether messages are sent one by one, and answers are given while the agent works."""
        return self.session or bool(self.ask or self.hooks)
