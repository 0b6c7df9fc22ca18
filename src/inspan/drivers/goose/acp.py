"""Goose in the Agent Client Protocol: `goose acp` (1.52.0)."""

import re

import msgspec

from inspan.contracts.driver import Launch, Place
from inspan.dialects.acp.command_line import after
from inspan.dialects.acp.opening import Opening, opening_of
from inspan.dialects.acp.speaker import Habits, Speaker
from inspan.protocol.task import Task

from .failures import FAILURES
from .launching import elsewhere
from .launching import launch as usual_launch

# It asks before every tool then, and inspan answers by the mode of the run.
_MODES = {"exec": "approve", "review": "approve", "complete": "chat"}


def launch(task: Task, place: Place) -> Launch:
    """As by its usual channel, but that provider and model go by variables: it takes no such options here."""
    plain = msgspec.structs.replace(place, resume="", session_id="")
    usual = usual_launch(msgspec.structs.replace(task, mcp_servers={}, append_system_prompt="", options=()), plain)
    env = {**usual.env, "GOOSE_MODE": _MODES[task.mode]}
    for variable, option in (("GOOSE_PROVIDER", "--provider"), ("GOOSE_MODEL", "--model")):
        if value := after(usual.argv, option):
            env[variable] = value
    argv = (place.program, "acp", *task.options)
    return Launch(argv=elsewhere(place, argv) if task.mode == "complete" else argv, env=env, files=usual.files)


def opening(task: Task, place: Place) -> Opening:
    """A project's plugins have servers too, which start in the folder of the session."""
    where = place.scratch if task.mode == "complete" else place.cwd
    return opening_of(task, msgspec.structs.replace(place, cwd=where), modes=(_MODES[task.mode],))


SPEAKER = Speaker(
    launch=launch,
    opening=opening,
    habits=Habits(
        usage="call",
        failures=FAILURES,
        # In its mode `chat` a call that it skipped counts as completed.
        refused=re.compile(r"Let the user know the tool call was skipped"),
    ),
)
