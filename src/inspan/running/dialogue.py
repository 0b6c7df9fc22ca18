"""A dialect that is listened to: its words reach the agent, and the file work that the agent wants is done.

Loaded only where an agent listens.
"""

import os
from asyncio import AbstractEventLoop
from collections.abc import Callable, Sequence

from inspan.contracts.dialect import DialectOutput, InteractiveDialect
from inspan.contracts.driver import Driver
from inspan.protocol.commands import Command, SendMessage
from inspan.protocol.events import Event, HookCalled, PermissionAsked, TurnStarted
from inspan.protocol.plan import Plan
from inspan.protocol.wire import decode_event, encode
from inspan.stores.large_text import LARGE_BYTES
from inspan.stores.paths import runtime_home
from inspan.transports.stdin import PipeWriter

from .workspace import Workspace

SpillFunction = Callable[[bytes, int], bytes]


class Dialogue:
    """A dialect like any other to the run; whatever goes down has gone when a step returns.

    Frames reach the dialect as they are, since a file that the agent writes through us may be large; `spill` then
    takes the large texts out of the events (given with their place among those of one step). `on_done` hears that
    nothing more will be said; `prompt_was_read` then tells whether what began the turn was taken out of the pipe.
    """

    def __init__(
        self,
        dialect: InteractiveDialect,
        writer: PipeWriter,
        *,
        setup: bytes,
        workspace: Workspace,
        spill: SpillFunction,
        on_done: Callable[[], None],
    ) -> None:
        self._dialect = dialect
        self._writer = writer
        self._setup = setup
        self._workspace = workspace
        self._spill = spill
        self._on_done = on_done
        self._prompted_bytes = 0
        self.prompt_was_read = False

    def open(self) -> DialectOutput:
        output = self._process(self._dialect.begin(self._setup))
        # Until a turn begins with words of its own, the first ones are the prompt.
        self._prompted_bytes = self._prompted_bytes or self._writer.written_bytes
        return output

    def receive(self, frame: bytes) -> DialectOutput:
        return self._process(self._dialect.receive(frame), large=len(frame) > LARGE_BYTES)

    def receive_stderr(self, line: bytes) -> DialectOutput:
        return self._process(self._dialect.receive_stderr(line))

    def send(self, command: Command) -> DialectOutput:
        output = self._dialect.send(command)
        if isinstance(command, SendMessage) and output.frames:
            self._prompted_bytes = self._writer.written_bytes + sum(map(len, output.frames))
        return self._process(output)

    def finish(self) -> None:
        """Nothing more will be said: closes the agent's stdin once it has all that was."""
        self.prompt_was_read = self._prompted_bytes <= self._writer.consumed_bytes
        self._writer.finish()
        self._on_done()

    def close(self) -> DialectOutput:
        """The agent has closed its output."""
        return self._process(self._dialect.close())

    def close_stdin(self) -> None:
        """Closes the agent's stdin; idempotent."""
        self._writer.close()

    def _process(self, output: DialectOutput, *, large: bool = False) -> DialectOutput:
        events = list(self._perform(output))
        return DialectOutput(
            [self._spill_event(event, place, large=large) for place, event in enumerate(events)], output.frames
        )

    def _perform(self, output: DialectOutput) -> Sequence[Event]:
        """Sends, does and closes what a step asks for; gives its events with those of what was done."""
        for frame in output.frames:
            self._writer.write(frame)
        if output.frames and any(isinstance(event, TurnStarted) for event in output.events):
            self._prompted_bytes = self._writer.written_bytes
        events = [*output.events]
        for request in output.file_requests:
            events += self._perform(self._dialect.receive_file_result(self._workspace.handle(request)))
        if output.done:
            self.finish()
        return events

    def _spill_event(self, event: Event, place: int, *, large: bool) -> Event:
        if isinstance(event, PermissionAsked | HookCalled):
            return event  # Whoever decides about it must see all of it.
        text: str = getattr(event, "text", "") or getattr(event, "output", "")
        if not large and len(text) <= LARGE_BYTES // 4:
            return event
        spelled = encode(event)
        return decode_event(self._spill(spelled, place)) if len(spelled) > LARGE_BYTES else event


def build_dialogue(
    plan: Plan,
    driver: Driver,
    *,
    stdin: int,
    loop: AbstractEventLoop,
    spill: SpillFunction,
    on_done: Callable[[], None],
    on_stdin_overflow: Callable[[str], None],
) -> Dialogue:
    """The conversation of a run on this descriptor, which it closes; `on_stdin_overflow` hears of an agent that does
    not read.
    """
    dialect = driver.channels[0].dialect(plan.task, plan.session.reported)
    if not isinstance(dialect, InteractiveDialect):
        raise TypeError(f"channel {plan.agent.channel} of {driver.name} keeps stdin, but its dialect answers nobody")

    def on_overflow(size: int) -> None:
        on_stdin_overflow(f"{driver.title} is not reading its input: {size / 1e6:.0f} MB are waiting")

    return Dialogue(
        dialect,
        PipeWriter(stdin, loop=loop, on_overflow=on_overflow),
        setup=plan.process.stdin,
        workspace=_build_workspace(plan),
        spill=spill,
        on_done=on_done,
    )


def _build_workspace(plan: Plan) -> Workspace:
    task = plan.task
    own = (task.cwd, *task.extra_dirs, plan.path_placeholders["task"])
    return Workspace(
        task.cwd,
        readable=(*own, os.path.join(plan.folder, "agent")),
        writable=own if task.mode == "exec" else (),
        hidden=(plan.state, runtime_home()),
    )
