"""One call by HTTP as its host process tells it: the head, the answer in the provider's language, the end."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from inspan.contracts.dialect import NO_OUTPUT, DialectOutput, build_unrecognized
from inspan.framing.retry_after import find_reset_in_headers
from inspan.protocol.commands import Command
from inspan.protocol.events import (
    Event,
    RateLimited,
    ThreadStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from inspan.protocol.http_status import is_error_status
from inspan.protocol.known_types import know_type
from inspan.protocol.outcome import FailureKind
from inspan.protocol.usage import Usage
from inspan.protocol.wire import DECODE_ERRORS

from .json_values import Json, get_object, get_text
from .provider_errors import classify_failure

_HOST_PREFIX = b'{"http":{'
_QUOTED_CHARACTERS = 200
_MESSAGE_CHARACTERS = 2000


class Problem(msgspec.Struct, frozen=True):
    """Why an answer is none, though it came."""

    kind: FailureKind
    message: str


class AnswerParser(Protocol):
    """How a provider writes an answer, whole or in pieces. It has no end of its own: that is told by `finish`."""

    usage: Usage | None
    cost_usd: float | None
    is_complete: bool
    problem: Problem | None

    def read(self, payload: Json) -> Sequence[Event] | None:
        """What a piece tells; None for one that is not known."""
        ...

    def finish(self) -> Sequence[Event]:
        """What was held back, once nothing more comes."""
        ...


class _HostReport(msgspec.Struct, frozen=True):
    """A line of the host's own."""

    status: int = 0
    headers: dict[str, str] = {}
    at: float | None = None
    text: str = ""
    ended: str = ""
    message: str = ""
    unreachable: str = ""


class _HostLine(msgspec.Struct, frozen=True):
    http: _HostReport


_decode_host_line = msgspec.json.Decoder(know_type(_HostLine)).decode
_decode: Any = msgspec.json.Decoder(Json).decode


class CallDialect:
    """Reads the lines of `transports/http_agent.py`; what stands between them is for the `parser`.

    The turn begins with the process; `model` is the one that is asked. An API has no session to come back to.
    """

    def __init__(self, parser: AnswerParser, *, model: str) -> None:
        self._parser = parser
        self._model = model
        self._head = _HostReport()
        self._is_over = False
        self._garbage = ""
        self._strange = ""
        self._is_known = False
        self._refusal = ""

    def open(self) -> DialectOutput:
        return DialectOutput([ThreadStarted(session_id="", model=self._model), TurnStarted()])

    def receive(self, frame: bytes) -> DialectOutput:
        if frame.startswith(_HOST_PREFIX):
            return DialectOutput(self._on_host_line(frame))
        if frame.strip() == b"[DONE]":
            self._parser.is_complete = True
            return NO_OUTPUT
        try:
            payload: Json = _decode(frame)
        except DECODE_ERRORS as error:
            return DialectOutput(self._on_unreadable(frame, str(error)))
        if is_error_status(self._head.status):
            self._refusal = self._refusal or find_error_message(payload) or frame.decode(errors="replace")
            return NO_OUTPUT
        events = self._parser.read(payload)
        if events is None:
            self._strange = self._strange or frame.decode(errors="replace")
            events = [build_unrecognized(frame, "not a part of an answer")]
        else:
            self._is_known = True
        return DialectOutput(events)

    def receive_stderr(self, line: bytes) -> DialectOutput:
        return NO_OUTPUT

    def send(self, command: Command) -> DialectOutput:
        return NO_OUTPUT

    def _on_host_line(self, frame: bytes) -> list[Event]:
        try:
            report = _decode_host_line(frame).http
        except DECODE_ERRORS as error:
            return self._on_unreadable(frame, str(error))
        if report.status:
            self._head = report
            return []
        if report.text:
            self._refusal = self._refusal or report.text
            self._garbage = self._garbage or f"no JSON: {report.text[:200]}"
            return []
        return self._on_end(report)

    def _on_end(self, report: _HostReport) -> list[Event]:
        if self._is_over:
            return []
        self._is_over = True
        events = list(self._parser.finish() if self._head.status and not is_error_status(self._head.status) else ())
        status = self._head.status
        if status >= 300:
            return [*events, *self._refusal_events()]
        problem = self._find_problem(report)
        if problem is None:
            return [*events, TurnCompleted(usage=self._parser.usage, cost_usd=self._parser.cost_usd)]
        failed = TurnFailed(
            failure=problem.kind,
            message=problem.message,
            status=status or None,
            usage=self._parser.usage,
            cost_usd=self._parser.cost_usd,
        )
        return [*events, failed]

    def _find_problem(self, report: _HostReport) -> Problem | None:
        """The first that applies; an answer that broke off after its last word is whole all the same."""
        language = self._parser
        if report.unreachable:
            return Problem("network", f"{report.unreachable.rstrip('.')}.")
        if language.problem:
            return language.problem
        if self._garbage:
            return Problem("invalid_response", f"The answer cannot be read: {self._garbage}.")
        if self._strange and not self._is_known:
            # As where the address is that of another API: its end looks like one of ours, and nothing was said.
            return Problem(
                "invalid_response",
                f"Nothing in the answer is a part of one, beginning with {self._strange[:_QUOTED_CHARACTERS]}",
            )
        if language.is_complete:
            return None
        return Problem("network", f"The answer broke off: {report.message or 'it has no end'}.")

    def _refusal_events(self) -> list[Event]:
        status, message = self._head.status, self._refusal.strip()[:_MESSAGE_CHARACTERS]
        kind = classify_failure(status, message)
        words = f"{status}: {message}" if message else f"The provider answered {status}."
        events: list[Event] = []
        if kind == "rate_limit" and self._head.at is not None:  # Behind a gateway, that one tells it.
            events.append(
                RateLimited(message=message, resets_at=find_reset_in_headers(self._head.headers, now=self._head.at))
            )
        return [*events, TurnFailed(failure=kind, message=words, status=status)]

    def _on_unreadable(self, frame: bytes, note: str) -> list[Event]:
        if is_error_status(self._head.status):
            self._refusal = self._refusal or frame.decode(errors="replace")
            return []
        self._garbage = self._garbage or note
        return [build_unrecognized(frame, note)]


def find_error_message(payload: Json) -> str:
    """The words of an error, in the ways in which providers write one."""
    places = (get_object(payload, "error"), payload, get_object(payload, "detail"))
    spoken = (
        get_text(payload, "error"),
        *(get_text(place, "message") for place in places),
        get_text(payload, "detail"),
    )
    return next((words for words in spoken if words), "")
