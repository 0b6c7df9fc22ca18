"""OpenCode in the Agent Client Protocol: `opencode acp` (1.18.33)."""

from typing import Any

import msgspec

from inspan.contracts.driver import Launch, LaunchContext
from inspan.dialects.acp.command_line import option_value
from inspan.dialects.acp.profile import AcpAgent, AcpProfile, SideLine
from inspan.dialects.acp.session_setup import SessionSetup, default_setup
from inspan.protocol.events import McpServerFailed
from inspan.protocol.known_types import know_type
from inspan.protocol.task import Task
from inspan.protocol.wire import DECODE_ERRORS

from .dialect import FAILURES
from .launch import encode_settings
from .launch import launch as usual_launch
from .parts import Part

_SETTINGS = "OPENCODE_CONFIG_CONTENT"


def launch(task: Task, context: LaunchContext) -> Launch:
    """Its settings as by its usual channel; what were options there is set in the session."""
    usual = _plain_launch(task, context)
    env = {**usual.env, _SETTINGS: _disable_titles(usual.env[_SETTINGS], scratch=context.scratch)}
    return Launch(argv=(context.program, "acp", *task.options), env=env, files=usual.files)


def _disable_titles(settings: str, *, scratch: str) -> str:
    """Its settings, in which it asks no model for a title: here a session cannot be given one."""
    known = msgspec.json.decode(settings, type=dict[str, Any])
    agents = {**known.get("agent", {}), "title": {"disable": True}}
    return encode_settings({**known, "agent": agents}, scratch=scratch)


def build_setup(task: Task, context: LaunchContext) -> SessionSetup:
    """Its agents are modes here."""
    usual = _plain_launch(task, context)
    own, effort = option_value(usual.argv, "--agent"), option_value(usual.argv, "--variant")
    return default_setup(
        task,
        context,
        model=option_value(usual.argv, "--model"),
        modes=(own,) if own else (),
        options={"thought_level": effort} if effort else {},
        servers=False,
    )


def _plain_launch(task: Task, context: LaunchContext) -> Launch:
    plain = msgspec.structs.replace(context, resume="", session_id="")
    return usual_launch(msgspec.structs.replace(task, fork=False, options=()), plain)


class _SideFrame(msgspec.Struct):
    type: str
    name: str = ""
    message: str = ""
    part: Part | None = None


def _parse_side_line(line: bytes) -> SideLine | None:
    """What its plugin tells between the lines of the protocol: tokens of each call, and why a turn was ended."""
    try:
        frame = msgspec.json.decode(line, type=know_type(_SideFrame))
    except DECODE_ERRORS:
        return None
    if not frame.type.startswith("inspan_"):
        return None
    if frame.type == "inspan_failed":
        return SideLine(problem=frame.message)
    if frame.type == "inspan_server":
        return SideLine(events=[McpServerFailed(name=frame.name, message=frame.message)])
    if frame.type == "inspan_tool" and frame.part:  # The protocol may ask about a call before it tells its input.
        return SideLine(id=frame.part.callID, input=frame.part.state.input)
    return SideLine(usage=frame.part.tokens.usage if frame.part and frame.part.type == "step-finish" else None)


ACP_AGENT = AcpAgent(
    launch=launch,
    build_setup=build_setup,
    profile=AcpProfile(mcp_prefix="{server}_", usage_scope="call", parse_side_line=_parse_side_line, failures=FAILURES),
)
