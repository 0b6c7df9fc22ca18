"""GitHub Copilot in the Agent Client Protocol: `copilot --acp` (1.0.102)."""

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from inspan.contracts.driver import Launch, LaunchContext
from inspan.dialects.acp.command_line import remove_options
from inspan.dialects.acp.profile import AcpAgent, AcpProfile
from inspan.dialects.acp.session_setup import SessionSetup, default_setup
from inspan.protocol.task import Task

from .failures import FAILURES
from .launch import launch as usual_launch
from .launch import work_folder

_NOTICE = re.compile(r"(Info|Warning|Error): ")
# Its hook, by which the usual channel ends it then, is heard too late here.
_RETRYING = re.compile(r"Retrying\.\.\.$")
_TRAILER = re.compile(r"\n?<(?:shellId: \S+ completed|exited) with exit code \d+>\s*$")
# It names no tool, but shows what it was given: the first of these that is there tells which it was.
_NAMES = {"command": "bash", "file_text": "create", "old_str": "edit", "pattern": "grep", "path": "view"}


def launch(task: Task, context: LaunchContext) -> Launch:
    """As by its usual channel, but for what is said in the course of the conversation; it tells its tokens itself."""
    plain = msgspec.structs.replace(context, resume="", session_id="", attachments=())
    usual = usual_launch(task, plain)
    env = {name: value for name, value in usual.env.items() if "OTEL" not in name}
    argv = remove_options(usual.argv[1:], ("--output-format",))
    return Launch(argv=(context.program, "--acp", *argv), env=env, files=usual.files)


def build_setup(task: Task, context: LaunchContext) -> SessionSetup:
    return default_setup(task, msgspec.structs.replace(context, cwd=work_folder(task, context)), servers=False)


def _classify_notice(update: Mapping[str, Any]) -> Literal["", "aside", "complaint"]:
    """What it has to say itself comes as one chunk, in the model's place; most of it repeats what a tool told."""
    notice = _NOTICE.match(str(update.get("content", {}).get("text") or ""))
    return "" if notice is None else "aside" if notice[1] == "Info" else "complaint"


def _find_tool_name(update: Mapping[str, Any]) -> str:
    given: Mapping[str, Any] = update.get("rawInput") or {}
    return next((name for field, name in _NAMES.items() if field in given), "")


ACP_AGENT = AcpAgent(
    launch=launch,
    build_setup=build_setup,
    profile=AcpProfile(
        classify_notice=_classify_notice,
        retry_pattern=_RETRYING,
        find_tool_name=_find_tool_name,
        mcp_prefix="{server}-",
        usage_scope="process",
        trailer_pattern=_TRAILER,
        failures=FAILURES,
    ),
)
