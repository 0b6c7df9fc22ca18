"""A driver is a value: the data and the two functions by which inspan knows one agent."""

import re
from binascii import b2a_base64
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from inspan.protocol.events import Event
from inspan.protocol.outcome import FailureKind
from inspan.protocol.session import HookName
from inspan.protocol.task import McpServer, Mode, Task
from inspan.protocol.usage import SessionTotals

from .dialect import Dialect

WireName = Literal["messages", "responses", "chat", "generate"]
# The program (or inspan) makes it so; the agent is only told to; there is no such thing.
Support = Literal["yes", "asked", "no"]
# The ids of sessions that most programs give and take.
UUID_PATTERN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# What a file is, for programs that go by the end of its name.
_SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "application/pdf": ".pdf",
}
# The tools of the driver contract: callers add to them and cannot take the limits away.
BASE_ALLOWED_TOOLS = (
    "Read",
    "Edit",
    "Write",
    "Bash(pnpm *)",
    "Bash(git diff *)",
    "Bash(git status *)",
    "Glob",
    "Grep",
)


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway as the agent sees it: `token` takes the key's place in `variable`.

    Without a variable the agent brings a login of its own, and the token stands in the `url`. `no_proxy` are the hosts
    that are reached without a proxy, the gateway's among them, as the variable of that name has them.
    """

    url: str
    token: str
    variable: str = ""
    no_proxy: str = "127.0.0.1"

    @property
    def no_proxy_env(self) -> dict[str, str]:
        """The variables that keep a proxy, whoever has set one, from being asked for the gateway."""
        return {"NO_PROXY": self.no_proxy, "no_proxy": self.no_proxy}


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """A file that goes with the prompt: where it lies, what it is, and its bytes where they must be sent along."""

    path: str
    media_type: str
    data: bytes = b""

    @property
    def base64(self) -> str:
        """Its bytes as they can stand in JSON."""
        return b2a_base64(self.data, newline=False).decode()


class LaunchContext(msgspec.Struct, frozen=True, kw_only=True):
    """Where one run happens.

    `config` is the session's own config folder, empty in the profile `user`; `scratch` is the folder of this run that
    the agent may read; `has_key` says that an API key stands in the first of its variables for one; `session_id` is the
    id that a new session is to get; `resume` the agent's id of the session to resume. `provider` is the name of the one
    chosen among the driver's `providers`, and `wire` the format of its calls. `cache` is shared by all runs of the
    agent. `base_url` is where its provider is, in a run without an endpoint of ours: empty for the usual address.
    `secrets` are those that stand in arguments and addresses of the task's MCP servers: not for a file or a command
    line. `tool_bridge` is the server of the caller's own tools, by its name, as a program on stdin and stdout: for an
    agent that tells only when it is asked that it takes none over HTTP. `python` and `package` are there for a channel
    that needs a package: the interpreter that has it, and the package's own file.
    """

    program: str
    cwd: str
    version: tuple[int, ...] = ()
    scratch: str = ""
    config: str = ""
    has_key: bool = False
    endpoint: Endpoint | None = None
    session_id: str = ""
    resume: str = ""
    attachments: tuple[Attachment, ...] = ()
    provider: str = ""
    wire: WireName = "chat"
    cache: str = ""
    base_url: str = ""
    secrets: tuple[str, ...] = ()
    tool_bridge: Mapping[str, McpServer] = {}
    python: str = ""
    package: str = ""

    @property
    def attachment_files(self) -> dict[str, bytes]:
        """What is attached, as files for the scratch folder whose names end as their kind does."""
        return {
            f"{self.scratch}/attached-{index}{_SUFFIXES.get(each.media_type, '')}": each.data
            for index, each in enumerate(self.attachments)
        }


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What to start: `files` (full path → content) are written first, `stdin` is all the agent will read.

    With `keeps_stdin` its dialect speaks with it as it works, and `stdin` is what that dialect begins with. In a
    `conversation` the prompt is not in there: it is sent as a message, and others may follow. `reads` are files besides
    the agent's program without which it cannot start: a box must not hide them.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    files: Mapping[str, bytes] = {}
    stdin: bytes = b""
    keeps_stdin: bool = False
    conversation: bool = False
    reads: tuple[str, ...] = ()


class Install(msgspec.Struct, frozen=True, kw_only=True):
    """Where the program can be had: a package in one version, and the program's path in what was installed.

    With `node`, the least version of Node that it needs, the program is a script that inspan's own Node runs. Without
    `dependencies` the package carries all that it needs but for its `extra_packages`. `{platform}` stands for the
    machine's, as `linux-x64`. `release` is the package's version where it is another than the program's; `alternative`
    has every version then.
    """

    source: Literal["wheel", "npm"] = "wheel"
    package: str = ""
    version: str = ""
    program: str = ""
    release: str = ""
    node: tuple[int, ...] = ()
    dependencies: bool = True
    extra_packages: tuple[str, ...] = ()
    alternative: "Install | None" = None

    @property
    def requirement(self) -> str:
        """The package and its version, as its installer takes them."""
        sign = "==" if self.source == "wheel" else "@"
        return f"{self.package}{sign}{self.release or self.version}"


class ProjectCode(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder of a project from which a program runs code, whatever it is told.

    A file with a `word` does so only where it holds that. It is looked for in the folders `above` too, up to the
    repository's; `in_complete` says that it is run in that mode, too.
    """

    path: str
    word: str = ""
    above: bool = True
    in_complete: bool = True


