"""A driver is a value: the data and the two functions by which inspan knows one agent."""

import re
from binascii import b2a_base64
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from inspan.protocol.events import Event
from inspan.protocol.outcome import FailureKind
from inspan.protocol.task import Mode, Task
from inspan.protocol.usage import Told

from .dialect import Dialect

Wire = Literal["messages", "responses", "chat", "generate"]
# The program (or inspan) makes it so; the agent is only told to; there is no such thing.
Support = Literal["yes", "asked", "no"]
_KIND_OF_STATUS: dict[int, FailureKind] = {
    401: "authentication",
    402: "authentication",
    403: "authentication",
    404: "model_not_found",
    413: "context_too_long",
    429: "rate_limit",
}
# The ids of sessions that most programs give and take.
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
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

    Without a variable the agent brings a login of its own, and the token stands in the `url`.
    """

    url: str
    token: str
    variable: str = ""


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """A file that goes with the prompt: where it lies, what it is, and its bytes where they must be sent along."""

    path: str
    media_type: str
    data: bytes = b""

    @property
    def base64(self) -> str:
        """Its bytes as they can stand in JSON."""
        return b2a_base64(self.data, newline=False).decode()


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where one run happens.

    `config` is the session's own config folder, empty in the profile `user`; `scratch` is the folder of this run that
    the agent may read; `has_key` says that an API key stands in the first of its variables for one; `session_id` is the
    id that a new session is to get; `resume` the agent's id of the session to go on with. `way` is the provider chosen
    among the driver's ways, and `wire` the language of its calls. `cache` is shared by all runs of the agent.
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
    way: str = ""
    wire: Wire = "chat"
    cache: str = ""

    @property
    def attached(self) -> dict[str, bytes]:
        """What is attached, as files for the scratch folder whose names end as their kind does."""
        return {
            f"{self.scratch}/attached-{index}{_SUFFIXES.get(each.media_type, '')}": each.data
            for index, each in enumerate(self.attachments)
        }


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What to start: `files` (full path → content) are written first, `stdin` is all the agent will read.

    With `keeps_stdin` its dialect speaks with it as it works, and `stdin` is what that dialect begins with.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    files: Mapping[str, bytes] = {}
    stdin: bytes = b""
    keeps_stdin: bool = False


class Install(msgspec.Struct, frozen=True, kw_only=True):
    """Where the program can be had: a package in one version, and the program's path in what was installed.

    With `node`, the least version of Node that it needs, the program is a script that inspan's own Node runs. Without
    `dependencies` the package carries all that it needs but for its `companions`. `{platform}` stands for the
    machine's, as `linux-x64`. `release` is the package's version where it is another than the program's; `elsewhere`
    has every version then.
    """

    source: Literal["wheel", "npm"] = "wheel"
    package: str = ""
    version: str = ""
    program: str = ""
    release: str = ""
    node: tuple[int, ...] = ()
    dependencies: bool = True
    companions: tuple[str, ...] = ()
    elsewhere: "Install | None" = None

    @property
    def requirement(self) -> str:
        """The package and its version, as its installer takes them."""
        sign = "==" if self.source == "wheel" else "@"
        return f"{self.package}{sign}{self.release or self.version}"


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """One way into an agent. What it says of program, versions and abilities holds in place of the driver's own.

    `differs` says, by kind of event or by kind and field, what it tells otherwise than the agent's usual channel.
    """

    name: str = "stream"
    kind: Literal["stream", "rpc", "http"]
    launch: Callable[[Task, Place], Launch]
    dialect: Callable[[Task, Told], Dialect]
    program: str | None = None
    install: Install | None = None
    version_words: re.Pattern[str] | None = None
    oldest: tuple[int, ...] | None = None
    capabilities: "Capabilities | None" = None
    cannot: Mapping[str, str] | None = None
    recordable: Callable[[bytes], bytes] | None = None
    differs: Mapping[str, str] = {}


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that an agent can be pointed at; `name` stands before a model's name, as in `name/model`."""

    name: str
    wire: Wire
    provider: str
    base_url: str
    credentials: tuple[str, ...]
    base_url_variables: tuple[str, ...] = ()
    key_aliases: tuple[str, ...] = ()


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """How a saved session is read back: `read` gives the events that its runs told live, but for the kinds it `lacks`.

    With a `command`, the agent's program prints the session of an id; else it lies in a file.
    """

    read: Callable[[bytes], Sequence[Event]]
    command: Callable[[str], tuple[str, ...]] | None = None
    lacks: tuple[str, ...] = ()


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Words by which an agent's message tells a kind of failure, as a pattern for upper and lower case.

    It is compiled once it is looked for: few runs fail, and every run loads its driver.
    """

    kind: FailureKind
    words: str


def failure(kind: FailureKind, words: str) -> Failure:
    """A failure told by any of these words, in upper or lower case."""
    return Failure(kind=kind, words=words)


def kind_told(failures: tuple[Failure, ...], message: str) -> FailureKind | None:
    """The first kind of failure whose words stand in the message."""
    return next((each.kind for each in failures if re.search(each.words, message, re.IGNORECASE)), None)


def kind_of_status(status: int | None) -> FailureKind | None:
    """What a provider means by the status of its answer, as far as that alone says it."""
    return "overloaded" if status and status >= 500 else _KIND_OF_STATUS.get(status or 0)


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What this agent really does and reports; shown by `inspan agents`.

    `grants` are the beginnings of tool names that can be allowed on top of `review` and `complete` where single tools
    cannot be listed. `review_needs_box` says that only a box of inspan's keeps it from writing in `review`. `notes`
    explain a field, by its name.
    """

    presets_session_id: bool = False
    reports_cost: bool = False
    reports_usage: bool = True
    streams_text: bool = False
    follows_gateway: bool = True
    login_follows_gateway: bool = False
    root_needs_box: bool = False
    review_needs_box: bool = False
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


