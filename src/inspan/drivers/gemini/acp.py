"""Gemini CLI in the Agent Client Protocol: `gemini --acp` (0.61)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from inspan.contracts.driver import Launch, LaunchContext
from inspan.dialects.acp.command_line import remove_options
from inspan.dialects.acp.profile import AcpAgent, AcpProfile, SideLine
from inspan.dialects.acp.session_setup import SessionSetup, default_setup
from inspan.protocol.known_types import know_type
from inspan.protocol.task import Task
from inspan.protocol.wire import DECODE_ERRORS

from .dialect import FAILURES
from .launch import launch as usual_launch
from .records import COMMAND_END, Tokens


def launch(task: Task, context: LaunchContext) -> Launch:
    """As by its usual channel, but for what is said in the course of the conversation."""
    plain = msgspec.structs.replace(context, resume="", session_id="", attachments=())
    usual = usual_launch(task, plain)
    argv = remove_options(usual.argv[1:], ("--output-format",))
    return Launch(argv=(context.program, "--acp", *argv), env=usual.env, files=usual.files)


def build_setup(task: Task, context: LaunchContext) -> SessionSetup:
    return default_setup(task, context, servers=False)


def _find_tool_name(update: Mapping[str, Any]) -> str:
    """It stands before the id of a call, and nowhere else."""
    return str(update.get("toolCallId") or "").partition("__")[0]


class _SideFrame(msgspec.Struct):
    type: str
    tokens: Tokens = msgspec.field(default_factory=Tokens)
    tool_id: str = ""
    told: str = ""


def _parse_side_line(line: bytes) -> SideLine | None:
    """The frames of its first module, which stand between those of the protocol: tokens, and what commands gave."""
    try:
        frame = msgspec.json.decode(line, type=know_type(_SideFrame))
    except DECODE_ERRORS:
        return None
    if not frame.tool_id:
        return SideLine(usage=frame.tokens.usage)
    ended = COMMAND_END.search(frame.told)
    if ended is None:
        return SideLine(id=frame.tool_id, output=frame.told)
    code = None if ended["signal"] else int(ended["code"] or 0)
    output = frame.told[: ended.start()].removeprefix("<untrusted_context>\n").removeprefix("Output: ")
    return SideLine(id=frame.tool_id, output="" if output == "(empty)" else output, exit_code=code)


ACP_AGENT = AcpAgent(
    launch=launch,
    build_setup=build_setup,
    # The tokens that it tells itself leave out those for thoughts.
    profile=AcpProfile(
        find_tool_name=_find_tool_name,
        mcp_prefix="mcp_{server}_",
        usage_scope="call",
        parse_side_line=_parse_side_line,
        waits_for_side_line=True,
        reads_missing_as_empty=True,
        failures=FAILURES,
    ),
)
