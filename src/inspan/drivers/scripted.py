"""The built-in scripted agent: our own small program, for demonstrations and tests without a vendor's agent."""

import os
import re

from inspan.contracts.dialect import NOTHING, Said
from inspan.contracts.driver import Channel, Driver, Launch, Place
from inspan.protocol.commands import Command
from inspan.protocol.task import Task
from inspan.protocol.usage import Told
from inspan.protocol.wire import decode_event

_SCRIPT = os.path.join(os.path.dirname(os.path.dirname(__file__)), "testing", "scripted_agent.py")


def launch(task: Task, place: Place) -> Launch:
    """It is only ever pointed at the run's own endpoint; without one it fails and says so."""
    env = {"INSPAN_RUN_TOKEN": place.endpoint.token} if place.endpoint else {}
    return Launch(argv=(place.program, "-I", _SCRIPT), env=env, stdin=task.prompt.encode())


class ScriptedDialect:
    """Its lines are events already."""

    def __init__(self, task: Task, told: Told) -> None:
        self._task = task

    def open(self) -> Said:
        return NOTHING

    def receive(self, frame: bytes) -> Said:
        return Said([decode_event(frame)])

    def overhear(self, line: bytes) -> Said:
        return NOTHING

    def send(self, command: Command) -> Said:
        return NOTHING


DRIVER = Driver(
    name="scripted",
    title="Built-in scripted agent",
    program="python3",
    wire="chat",
    channels=(Channel(kind="stream", launch=launch, dialect=ScriptedDialect),),
    version_words=re.compile(r"Python (\d+)\.(\d+)\.(\d+)"),
    oldest=(3, 11, 0),
    login_hint="it needs none",
    built_in=True,
)
