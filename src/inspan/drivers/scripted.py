"""The built-in scripted agent: our own small program, for demonstrations and tests without a vendor's agent."""

import os
import re

from inspan.contracts.dialect import NO_OUTPUT, DialectOutput
from inspan.contracts.driver import Access, Capabilities, Channel, Driver, Launch, LaunchContext, ProgramSpec, Provider
from inspan.dialects.provider_errors import FAILURES
from inspan.protocol.commands import Command
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals
from inspan.protocol.wire import decode_event

_SCRIPT = os.path.join(os.path.dirname(os.path.dirname(__file__)), "testing", "scripted_agent.py")


def launch(task: Task, context: LaunchContext) -> Launch:
    """It is only ever pointed at the run's own endpoint; without one it fails and says so."""
    env = {"INSPAN_RUN_TOKEN": context.endpoint.token} if context.endpoint else {}
    env |= {"PARTIAL": "1"} if task.partial else {}
    return Launch(argv=(context.program, "-I", _SCRIPT), env=env, stdin=task.prompt.encode())


class ScriptedDialect:
    """Its lines are events already."""

    def __init__(self, task: Task, reported: SessionTotals) -> None:
        self._task = task

    def open(self) -> DialectOutput:
        return NO_OUTPUT

    def receive(self, frame: bytes) -> DialectOutput:
        return DialectOutput([decode_event(frame)])

    def receive_stderr(self, line: bytes) -> DialectOutput:
        return NO_OUTPUT

    def send(self, command: Command) -> DialectOutput:
        return NO_OUTPUT


DRIVER = Driver(
    name="scripted",
    title="Built-in scripted agent",
    program=ProgramSpec(
        command="python3",
        version_pattern=re.compile(r"Python (\d+)\.(\d+)\.(\d+)"),
        oldest=(3, 11, 0),
    ),
    provider=Provider(
        wire="chat",
    ),
    channels=(Channel(kind="stream", launch=launch, dialect=ScriptedDialect),),
    access=Access(
        login_hint="it needs none",
    ),
    capabilities=Capabilities(
        streams_tool_output=True,
    ),
    failures=FAILURES,
    built_in=True,
)
