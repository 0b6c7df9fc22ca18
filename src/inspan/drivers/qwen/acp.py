"""Qwen Code in the Agent Client Protocol: `qwen --acp` (0.24.4)."""

from typing import Any

import msgspec

from inspan.contracts.driver import Launch, Place
from inspan.dialects.acp.command_line import without
from inspan.dialects.acp.opening import Opening, opening_of
from inspan.dialects.acp.speaker import Habits, Speaker
from inspan.protocol.task import Task

from .failures import FAILURES
from .launching import launch as usual_launch


def launch(task: Task, place: Place) -> Launch:
    """As by its usual channel, but for what is said in the course of the conversation."""
    plain = msgspec.structs.replace(place, resume="", session_id="", attachments=())
    usual = usual_launch(msgspec.structs.replace(task, fork=False), plain)
    argv = without(usual.argv[1:], ("--output-format", "--max-session-turns"), flags=("--include-partial-messages",))
    path = usual.env["QWEN_CODE_SYSTEM_SETTINGS_PATH"]
    files = {**usual.files, path: _without_suggestions(usual.files[path])}
    return Launch(argv=(place.program, "--acp", *argv), env=usual.env, files=files)


def _without_suggestions(settings: bytes) -> bytes:
    """Its settings, in which it asks no model what its user might say next."""
    known = msgspec.json.decode(settings, type=dict[str, Any])
    return msgspec.json.encode({**known, "ui": {**known.get("ui", {}), "enableFollowupSuggestions": False}})


def opening(task: Task, place: Place) -> Opening:
    return opening_of(task, place, servers=False)


SPEAKER = Speaker(
    launch=launch,
    opening=opening,
    habits=Habits(quiet=frozenset({"craft/drainMidTurnQueue"}), failures=FAILURES),
)