class Driver(msgspec.Struct, frozen=True, kw_only=True):
    """Everything inspan knows about one agent.

    `state_below` is where its state lies below the folder that `config_variable` names, and `asked_with` are variables
    that keep it quiet while its version is asked.

    `transcripts` is where it keeps a session, a pattern below its state with `{session_id}` in it; `told_in`
    reads the end of one and gives the session's tokens and cost so far, `transcript` the whole.

    Versions below `oldest` cannot work; those from `tested` to the installed one were tried. `accepts` are the options
    that `launch` uses, which the program's words for `help_words` must have. `models` are names for models that the
    program does not know itself. `instructions` and `skills` are what it reads in a working folder. `cannot` says why
    the program cannot do what a scenario of the matrix asks, by the scenario's name; `trial_model` is a model that a
    scenario may ask for. `recordable` takes the vendor's own prompt out of a line that is recorded.

    `base_url` is the address of its provider, which `base_url_variables` replace, and `login_url` the one for a login.
    `provider` is that provider's name in price lists. `switches` are variables, and `settings` places in its settings
    files (path, dotted key), by which a user may have chosen another way to a model; then that one is left alone.
    `settings_in` are the modes in which it reads those files.
    `bound_credentials` are keys that go nowhere but to the provider itself. `refusal_status` is the status that makes
    it give up at once, where its wire's usual one does not. `asks_again` says that it makes a failed call again and
    has no setting against it: the run is ended in its place.

    `ways` are the providers to choose among, each in place of wire, provider, address and keys of the driver itself;
    `withheld` are the keys of those that were not chosen. `family` marks a driver that stands for many agents,
    `hosted` one whose program is inspan itself, and `pinned` one of which only the installed version is meant. `needs`
    are what a task has to say since there is no usual one; with `key_optional` the provider may ask for no key.
    """

    name: str
    title: str
    program: str
    wire: Wire
    channels: tuple[Channel, ...]
    install: Install = Install()
    version_words: re.Pattern[str] = re.compile(r"(\d+)\.(\d+)\.(\d+)")
    oldest: tuple[int, ...] = ()
    tested: tuple[int, ...] = ()
    asked_with: Mapping[str, str] = {}
    accepts: tuple[str, ...] = ()
    help_words: tuple[str, ...] = ("--help",)
    config_variable: str = ""
    state_below: str = ""
    state_paths: tuple[str, ...] = ()
    login_paths: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    key_aliases: tuple[str, ...] = ()
    ways: tuple[Way, ...] = ()
    withheld: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    login_hint: str = ""
    provider: str = ""
    base_url: str = ""
    base_url_variables: tuple[str, ...] = ()
    login_url: str = ""
    switches: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    settings_in: tuple[Mode, ...] = ("exec", "review", "complete")
    bound_credentials: tuple[str, ...] = ()
    refusal_status: int = 0
    asks_again: bool = False
    session_ids: re.Pattern[str] = re.compile(r".+")
    transcripts: str = ""
    told_in: Callable[[bytes], Told | None] | None = None
    transcript: Transcript | None = None
    models: Mapping[str, str] = {}
    instructions: str = ""
    skills: tuple[str, ...] = ()
    cannot: Mapping[str, str] = {}
    trial_model: str = ""
    recordable: Callable[[bytes], bytes] | None = None
    shares_cache: bool = False
    capabilities: Capabilities = Capabilities()
    litter: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    carries_bwrap: str = ""
    default: bool = False
    demonstrates: bool = False
    built_in: bool = False
    hosted: bool = False
    needs: tuple[Literal["base_url", "model"], ...] = ()
    key_optional: bool = False
    pinned: bool = False
    family: bool = False

    @property
    def program_variable(self) -> str:
        """The variable by which a user names the program: `INSPAN_<NAME>_BIN`; a channel's own has its name in it."""
        channel = self.channels[0]
        name = f"{self.name}_{channel.name}" if channel.program else self.name
        return f"INSPAN_{re.sub(r'[^A-Za-z0-9]', '_', name).upper()}_BIN"
