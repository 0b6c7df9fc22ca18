"""How one agent speaks the protocol: how it is started and opened, and what it does in ways of its own."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from inspan.contracts.driver import Failure, Launch, LaunchContext
from inspan.protocol.events import Event
from inspan.protocol.task import Task
from inspan.protocol.usage import Usage

from .session_setup import SessionSetup, default_setup


class SideLine(msgspec.Struct, frozen=True, kw_only=True):
    """What a line beside the protocol tells: the tokens of a model call, or of the tool call `id` what it was given or
    what came of it.

    A `problem` fails the turn, however it ends.
    """

    events: Sequence[Event] = ()
    problem: str = ""
    usage: Usage | None = None
    id: str = ""
    input: Any = None
    output: str | None = None
    exit_code: int | None = None


class AcpProfile(msgspec.Struct, frozen=True, kw_only=True):
    """How one agent speaks the protocol, where it leaves that open.

    `find_tool_name` finds a tool's name in its first update. `tool_kinds` are the kinds of tools, by name, that it
    calls `other`. `usage_scope` says what the tokens in the answer to a prompt are of: the turn, its last call alone
    (then they are not reported), the whole session, or all that this process did. `ignored_methods` are methods of its
    own that tell nothing.

    `mcp_prefix` begins its names for the tools of a server.

    `classify_notice` tells a chunk of the program's own from one of the model's, which is empty; an `aside` is not told
    on, and one that says that a failed call will be tried again (`retry_pattern`) ends the turn. `failures` are its
    words for failures, looked at before the common ones. `refusal_pattern` begins the output of a call that it did not
    let run itself; `trailer_pattern` is what it puts behind the output of a command.

    `parse_side_line` reads a line that is none of the protocol's, and gives nothing where it does not know it; with
    `waits_for_side_line`, the end of a tool call waits for what may be told of it so. `reads_missing_as_empty`: it
    cannot read the answer that there is no such file, and takes an empty one. `implies_exit_zero`: it tells the exit
    code of a command only where that failed.
    """

    find_tool_name: Callable[[Mapping[str, Any]], str] | None = None
    mcp_prefix: str = ""
    tool_kinds: Mapping[str, str] = {}
    usage_scope: Literal["turn", "call", "session", "process"] = "turn"
    classify_notice: Callable[[Mapping[str, Any]], Literal["", "aside", "complaint"]] | None = None
    retry_pattern: re.Pattern[str] | None = None
    trailer_pattern: re.Pattern[str] | None = None
    ignored_methods: frozenset[str] = frozenset()
    failures: tuple[Failure, ...] = ()
    refusal_pattern: re.Pattern[str] | None = None
    parse_side_line: Callable[[bytes], SideLine | None] | None = None
    waits_for_side_line: bool = False
    reads_missing_as_empty: bool = False
    implies_exit_zero: bool = False


class AcpAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent in this protocol: `launch` gives its command line, environment and files, `build_setup` its setup."""

    launch: Callable[[Task, LaunchContext], Launch]
    build_setup: Callable[[Task, LaunchContext], SessionSetup] = default_setup
    profile: AcpProfile = AcpProfile()
