"""A scenario: what a scripted model answers, call by call. Values only; `scenario_file.py` reads them."""

from typing import Annotated, Any, Literal

import msgspec

ALWAYS = "always"

_Status = Annotated[int, msgspec.Meta(ge=400, le=599)]
_Seconds = Annotated[float, msgspec.Meta(gt=0)]
_Times = Annotated[int, msgspec.Meta(ge=1)]
_Count = Annotated[int, msgspec.Meta(ge=0)]


class Write(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file to be written, as a whole."""

    path: str
    content: str


class Edit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text to be replaced in a file; `old` should occur there once."""

    path: str
    old: str
    new: str


class Use(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool to be called by its name, whether or not it is on offer; or one of a `server`, as the agent names it."""

    tool: str
    server: str = ""
    input: dict[str, Any] = {}


class Fail(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An HTTP error. Without a body, the provider's usual one is written for the status."""

    status: _Status
    type: str = ""
    message: str = ""
    body: str | dict[str, Any] | None = None
    headers: dict[str, str] = {}


class Counts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The usage that an answer states."""

    input: _Count = 0
    output: _Count = 0
    cache_read: _Count = 0
    cache_write: _Count = 0
    reasoning: _Count = 0


class Call(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to one model call, or to `repeat` calls alike; an `optional` one is left out where no tool fits.

    With `try_tools` it is one call for each tool on offer (`all`), or for each but those that are known to run no
    command and write no file (`writing`), until all have been called once.
    """

    think: str | tuple[str, ...] = ""
    say: str | tuple[str, ...] = ""
    run: str | None = None
    write: Write | None = None
    edit: Edit | None = None
    use: Use | None = None
    answer: dict[str, Any] | None = None
    try_tools: Literal["all", "writing"] | None = None
    fail: Fail | None = None
    stall: Literal["before-headers", "mid-stream"] | None = None
    stall_s: _Seconds | None = None
    cut: bool = False
    garbage: str | None = None
    usage: Counts | None = None
    when: str = ""
    expect: str = ""
    expect_anywhere: str | tuple[str, ...] = ""
    repeat: _Times | Literal["always"] = 1
    optional: bool = False


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A script for a model, checked: every call in it can be played.

    With `asides`, requests that offer no tools, such as those for a title, get a short answer and use up no call.
    `journal` is a file that gets a line for each request: the tools on offer, the answer, the steps left out.
    """

    call: tuple[Call, ...]
    name: str = ""
    asides: bool = False
    journal: str = ""
