"""Replay: an upstream that answers from a cassette, and says where the agent's requests left it."""

import os
from collections.abc import Callable, Iterable, Mapping

from inspan.gateway.cassettes.carried import Carried
from inspan.gateway.cassettes.cassette import Asked, Exchange, Piece
from inspan.gateway.cassettes.file import load_cassette
from inspan.gateway.cassettes.matching import Key, Matching, difference, key_of, shown
from inspan.gateway.cassettes.pieces import bytes_of
from inspan.gateway.cassettes.places import Places
from inspan.gateway.cassettes.scrubbing import filled
from inspan.gateway.upstream import Reply, Request
from inspan.gateway.wires import BY_NAME

_NEXT_STEP = "Make the run what it was, or record it again."


class ReplayUpstream:
    """Plays a cassette once: each request is answered by the first recorded call that it matches and that is left.

    A request that matches none is refused, and complained of. Raises `BadInput` for a cassette that cannot be played.
    Counts of tokens and lists of models use up no call: they are known by their purpose, and the last is given again.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, places: Mapping[str, str], redact: Callable[[str], str] = str
    ) -> None:
        self._places = Places(places)
        self._matching = Matching(redact=redact, places=self._places)
        self._carried = Carried()
        recorded = load_cassette(path).calls
        self._calls = _Calls((call for call in recorded if call.asked.purpose == "call"), self._matching)
        self._sides = _Sides(call for call in recorded if call.asked.purpose != "call")
        self._requests = 0
        self._first_complaint = ""

    @property
    def complaint(self) -> str:
        """What did not fit, and what to do; empty when all was played as recorded."""
        return self._first_complaint or self._calls.left_over()

    @property
    def misfit(self) -> str:
        """The same without what was left over: a run that is made to fail leaves something."""
        return self._first_complaint

    async def answer(self, request: Request, reply: Reply) -> None:
        if request.ask is None:
            call = self._sides.take(request)
            problem, status = f"The cassette has no answer to {request.purpose!r}.", 404
        else:
            self._requests += 1
            asked, names = self._matching.asked(request, number=self._requests)
            call = self._calls.take(asked)
            if call is not None:
                self._carried.learn(call.asked.call, names)
            problem, status = "" if call else self._complain(asked), 400
        if call is None:
            return await _refuse(request, reply, status=status, message=problem)
        return await self._play(call, reply)

    def _complain(self, asked: Asked) -> str:
        complaint = f"{self._calls.objection(asked)} {_NEXT_STEP}"
        self._first_complaint = self._first_complaint or complaint
        return complaint

    async def _play(self, call: Exchange, reply: Reply) -> None:
        if call.ended.note:
            reply.note(self._places.show(call.ended.note))
        if call.started.status is None:
            return reply.cut()
        is_whole = call.ended.end == "whole"
        pieces = [self._spelled(piece) for piece in call.pieces]
        headers = dict(call.started.headers)
        if is_whole and "text/event-stream" not in headers.get("content-type", ""):
            headers["content-length"] = str(sum(map(len, pieces)))
        await reply.start(call.started.status, headers)
        for piece in pieces:
            await reply.write(piece)
        return await reply.finish() if is_whole else reply.cut()

    def _spelled(self, piece: Piece) -> bytes:
        spelled = bytes_of(piece)
        return bytes_of(filled(piece, places=self._places, carried=self._carried)) if b"{{" in spelled else spelled


class _Calls:
    """The recorded calls to the model, those that are left by what they are compared by."""

    def __init__(self, calls: Iterable[Exchange], matching: Matching) -> None:
        self._left: dict[int, tuple[Key, Exchange]] = {}
        self._alike: dict[Key, list[Exchange]] = {}
        self._played: dict[Key, int] = {}
        for call in calls:
            key = key_of(call.asked, matching.refreshed(call.asked))
            self._left[call.asked.call] = key, call
            self._alike.setdefault(key, []).append(call)
        self._total = len(self._left)

    def take(self, asked: Asked) -> Exchange | None:
        """The call to answer with, which is then used; of several that fit, one that answers the same tool calls."""
        key = key_of(asked, asked.asks)
        alike = self._alike.get(key)
        if not alike:
            return None
        call = next((call for call in alike if call.asked.answers_to == asked.answers_to), alike[0])
        alike.remove(call)
        del self._left[call.asked.call]
        self._played[key] = call.asked.call
        return call

    def objection(self, asked: Asked) -> str:
        """Why nothing fits: the first difference to the call that should have."""
        key = key_of(asked, asked.asks)
        if played := self._played.get(key):
            return f"Request {asked.call} is call {played} of the cassette again, and that was played: {shown(key)}."
        if not self._left:
            return f"Request {asked.call} came after the last call of the cassette: {shown(key)}."
        nearest, call = min(self._left.values(), key=lambda each: _distance(each[1].asked, asked))
        return f"Request {asked.call} is not call {call.asked.call} of the cassette: {difference(nearest, key)}."

    def left_over(self) -> str:
        """The first call that nobody has asked for; those that the agent had left before their end may stay."""
        for key, call in self._left.values():
            if call.ended.end != "left":
                return f"Call {call.asked.call} of {self._total} was never asked for: {shown(key)}. {_NEXT_STEP}"
        return ""


class _Sides:
    """The answers to requests that are no calls to the model."""

    def __init__(self, calls: Iterable[Exchange]) -> None:
        self._answers: dict[tuple[str, str], list[Exchange]] = {}
        for call in calls:
            self._answers.setdefault((call.asked.wire, call.asked.purpose), []).append(call)

    def take(self, request: Request) -> Exchange | None:
        answers = self._answers.get((request.wire, request.purpose), [])
        return answers.pop(0) if len(answers) > 1 else next(iter(answers), None)


def _distance(recorded: Asked, asked: Asked) -> tuple[bool, ...]:
    """The smaller, the likelier it is that the one was to be the other; the first of equals counts."""
    follows = bool(asked.answers_to) and recorded.answers_to == asked.answers_to
    return (not follows, recorded.wire != asked.wire, recorded.model != asked.model, recorded.stream != asked.stream)


async def _refuse(request: Request, reply: Reply, *, status: int, message: str) -> None:
    reply.note(f"unexpected request: {message}")
    body = BY_NAME[request.wire].error(status, message)
    await reply.start(status, {"content-type": "application/json", "content-length": str(len(body))})
    await reply.write(body)
    await reply.finish()
