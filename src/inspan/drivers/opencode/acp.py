"""OpenCode in the Agent Client Protocol: `opencode acp` (1.18.33)."""

from typing import Any

import msgspec

from inspan.contracts.driver import Launch, Place
from inspan.dialects.acp.command_line import after
from inspan.dialects.acp.opening import Opening, opening_of
from inspan.dialects.acp.speaker import Beside, Habits, Speaker
from inspan.protocol.events import McpServerFailed
from inspan.protocol.task import Task
from inspan.protocol.wire import UNREADABLE

from .dialect import FAILURES
from .launching import launch as usual_launch
from .launching import written
from .parts import Part

_SETTINGS = "OPENCODE_CONFIG_CONTENT"


def launch(task: Task, place: Place) -> Launch:
    """Its settings as by its usual channel; what were options there is set in the session."""
    usual = _usual(task, place)
    env = {**usual.env, _SETTINGS: _without_titles(usual.env[_SETTINGS], scratch=place.scratch)}
    return Launch(argv=(place.program, "acp", *task.options), env=env, files=usual.files)


def _without_titles(settings: str, *, scratch: str) -> str:
    """Its settings, in which it asks no model for a title: here a session cannot be given one."""
    known = msgspec.json.decode(settings, type=dict[str, Any])
    agents = {**known.get("agent", {}), "title": {"disable": True}}
    return written({**known, "agent": agents}, scratch=scratch)


def opening(task: Task, place: Place) -> Opening:
    """Its agents are modes here."""
    usual = _usual(task, place)
    own, effort = after(usual.argv, "--agent"), after(usual.argv, "--variant")
    return opening_of(
        task,
        place,
        model=after(usual.argv, "--model"),
        modes=(own,) if own else (),
        options={"thought_level": effort} if effort else {},
        servers=False,
    )


def _usual(task: Task, place: Place) -> Launch:
    plain = msgspec.structs.replace(place, resume="", session_id="")
    return usual_launch(msgspec.structs.replace(task, fork=False, options=()), plain)


class _Told(msgspec.Struct):
    type: str
    name: str = ""
    message: str = ""
    part: Part | None = None


def _beside(line: bytes) -> Beside | None:
    """What its plugin tells between the lines of the protocol: tokens of each call, and why a turn was ended."""
    try:
        told = msgspec.json.decode(line, type=_Told)
    except UNREADABLE:
        return None
    if not told.type.startswith("inspan_"):
        return None
    if told.type == "inspan_failed":
        return Beside(problem=told.message)
    if told.type == "inspan_server":
        return Beside(events=[McpServerFailed(name=told.name, message=told.message)])
    return Beside(usage=told.part.tokens.usage if told.part and told.part.type == "step-finish" else None)


SPEAKER = Speaker(launch=launch, opening=opening, habits=Habits(usage="call", beside=_beside, failures=FAILURES))
