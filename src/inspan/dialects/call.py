"""One call by HTTP as its host process tells it: the head, the answer in the provider's language, the end."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from inspan.contracts.dialect import NOTHING, Said, unrecognized
from inspan.protocol.commands import Command
from inspan.protocol.events import (
    Event,
    RateLimited,
    ThreadStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from inspan.protocol.outcome import FailureKind
from inspan.protocol.usage import Usage
from inspan.protocol.wire import UNREADABLE

from .refusals import kind_of, resets_at
from .values import Json, inner, word

_OWN = b'{"http":{'
_MESSAGE_CHARACTERS = 2000


class Problem(msgspec.Struct, frozen=True):
    """Why an answer is none, though it came."""

    kind: FailureKind
    message: str


class Language(Protocol):
    """How a provider writes an answer, whole or in pieces. It has no end of its own: that is told by `finish`."""

    usage: Usage | None
    cost_usd: float | None
    is_whole: bool
    problem: Problem | None

    def read(self, payload: Json) -> Sequence[Event] | None:
        """What a piece tells; None for one that is not known."""
        ...

    def finish(self) -> Sequence[Event]:
        """What was held back, once nothing more comes."""
        ...


class _Told(msgspec.Struct, frozen=True):
    """A line of the host's own."""

    status: int = 0
    headers: dict[str, str] = {}
    at: float | None = None
    text: str = ""
    ended: str = ""
    message: str = ""
    unreachable: str = ""


class _Line(msgspec.Struct, frozen=True):
    http: _Told


_decode_own = msgspec.json.Decoder(_Line).decode
_decode: Any = msgspec.json.Decoder(Json).decode


class CallDialect:
    """Reads the lines of `transports/http_host.py`; what stands between them is for the `language`.

    The turn begins with the process; `model` is the one that is asked. An API has no session to come back to.
    """

    def __init__(self, language: Language, *, model: str) -> None:
        self._language = language
        self._model = model
        self._head = _Told()
        self._is_over = False
        self._garbage = ""
        self._refusal = ""

    def open(self) -> Said:
        return Said([ThreadStarted(session_id="", model=self._model), TurnStarted()])

    def receive(self, frame: bytes) -> Said:
        if frame.startswith(_OWN):
            return Said(self._own(frame))
        if frame.strip() == b"[DONE]":
            self._language.is_whole = True
            return NOTHING
        try:
            payload: Json = _decode(frame)
        except UNREADABLE as error:
            return Said(self._unreadable(frame, str(error)))
        if self._head.status >= 400:
            self._refusal = self._refusal or message_in(payload) or frame.decode(errors="replace")
            return NOTHING
        told = self._language.read(payload)
        if told is None:
            told = [unrecognized(frame, "not a part of an answer")]
        return Said(told)

    def overhear(self, line: bytes) -> Said:
        return NOTHING

    def send(self, command: Command) -> Said:
        return NOTHING

    def _own(self, frame: bytes) -> list[Event]:
        try:
            told = _decode_own(frame).http
        except UNREADABLE as error:
            return self._unreadable(frame, str(error))
        if told.status:
            self._head = told
            return []
        if told.text:
            self._refusal = self._refusal or told.text
            self._garbage = self._garbage or f"no JSON: {told.text[:200]}"
            return []
        return self._ended(told)

    def _ended(self, told: _Told) -> list[Event]:
        if self._is_over:
            return []
        self._is_over = True
        events = list(self._language.finish() if 0 < self._head.status < 400 else ())
        status = self._head.status
        if status >= 300:
            return [*events, *self._refused()]
        problem = self._problem(told)
        if problem is None:
            return [*events, TurnCompleted(usage=self._language.usage, cost_usd=self._language.cost_usd)]
        failed = TurnFailed(
            failure=problem.kind,
            message=problem.message,
            status=status or None,
            usage=self._language.usage,
            cost_usd=self._language.cost_usd,
        )
        return [*events, failed]

    def _problem(self, told: _Told) -> Problem | None:
        """The first that applies; an answer that broke off after its last word is whole all the same."""
        language = self._language
        if told.unreachable:
            return Problem("network", f"{told.unreachable.rstrip('.')}.")
        if language.problem:
            return language.problem
        if self._garbage:
            return Problem("invalid_response", f"The answer cannot be read: {self._garbage}.")
        if language.is_whole:
            return None
        return Problem("network", f"The answer broke off: {told.message or 'it has no end'}.")

    def _refused(self) -> list[Event]:
        status, message = self._head.status, self._refusal.strip()[:_MESSAGE_CHARACTERS]
        kind = kind_of(status, message)
        words = f"{status}: {message}" if message else f"The provider answered {status}."
        events: list[Event] = []
        if kind == "rate_limit" and self._head.at is not None:  # Behind a gateway, that one tells it.
            events.append(RateLimited(message=message, resets_at=resets_at(self._head.headers, at=self._head.at)))
        return [*events, TurnFailed(failure=kind, message=words, status=status)]

    def _unreadable(self, frame: bytes, note: str) -> list[Event]:
        if self._head.status >= 400:
            self._refusal = self._refusal or frame.decode(errors="replace")
            return []
        self._garbage = self._garbage or note
        return [unrecognized(frame, note)]


def message_in(payload: Json) -> str:
    """The words of an error, in the ways in which providers write one."""
    places = (inner(payload, "error"), payload, inner(payload, "detail"))
    spoken = (word(payload, "error"), *(word(place, "message") for place in places), word(payload, "detail"))
    return next((words for words in spoken if words), "")
