"""Every key of the configuration, with its default and what it means. The file's shape is the shape of these values.

A note says what a key is for. `guarded` keys decide what runs on this machine, with whose secrets and how freely: a
project may set them only when the user trusts it. `secret` values are never shown.
"""

from typing import Annotated, Literal, TypeAlias

import msgspec

from inspan.protocol.budget import NODES, Budget, Node, parse_budget
from inspan.protocol.limits import Limits, Rates, WatchdogLimits
from inspan.protocol.loop import LoopPolicy
from inspan.protocol.task import McpServer, Mode, Profile

from .value_types import (
    BUDGET,
    COUNT,
    DOLLARS,
    DURATION,
    DURATIONS,
    FLAG,
    NETWORK,
    PATH,
    PATHS,
    PROCESSORS,
    SERVICE,
    SIZE,
    TEXT,
    TEXTS,
    URL,
    ValueType,
    choice_type,
)

KeyPath: TypeAlias = tuple[str, ...]


class Note(msgspec.Struct, frozen=True):
    """What is known of a key besides its type. `user_only`: only the user's own file may have it; `set` adds to it."""

    doc: str
    value_type: ValueType = TEXT
    guarded: bool = False
    secret: bool = False
    user_only: bool = False


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """What a run uses where its command does not say."""

    default: Annotated[str, Note("The agent. Empty: the one that `inspan agents` marks.")] = ""
    model: Annotated[str, Note("The model, or an alias of one. Empty: the agent's own default.")] = ""
    mode: Annotated[
        Mode | Literal[""],
        Note("What the agent may do.", choice_type("exec", "review", "complete"), guarded=True),
    ] = ""
    profile: Annotated[
        Profile | Literal[""],
        Note(
            "Whose settings the agent uses. Empty: user, and clean under CI.",
            choice_type("user", "clean"),
            guarded=True,
        ),
    ] = ""
    sandbox: Annotated[str, Note("The sandbox of a run. Empty: what the agent needs.", guarded=True)] = ""
    net: Annotated[str, Note("What a sandbox may reach. Empty: the gateway alone.", NETWORK, guarded=True)] = ""
    read: Annotated[tuple[str, ...], Note("What else a sandbox may read.", PATHS, guarded=True)] = ()
    image: Annotated[str, Note("The image of a sandbox that runs a container.", guarded=True)] = ""
    effort: Annotated[str, Note("How hard the model thinks, in the agent's own word.")] = ""
    print_command: Annotated[str, Note("The agent of one-shot helpers. Empty: `runtime.default`.", guarded=True)] = ""


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What ends a run that takes too long."""

    timeout_s: Annotated[float | None, Note("Longest the whole run may take.", DURATION)] = msgspec.field(
        default=Limits().timeout_s, name="timeout"
    )
    start_timeout_s: Annotated[float | None, Note("Longest until the first event.", DURATION)] = msgspec.field(
        default=Limits().start_timeout_s, name="start_timeout"
    )
    idle_timeout_s: Annotated[float | None, Note("Longest without any output.", DURATION)] = msgspec.field(
        default=Limits().idle_timeout_s, name="idle_timeout"
    )
    stall_timeout_s: Annotated[float | None, Note("Longest silence of a model call.", DURATION)] = msgspec.field(
        default=Limits().stall_timeout_s, name="stall_timeout"
    )
    max_turns: Annotated[int | None, Note("Most turns of the model.", COUNT)] = Limits().max_turns
    largest_answer: Annotated[
        int | None, Note("Most tokens of output that a budget sets aside for a call.", COUNT, guarded=True)
    ] = Limits().largest_answer
    answer_timeout_s: Annotated[float | None, Note("Longest wait for an answer to a question.", DURATION)] = (
        msgspec.field(default=Limits().answer_timeout_s, name="answer_timeout")
    )
    idle_close_s: Annotated[float | None, Note("Closes an open session without a message for so long.", DURATION)] = (
        msgspec.field(default=Limits().idle_close_s, name="idle_close")
    )
    hook_timeout_s: Annotated[float | None, Note("Longest wait for a hook of a program.", DURATION)] = msgspec.field(
        default=Limits().hook_timeout_s, name="hook_timeout"
    )
    memory_bytes: Annotated[int | None, Note("Most memory of all that a run starts.", SIZE, guarded=True)] = (
        msgspec.field(default=Limits().memory_bytes, name="memory")
    )
    cpus: Annotated[float | None, Note("Most processors that a run may keep busy.", PROCESSORS, guarded=True)] = (
        Limits().cpus
    )
    pids: Annotated[int | None, Note("Most processes and threads of a run at a time.", COUNT, guarded=True)] = (
        Limits().pids
    )

    def to_limits(self) -> Limits:
        """The same as a task holds them."""
        return Limits(**msgspec.structs.asdict(self))


class LoopSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What `inspan loop` does where its command does not say."""

    max_restarts: Annotated[int | None, Note("Most restarts of a loop.", COUNT)] = LoopPolicy().max_restarts
    delay_s: Annotated[float | None, Note("Wait before a restart; longer after failures.", DURATION)] = msgspec.field(
        default=LoopPolicy().delay_s, name="delay"
    )
    rate_limit_backoff_s: Annotated[
        tuple[float, ...],
        Note("Waits after a rate limit without an end, one after the other, the last again and again.", DURATIONS),
    ] = msgspec.field(default=LoopPolicy().rate_limit_backoff_s, name="rate_limit_backoff")


