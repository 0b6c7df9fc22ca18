"""A conversation with an API, which keeps none itself: what was said before is sent again with every message."""

from collections.abc import Callable
from typing import Any

import msgspec

from inspan.contracts.dialect import NO_OUTPUT, DialectOutput
from inspan.contracts.file_requests import FileResult
from inspan.protocol.commands import Command, Configure, SendMessage
from inspan.protocol.events import Event, TextSaid, ThreadStarted, TurnCompleted, TurnFailed, TurnStarted
from inspan.protocol.known_types import know_type

from .http_call import AnswerParser, CallDialect
from .json_values import Json


class HttpSessionSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What every call has in common: the `head` for the host process, the `body` without a message, and in which of
    its fields the messages stand. `attached` goes with the first."""

    head: str
    body: dict[str, Any]
    field: str
    attached: list[dict[str, Any]] = []


class HttpSessionDialect:
    """Builds a call for each message, and reads its answer as a single call's is read."""

    def __init__(self, build_parser: Callable[[], AnswerParser], *, model: str) -> None:
        self._build_parser = build_parser
        self._model = model
        self._setup = HttpSessionSetup(head="", body={}, field="messages")
        self._said: list[Json] = []
        self._asked: Json | None = None
        self._answer: list[str] = []
        self._call: CallDialect | None = None

    def open(self) -> DialectOutput:
        return self.begin(b'{"head":"","body":{},"field":"messages"}')

    def begin(self, setup: bytes) -> DialectOutput:
        self._setup = msgspec.json.decode(setup, type=know_type(HttpSessionSetup))
        self._said = list(self._setup.body.get(self._setup.field) or [])
        return DialectOutput([ThreadStarted(session_id="", model=self._model)])

    def receive(self, frame: bytes) -> DialectOutput:
        if self._call is None:
            return NO_OUTPUT  # What comes between two calls belongs to none.
        output = self._call.receive(frame)
        for event in output.events:
            self._follow(event)
        return output

    def receive_stderr(self, line: bytes) -> DialectOutput:
        return NO_OUTPUT

    def send(self, command: Command) -> DialectOutput:
        if isinstance(command, Configure) and command.model and not (command.effort or command.mode):
            self._model = command.model
            return DialectOutput(frames=[b"\n"])  # The next call asks it; an empty line tells the host nothing.
        if not isinstance(command, SendMessage):
            return NO_OUTPUT
        self._asked = self._build_message(command.text)
        self._answer = []
        self._call = CallDialect(self._build_parser(), model=self._model)
        body = {**self._setup.body, "model": self._model, self._setup.field: [*self._said, self._asked]}
        written = msgspec.json.encode(body)
        frame = f"{self._setup.head}length: {len(written)}\n\n".encode() + written
        return DialectOutput([TurnStarted()], [frame])

    def receive_file_result(self, result: FileResult) -> DialectOutput:
        return NO_OUTPUT

    def close(self) -> DialectOutput:
        return NO_OUTPUT

    def _build_message(self, text: str) -> Json:
        attached, self._setup = self._setup.attached, msgspec.structs.replace(self._setup, attached=[])
        kind = "input_text" if self._setup.field == "input" else "text"
        content: Any = [{"type": kind, "text": text}, *attached] if attached else text
        return self._wrap("user", content)

    def _wrap(self, role: str, content: Any) -> Json:
        typed = {"type": "message"} if self._setup.field == "input" else {}
        return {**typed, "role": role, "content": content}

    def _follow(self, event: Event) -> None:
        """What was answered is said from now on; what was not is as if it had never been asked."""
        if isinstance(event, TextSaid):
            self._answer.append(event.text)
        elif isinstance(event, TurnCompleted) and self._asked:
            self._said += [self._asked, self._wrap("assistant", "\n\n".join(self._answer))]
        if isinstance(event, TurnCompleted | TurnFailed):
            self._asked, self._call = None, None