class PythonPackage(msgspec.Struct, frozen=True, kw_only=True):
    """A Python package that a channel goes through: its name and tested version, its module, and inspan's extra."""

    name: str
    version: str
    module: str
    extra: str


class SessionSupport(msgspec.Struct, frozen=True, kw_only=True):
    """What an open session can do through a channel, as it was seen on the real program.

    `messages`: one after the other to one process. `steer`: a message goes into the running turn. `interrupt`: a turn
    ends and the session stays. `ask`: it asks before it acts, and waits; `ask_patterns`: it can be made to ask about
    any call, and not only about what it would ask by itself; `changed_input`: an answer may change what it does.
    `questions`: it asks its user. `model`, `mode` and `effort` can be set in between. `hooks`: those that it calls
    itself, and waits for; for the others inspan stands in, as far as it can. `unasked`: what it does without a question
    although it was made to ask about everything.
    """

    messages: bool = False
    steer: bool = False
    interrupt: bool = False
    ask: bool = False
    ask_patterns: bool = False
    changed_input: bool = False
    questions: bool = False
    model: bool = False
    mode: bool = False
    effort: bool = False
    hooks: tuple[HookName, ...] = ()
    unasked: str = ""


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """One way into an agent. What it says of program, versions and abilities holds in place of the driver's own.

    `event_differences` says, by kind of event or by kind and field, what it tells otherwise than the agent's usual
    channel. Where a project has something of `project_code`, it is not started in the profile clean. With a `package`
    the agent's program is started by that, in a process of ours.
    """

    name: str = "stream"
    kind: Literal["stream", "rpc", "http"]
    launch: Callable[[Task, LaunchContext], Launch]
    dialect: Callable[[Task, SessionTotals], Dialect]
    program: str | None = None
    install: Install | None = None
    version_pattern: re.Pattern[str] | None = None
    oldest: tuple[int, ...] | None = None
    capabilities: "Capabilities | None" = None
    unsupported_scenarios: Mapping[str, str] | None = None
    scrub_line: Callable[[bytes], bytes] | None = None
    event_differences: Mapping[str, str] = {}
    project_code: tuple[ProjectCode, ...] = ()
    session: SessionSupport = SessionSupport()
    package: PythonPackage | None = None


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent's model calls go.

    `name` stands before a model's name, as in `name/model`, where there are several. `vendor` is its name in price
    lists, `base_url` its address, which `base_url_variables` replace. The key is in the first of `credentials`.
    """

    wire: WireName
    name: str = ""
    vendor: str = ""
    base_url: str = ""
    credentials: tuple[str, ...] = ()
    base_url_variables: tuple[str, ...] = ()
    key_aliases: tuple[str, ...] = ()


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """How a saved session is read back: `read` gives the events of its runs, without those of `missing_kinds`.

    With a `command`, the agent's program prints the session of an id; else it lies in a file.
    """

    read: Callable[[bytes], Sequence[Event]]
    command: Callable[[str], tuple[str, ...]] | None = None
    missing_kinds: tuple[str, ...] = ()


class Failure(msgspec.Struct, frozen=True):
    """Words by which an agent's message tells a kind of failure, as a pattern for upper and lower case.

    It is compiled once it is looked for: few runs fail, and every run loads its driver.
    """

    kind: FailureKind
    pattern: str


def match_failure(patterns: tuple[Failure, ...], message: str) -> FailureKind | None:
    """The first kind of failure whose words stand in the message."""
    return next((each.kind for each in patterns if re.search(each.pattern, message, re.IGNORECASE)), None)


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What this agent really does and reports; shown by `inspan agents`.

    `grants` are the beginnings of tool names that can be allowed on top of `review` and `complete` where single tools
    cannot be listed. `review_needs_sandbox` says that only inspan's sandbox keeps it from writing in `review`. `notes`
    explain a field, by its name.
    """

    presets_session_id: bool = False
    reports_cost: bool = False
    reports_usage: bool = True
    streams_text: bool = False
    streams_tool_output: bool = False
    follows_gateway: bool = True
    login_follows_gateway: bool = False
    root_needs_sandbox: bool = False
    review_needs_sandbox: bool = False
    exec: Support = "yes"
    review: Support = "no"
    complete: Support = "no"
    allowed_tools: Support = "no"
    disallowed_tools: Support = "no"
    output_schema: Support = "asked"
    system_prompt: Support = "asked"
    append_system_prompt: Support = "asked"
    resume: Support = "no"
    fork: Support = "no"
    extra_dirs: Support = "no"
    max_turns: Support = "no"
    reports_denials: Support = "no"
    login: Support = "no"
    efforts: tuple[str, ...] = ()
    attachments: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()
    mcp: tuple[Literal["stdio", "http"], ...] = ()
    notes: Mapping[str, str] = {}


class ProgramSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's program, and which versions of it work.

    Versions below `oldest` cannot work; those from `tested` to the one of `install` were tested. `required_flags` are
    the options that `launch` uses: what the program prints for `help_args` must name them. `probe_env` keeps it quiet
    while it is asked for its version. `hosted` says that the program is inspan itself, `pinned` that only the installed
    version is meant, `shares_cache` that runs may share its cache folder. A program that unpacks itself there, for
    whatever it is started, names that folder by `unpack_variable`: a run in a sandbox can only read it. `bundled_bwrap`
    is where it brings bubblewrap.
    """

    command: str = ""
    install: Install = Install()
    version_pattern: re.Pattern[str] = re.compile(r"(\d+)\.(\d+)\.(\d+)")
    oldest: tuple[int, ...] = ()
    tested: tuple[int, ...] = ()
    probe_env: Mapping[str, str] = {}
    required_flags: tuple[str, ...] = ()
    help_args: tuple[str, ...] = ("--help",)
    bundled_bwrap: str = ""
    shares_cache: bool = False
    unpack_variable: str = ""
    hosted: bool = False
    pinned: bool = False


class StateFolder(msgspec.Struct, frozen=True, kw_only=True):
    """Where the agent keeps its state.

    `config_variable` names the folder, and `state_subdir` is where its state is below that. `session_paths` are
    patterns below the folder, `*` for a part of a name, of all that continuing a session needs: in the profile clean
    whatever else lies there is removed before each start, since an agent in a sandbox may have written it. Nothing
    that names a program, a hook, a server or a variable belongs to them. `state_paths` and
    `login_paths` are below the user's home. `leftover_dirs` are what it leaves in a working folder, and
    `nesting_variables` are set for programs that it starts itself.
    """

    config_variable: str = ""
    state_subdir: str = ""
    session_paths: tuple[str, ...] = ()
    state_paths: tuple[str, ...] = ()
    login_paths: tuple[str, ...] = ()
    leftover_dirs: tuple[str, ...] = ()
    nesting_variables: tuple[str, ...] = ()


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """How a user logs in with the agent's own program: the `arguments` that begin it.

    A `note` says what is to be typed where the program has no such arguments, and comes up as it always does.
    """

    arguments: tuple[str, ...] = ()
    note: str = ""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """How the agent gets to a model, besides its provider.

    `variables` are the beginnings of its own variables. `login_url` is the provider's address for a login.
    `direct_address` says how it is pointed at another address where there is no gateway: by `launch`, which looks at
    the context's `base_url`, by the first of the provider's `base_url_variables`, or not at all. `ignored_variables`
    are those of its variables that the program itself does not follow. `override_variables` are variables, and
    `override_settings` places in its settings files (path, dotted key), by which a user may have chosen another
    provider; then that one is left alone. `settings_modes` are the modes in which it reads those files.
    `bound_credentials` are keys that go nowhere but to the provider itself, `withheld_credentials` those of providers
    that were not chosen. `required_fields` are what a task has to say since there is no default; with `key_optional`
    the provider may ask for no key. With `needs_credential` it is not started without a key or a login, unless it may
    have access that inspan does not see: one of `other_variables` is set, or one of `other_settings` (path, dotted key;
    without a key, any such file) is there, below the home or in the working folder.
    """

    variables: tuple[str, ...] = ()
    login: Login | None = None
    login_hint: str = ""
    login_url: str = ""
    direct_address: Literal["launch", "variable", "no"] = "no"
    ignored_variables: tuple[str, ...] = ()
    override_variables: tuple[str, ...] = ()
    override_settings: tuple[tuple[str, str], ...] = ()
    settings_modes: tuple[Mode, ...] = ("exec", "review", "complete")
    bound_credentials: tuple[str, ...] = ()
    withheld_credentials: tuple[str, ...] = ()
    required_fields: tuple[Literal["base_url", "model"], ...] = ()
    key_optional: bool = False
    needs_credential: bool = False
    other_variables: tuple[str, ...] = ()
    other_settings: tuple[tuple[str, str], ...] = ()


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's sessions: their ids, and where it keeps them.

    `transcript_pattern` is a pattern below its state with `{session_id}` in it; `read_totals` reads the end of such a
    file and gives the session's tokens and cost so far, `transcript` reads the whole.
    """

    session_id_pattern: re.Pattern[str] = re.compile(r".+")
    transcript_pattern: str = ""
    read_totals: Callable[[bytes], SessionTotals | None] | None = None
    transcript: Transcript | None = None


