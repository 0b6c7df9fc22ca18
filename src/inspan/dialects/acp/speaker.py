"""How one agent speaks the protocol: how it is started and opened, and what it does in ways of its own."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from inspan.contracts.driver import Failure, Launch, Place
from inspan.protocol.events import Event
from inspan.protocol.task import Task
from inspan.protocol.usage import Usage

from .opening import Opening, opening_of


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """What a line beside the protocol tells: the tokens of a model call, or of the tool call `id` what came of it.

    A `problem` fails the turn, however it ends.
    """

    events: Sequence[Event] = ()
    problem: str = ""
    usage: Usage | None = None
    id: str = ""
    output: str | None = None
    exit_code: int | None = None


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """How one agent speaks the protocol, where it leaves that open.

    `tool_name` finds a tool's name in its first update. `kinds` are the kinds of tools, by name, that it calls `other`.
    `usage` says what the tokens in the answer to a prompt are of: the turn, its last call alone (then they are not
    told), or the whole session. `quiet` are methods of its own that tell nothing.

    `own_words` tells a chunk of the program's own from one of the model's, which is empty; an `aside` is not told on,
    and one that says that a failed call will be tried again (`retrying`) ends the turn. `failures` are its words for
    failures, looked at before the common ones. `refused` begins the output of a call that it did not let run itself;
    `trailer` is what it puts behind the output of a command.

    `beside` reads a line that is none of the protocol's, and gives nothing where it does not know it; with `waits`, the
    end of a tool call waits for what may be told of it so. `empty_for_missing`: it cannot read the answer that there is
    no such file, and takes an empty one. `zero_if_done`: it tells the exit code of a command only where that failed.
    """

    tool_name: Callable[[Mapping[str, Any]], str] | None = None
    kinds: Mapping[str, str] = {}
    usage: Literal["turn", "call", "session"] = "turn"
    own_words: Callable[[Mapping[str, Any]], Literal["", "aside", "complaint"]] | None = None
    retrying: re.Pattern[str] | None = None
    trailer: re.Pattern[str] | None = None
    quiet: frozenset[str] = frozenset()
    failures: tuple[Failure, ...] = ()
    refused: re.Pattern[str] | None = None
    beside: Callable[[bytes], Beside | None] | None = None
    waits: bool = False
    empty_for_missing: bool = False
    zero_if_done: bool = False


class Speaker(msgspec.Struct, frozen=True, kw_only=True):
    """An agent in this protocol: `launch` gives its command line, environment and files, `opening` what it is told."""

    launch: Callable[[Task, Place], Launch]
    opening: Callable[[Task, Place], Opening] = opening_of
    habits: Habits = Habits()