WatchedRuns: TypeAlias = Literal["", "loops", "all", "none"]


class WatchdogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is done about a run that says nothing."""

    runs: Annotated[
        WatchedRuns,
        Note("Which runs are watched. Empty: those of loops.", choice_type("loops", "all", "none")),
    ] = ""
    model_s: Annotated[float | None, Note("Longest silence, but for that of a tool.", DURATION)] = msgspec.field(
        default=WatchdogLimits().model_s, name="model"
    )
    tool_s: Annotated[float | None, Note("Longest silence while a tool is at work.", DURATION)] = msgspec.field(
        default=WatchdogLimits().tool_s, name="tool"
    )
    step_s: Annotated[float | None, Note("How long each step has to help before the next one.", DURATION)] = (
        msgspec.field(default=WatchdogLimits().step_s, name="step")
    )
    triage: Annotated[bool, Note("Ask `runtime.print_command` what to do first.", FLAG, guarded=True)] = False

    def to_limits(self) -> WatchdogLimits:
        """The same as a task holds them."""
        step_s = WatchdogLimits().step_s if self.step_s is None else self.step_s
        return WatchdogLimits(model_s=self.model_s, tool_s=self.tool_s, step_s=step_s)


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for one agent alone, known or your own; it wins over `[runtime]` and `[models]`."""

    model: Annotated[str, Note("Its model, or an alias of one.")] = ""
    effort: Annotated[str, Note("How hard its model thinks.")] = ""
    program: Annotated[str, Note("Its program; nothing else is looked for.", PATH, guarded=True)] = ""
    base_url: Annotated[str, Note("The address of its provider, in place of the usual.", URL, guarded=True)] = ""
    login: Annotated[bool, Note("Use your login instead of a key.", FLAG, guarded=True)] = False
    key_env: Annotated[str, Note("The variable that holds its API key.", guarded=True)] = ""
    key_file: Annotated[str, Note("The file that holds its API key.", PATH, guarded=True)] = ""
    key_cmd: Annotated[str, Note("The command that prints its API key.", guarded=True)] = ""
    keyring: Annotated[str, Note("Its API key's place in the keyring.", SERVICE, guarded=True)] = ""
    env: Annotated[dict[str, str], Note("Variables for its environment.", guarded=True, secret=True)] = {}
    models: Annotated[dict[str, str], Note("Aliases of models for `-m`; they win over `[models]`.")] = {}
    options: Annotated[tuple[str, ...], Note("More arguments for its command line.", TEXTS, guarded=True)] = ()
    append_system_prompt: Annotated[str, Note("Text appended to its system prompt.")] = ""
    system_prompt: Annotated[str, Note("Text replacing its system prompt.")] = ""
    dialect: Annotated[
        str, Note("Makes it an agent of your own, which speaks as this one does: NAME, acp or chat.", guarded=True)
    ] = ""
    command: Annotated[str, Note("The command that starts an agent of your own.", guarded=True)] = ""
    flags: Annotated[tuple[str, ...], Note("Arguments right behind that command.", TEXTS, guarded=True)] = ()

    @property
    def key_from(self) -> str:
        """Where its key is, as a task says it; empty where nothing was said."""
        places = (("env", self.key_env), ("file", self.key_file), ("cmd", self.key_cmd), ("keyring", self.keyring))
        return next((f"{kind}:{place}" for kind, place in places if place), "")


