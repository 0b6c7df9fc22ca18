"""OpenCode in the Agent Client Protocol: `opencode acp` (1.18.33)."""

import msgspec

from inspan.contracts.driver import Launch, Place
from inspan.dialects.acp.command_line import after
from inspan.dialects.acp.opening import Opening, opening_of
from inspan.dialects.acp.speaker import Habits, Speaker
from inspan.protocol.task import Task

from .dialect import FAILURES
from .launching import launch as usual_launch


def launch(task: Task, place: Place) -> Launch:
    """Its settings as by its usual channel; what were options there is set in the session."""
    usual = _usual(task, place)
    return Launch(argv=(place.program, "acp", *task.options), env=usual.env, files=usual.files)


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


SPEAKER = Speaker(launch=launch, opening=opening, habits=Habits(usage="call", failures=FAILURES))
