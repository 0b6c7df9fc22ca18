"""Gemini CLI in the Agent Client Protocol: `gemini --acp` (0.61)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from inspan.contracts.driver import Launch, Place
from inspan.dialects.acp.command_line import without
from inspan.dialects.acp.opening import Opening, opening_of
from inspan.dialects.acp.speaker import Beside, Habits, Speaker
from inspan.protocol.task import Task
from inspan.protocol.wire import UNREADABLE

from .dialect import FAILURES
from .launching import launch as usual_launch
from .records import ENDED, Tokens


def launch(task: Task, place: Place) -> Launch:
    """As by its usual channel, but for what is said in the course of the conversation."""
    plain = msgspec.structs.replace(place, resume="", session_id="", attachments=())
    usual = usual_launch(task, plain)
    argv = without(usual.argv[1:], ("--output-format",))
    return Launch(argv=(place.program, "--acp", *argv), env=usual.env, files=usual.files)


def opening(task: Task, place: Place) -> Opening:
    return opening_of(task, place, servers=False)


def _tool_name(update: Mapping[str, Any]) -> str:
    """It stands before the id of a call, and nowhere else."""
    return str(update.get("toolCallId") or "").partition("__")[0]


class _Told(msgspec.Struct):
    type: str
    tokens: Tokens = msgspec.field(default_factory=Tokens)
    tool_id: str = ""
    told: str = ""


def _beside(line: bytes) -> Beside | None:
    """The frames of its first module, which stand between those of the protocol: tokens, and what commands gave."""
    try:
        told = msgspec.json.decode(line, type=_Told)
    except UNREADABLE:
        return None
    if not told.tool_id:
        return Beside(usage=told.tokens.usage)
    ended = ENDED.search(told.told)
    if ended is None:
        return Beside(id=told.tool_id, output=told.told)
    code = None if ended["signal"] else int(ended["code"] or 0)
    output = told.told[: ended.start()].removeprefix("<untrusted_context>\n").removeprefix("Output: ")
    return Beside(id=told.tool_id, output="" if output == "(empty)" else output, exit_code=code)


SPEAKER = Speaker(
    launch=launch,
    opening=opening,
    # The tokens that it tells itself leave out those for thoughts.
    habits=Habits(
        tool_name=_tool_name,
        usage="call",
        beside=_beside,
        waits=True,
        empty_for_missing=True,
        failures=FAILURES,
    ),
)
