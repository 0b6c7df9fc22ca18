"""GitHub Copilot in the Agent Client Protocol: `copilot --acp` (1.0.102)."""

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from inspan.contracts.driver import Launch, Place
from inspan.dialects.acp.command_line import without
from inspan.dialects.acp.opening import Opening, opening_of
from inspan.dialects.acp.speaker import Habits, Speaker
from inspan.protocol.task import Task

from .failures import FAILURES
from .launching import folder
from .launching import launch as usual_launch

_NOTICE = re.compile(r"(Info|Warning|Error): ")
# Its hook, by which the usual channel ends it then, is heard too late here.
_RETRYING = re.compile(r"Retrying\.\.\.$")
_TRAILER = re.compile(r"\n?<(?:shellId: \S+ completed|exited) with exit code \d+>\s*$")
# It names no tool, but shows what it was given: the first of these that is there tells which it was.
_NAMES = {"command": "bash", "file_text": "create", "old_str": "edit", "pattern": "grep", "path": "view"}


def launch(task: Task, place: Place) -> Launch:
    """As by its usual channel, but for what is said in the course of the conversation; it tells its tokens itself."""
    plain = msgspec.structs.replace(place, resume="", session_id="", attachments=())
    usual = usual_launch(task, plain)
    env = {name: value for name, value in usual.env.items() if "OTEL" not in name}
    argv = without(usual.argv[1:], ("--output-format",))
    return Launch(argv=(place.program, "--acp", *argv), env=env, files=usual.files)


def opening(task: Task, place: Place) -> Opening:
    return opening_of(task, msgspec.structs.replace(place, cwd=folder(task, place)), servers=False)


def _own_words(update: Mapping[str, Any]) -> Literal["", "aside", "complaint"]:
    """What it has to say itself comes as one chunk, in the model's place; most of it repeats what a tool told."""
    notice = _NOTICE.match(str(update.get("content", {}).get("text") or ""))
    return "" if notice is None else "aside" if notice[1] == "Info" else "complaint"


def _tool_name(update: Mapping[str, Any]) -> str:
    given: Mapping[str, Any] = update.get("rawInput") or {}
    return next((name for field, name in _NAMES.items() if field in given), "")


SPEAKER = Speaker(
    launch=launch,
    opening=opening,
    habits=Habits(own_words=_own_words, retrying=_RETRYING, tool_name=_tool_name, trailer=_TRAILER, failures=FAILURES),
)
