"""A driver is a value: the data and the two functions by which inspan knows one agent."""

import re
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from inspan.protocol.outcome import FailureKind
from inspan.protocol.task import Task

from .dialect import Dialect

Wire = Literal["messages", "responses", "chat"]


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway as the agent sees it."""

    url: str
    token: str


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where one run happens. `config` is the session's own config folder, empty in the profile `user`."""

    program: str
    cwd: str
    config: str = ""
    endpoint: Endpoint | None = None
    session_id: str = ""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What to start: `files` are written into the config folder first, `stdin` is all the agent will read."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    stdin: bytes = b""


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """One way into an agent."""

    kind: Literal["stream"]
    launch: Callable[[Task, Place], Launch]
    dialect: Callable[[Task], Dialect]


class Install(msgspec.Struct, frozen=True, kw_only=True):
    """Where the program can be had: a pinned requirement, and the program's path below site-packages."""

    requirement: str
    program: str
    version: str


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Words by which an agent's message tells a kind of failure."""

    kind: FailureKind
    words: re.Pattern[str]


def failure(kind: FailureKind, words: str) -> Failure:
    """A failure told by any of these words, in upper or lower case."""
    return Failure(kind=kind, words=re.compile(words, re.IGNORECASE))


def kind_told(failures: tuple[Failure, ...], message: str) -> FailureKind | None:
    """The first kind of failure whose words stand in the message."""
    return next((each.kind for each in failures if each.words.search(message)), None)


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What this agent really does and reports; shown by `inspan agents`."""

    presets_session_id: bool = False
    reports_cost: bool = False
    reports_usage: bool = True
    streams_text: bool = False
    follows_gateway: bool = True
    root_needs_box: bool = False


class Driver(msgspec.Struct, frozen=True, kw_only=True):
    """Everything inspan knows about one agent."""

    name: str
    title: str
    program: str
    wire: Wire
    channels: tuple[Channel, ...]
    install: Install
    version_words: re.Pattern[str]
    oldest: tuple[int, ...]
    config_variable: str
    state_paths: tuple[str, ...]
    login_paths: tuple[str, ...]
    credentials: tuple[str, ...]
    variables: tuple[str, ...]
    failures: tuple[Failure, ...]
    login_hint: str
    capabilities: Capabilities = Capabilities()
    litter: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    carries_bwrap: str = ""
    default: bool = False
    demonstrates: bool = False
    built_in: bool = False

    @property
    def program_variable(self) -> str:
        """The variable by which a user names the program: `INSPAN_<NAME>_BIN`."""
        return f"INSPAN_{self.name.upper()}_BIN"