class Server(McpServer, frozen=True, kw_only=True):
    """An MCP server that every agent gets: a command that is started, or the address of one that runs."""

    command: Annotated[str, Note("The program that is started.", guarded=True)] = ""
    args: Annotated[tuple[str, ...], Note("Its arguments.", TEXTS, guarded=True)] = ()
    env: Annotated[dict[str, str], Note("Variables for its environment.", guarded=True, secret=True)] = msgspec.field(
        default_factory=dict[str, str]
    )
    url: Annotated[str, Note("The address of a server that runs already.", guarded=True)] = ""
    headers: Annotated[dict[str, str], Note("Headers for each request to it.", guarded=True, secret=True)] = (
        msgspec.field(default_factory=dict[str, str])
    )


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    """What may be spent: by all runs of a project, by all of a task in it, and by each run."""

    project: Annotated[str, Note("By all runs of the project.", BUDGET, guarded=True)] = ""
    task: Annotated[str, Note("By all runs of the task.", BUDGET, guarded=True)] = ""
    run: Annotated[str, Note("By each run.", BUDGET, guarded=True)] = ""

    def to_budgets(self) -> dict[Node, Budget]:
        """The same as a task holds them."""
        return {node: parse_budget(text) for node in NODES if (text := getattr(self, node))}


class ProviderRates(msgspec.Struct, frozen=True, kw_only=True):
    """How fast all your runs together may ask one provider (anthropic, openai)."""

    requests_per_minute: Annotated[int | None, Note("Most model calls in a minute.", COUNT, guarded=True)] = None
    tokens_per_minute: Annotated[int | None, Note("Most tokens in a minute.", COUNT, guarded=True)] = None
    concurrent_calls: Annotated[int | None, Note("Most model calls at once.", COUNT, guarded=True)] = None
    longest_hold_s: Annotated[
        float | None, Note("Longest a call waits for a rate limit to lift.", DURATION, guarded=True)
    ] = msgspec.field(default=Rates().longest_hold_s, name="longest_hold")

    def to_rates(self) -> Rates:
        """The same as a task holds them."""
        return Rates(
            requests_per_minute=self.requests_per_minute,
            tokens_per_minute=self.tokens_per_minute,
            concurrent_calls=self.concurrent_calls,
            longest_hold_s=self.longest_hold_s or 0.0,
        )


class ModelPrice(msgspec.Struct, frozen=True, kw_only=True):
    """What a model costs you, in dollars for a million tokens; it wins over the price list."""

    input: Annotated[float | None, Note("Of input.", DOLLARS, guarded=True)] = None
    output: Annotated[float | None, Note("Of output.", DOLLARS, guarded=True)] = None
    cache_read: Annotated[float | None, Note("Of input that a cache held.", DOLLARS, guarded=True)] = None
    cache_write: Annotated[float | None, Note("Of input that a cache takes.", DOLLARS, guarded=True)] = None


class Projects(msgspec.Struct, frozen=True, kw_only=True):
    """Which projects are trusted."""

    trusted: Annotated[tuple[str, ...], Note("Folders whose files may set guarded keys.", PATHS, user_only=True)] = ()


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration as it holds for one folder."""

    runtime: Runtime = Runtime()
    models: Annotated[dict[str, str], Note("Aliases of models for `-m`, for any agent.")] = {}
    limits: LimitSettings = LimitSettings()
    loop: LoopSettings = LoopSettings()
    watchdog: WatchdogSettings = WatchdogSettings()
    agents: dict[str, AgentSettings] = {}
    mcp: dict[str, Server] = {}
    budget: Budgets = Budgets()
    providers: dict[str, ProviderRates] = {}
    prices: dict[str, ModelPrice] = {}
    projects: Projects = Projects()

    def agent(self, name: str) -> AgentSettings:
        """What holds for an agent, said or not."""
        return self.agents.get(name) or AgentSettings()

    def model(self, agent: str, *, asked: str = "") -> str:
        """The model that an agent is started with, aliases resolved: what was asked for, its own, or everybody's."""
        own = self.agent(agent)
        name = asked or own.model or self.runtime.model
        return own.models.get(name) or self.models.get(name) or name