class Trials(msgspec.Struct, frozen=True, kw_only=True):
    """What tests need to know.

    `unsupported_scenarios` says why the program cannot do what a scenario of the matrix asks, by the scenario's name;
    `trial_model` is a model that a scenario may ask for. `scrub_line` takes the vendor's own prompt out of a line that
    is recorded. The `demo_agent` is the one that a newcomer is shown first.
    """

    unsupported_scenarios: Mapping[str, str] = {}
    trial_model: str = ""
    scrub_line: Callable[[bytes], bytes] | None = None
    demo_agent: bool = False


class Driver(msgspec.Struct, frozen=True, kw_only=True):
    """Everything inspan knows about one agent, by topic.

    `providers` are those to choose among, each in place of `provider`. `models` are names for models that the program
    does not know itself. `instructions` and `skills` are what it reads in a working folder. `refusal_status` is the
    status that makes it give up at once, where its wire's usual one does not. `always_retries` says that it makes a
    failed call again and has no setting against it: the run is ended in its place. `family` marks a driver that stands
    for many agents, `built_in` one that needs no program, and `default` the agent that is meant when none is named.
    """

    name: str
    title: str
    program: ProgramSpec
    provider: Provider
    channels: tuple[Channel, ...]
    providers: tuple[Provider, ...] = ()
    state: StateFolder = StateFolder()
    access: Access = Access()
    sessions: Sessions = Sessions()
    capabilities: Capabilities = Capabilities()
    failures: tuple[Failure, ...] = ()
    refusal_status: int = 0
    always_retries: bool = False
    models: Mapping[str, str] = {}
    instructions: str = ""
    skills: tuple[str, ...] = ()
    trials: Trials = Trials()
    default: bool = False
    built_in: bool = False
    family: bool = False

    @property
    def program_variable(self) -> str:
        """The variable by which a user names the program: `INSPAN_<NAME>_BIN`; a channel's own has its name in it."""
        channel = self.channels[0]
        name = f"{self.name}_{channel.name}" if channel.program else self.name
        return f"INSPAN_{re.sub(r'[^A-Za-z0-9]', '_', name).upper()}_BIN"
