"""Replay: an upstream that answers from a cassette, and says where the agent's requests left it."""

import os
from collections.abc import Callable, Iterable, Mapping

from inspan.gateway.cassettes.cassette import Chunk, Exchange, RecordedRequest
from inspan.gateway.cassettes.file import load_cassette
from inspan.gateway.upstream import Reply, Request
from inspan.gateway.wires import BY_NAME

from .chunks import encode_chunk
from .comparison import Key, RequestNormalizer, describe_difference, describe_key, match_key
from .path_placeholders import PathPlaceholders
from .scrub import fill_placeholders
from .volatile_ids import VolatileIds

_NEXT_STEP = "Make the run what it was, or record it again."


class ReplayUpstream:
    """Plays a cassette once: each request is answered by the first recorded call that it matches and that is left.

    A request that matches none is refused, and complained of. Raises `BadInput` for a cassette that cannot be played.
    Counts of tokens and lists of models use up no call: they are known by their purpose, and the last is given again.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, folders: Mapping[str, str], redact: Callable[[str], str] = str
    ) -> None:
        self._placeholders = PathPlaceholders(folders)
        self._normalizer = RequestNormalizer(redact=redact, placeholders=self._placeholders)
        self._volatile_ids = VolatileIds()
        recorded = load_cassette(path).calls
        self._calls = _RecordedCalls((call for call in recorded if call.request.purpose == "call"), self._normalizer)
        self._side_answers = _SideAnswers(call for call in recorded if call.request.purpose != "call")
        self._requests = 0
        self._first_mismatch = ""

    @property
    def mismatch(self) -> str:
        """What did not fit, and what to do; empty when all was played as recorded."""
        return self._first_mismatch or self._calls.describe_unplayed()

    @property
    def request_mismatch(self) -> str:
        """The same without what was left over: a run that is made to fail leaves something."""
        return self._first_mismatch

    async def answer(self, request: Request, reply: Reply) -> None:
        if request.ask is None:
            call = self._side_answers.take(request)
            problem, status = f"The cassette has no answer to {request.purpose!r}.", 404
        else:
            self._requests += 1
            asked, names = self._normalizer.normalize_request(request, number=self._requests)
            call = self._calls.take(asked)
            if call is not None:
                self._volatile_ids.register(call.request.call, names)
            problem, status = "" if call else self._note_mismatch(asked), 400
        if call is None:
            return await _refuse(request, reply, status=status, message=problem)
        return await self._play(call, reply)

    def _note_mismatch(self, asked: RecordedRequest) -> str:
        complaint = f"{self._calls.explain_mismatch(asked)} {_NEXT_STEP}"
        self._first_mismatch = self._first_mismatch or complaint
        return complaint

    async def _play(self, call: Exchange, reply: Reply) -> None:
        if call.ending.note:
            reply.note(self._placeholders.from_placeholders(call.ending.note))
        if call.start.status is None:
            return reply.cut()
        is_whole = call.ending.end == "whole"
        pieces = [self._fill_chunk(piece) for piece in call.chunks]
        headers = dict(call.start.headers)
        if is_whole and "text/event-stream" not in headers.get("content-type", ""):
            headers["content-length"] = str(sum(map(len, pieces)))
        await reply.start(call.start.status, headers)
        for piece in pieces:
            await reply.write(piece)
        return await reply.finish() if is_whole else reply.cut()

    def _fill_chunk(self, piece: Chunk) -> bytes:
        spelled = encode_chunk(piece)
        return (
            encode_chunk(fill_placeholders(piece, placeholders=self._placeholders, volatile_ids=self._volatile_ids))
            if b"{{" in spelled
            else spelled
        )


class _RecordedCalls:
    """The recorded calls to the model, those that are left by what they are compared by."""

    def __init__(self, calls: Iterable[Exchange], matching: RequestNormalizer) -> None:
        self._unplayed: dict[int, tuple[Key, Exchange]] = {}
        self._by_key: dict[Key, list[Exchange]] = {}
        self._played: dict[Key, int] = {}
        for call in calls:
            key = match_key(call.request, matching.normalize_recorded(call.request))
            self._unplayed[call.request.call] = key, call
            self._by_key.setdefault(key, []).append(call)
        self._total = len(self._unplayed)

    def take(self, asked: RecordedRequest) -> Exchange | None:
        """The call to answer with, which is then used; of several that fit, one that answers the same tool calls."""
        key = match_key(asked, asked.asks)
        alike = self._by_key.get(key)
        if not alike:
            return None
        call = next((call for call in alike if call.request.answers_to == asked.answers_to), alike[0])
        alike.remove(call)
        del self._unplayed[call.request.call]
        self._played[key] = call.request.call
        return call

    def explain_mismatch(self, asked: RecordedRequest) -> str:
        """Why nothing fits: the first difference to the call that should have."""
        key = match_key(asked, asked.asks)
        if played := self._played.get(key):
            known = describe_key(key)
            return f"Request {asked.call} is call {played} of the cassette again, and that was played: {known}."
        if not self._unplayed:
            return f"Request {asked.call} came after the last call of the cassette: {describe_key(key)}."
        nearest, call = min(self._unplayed.values(), key=lambda each: _distance(each[1].request, asked))
        difference = describe_difference(nearest, key)
        return f"Request {asked.call} is not call {call.request.call} of the cassette: {difference}."

    def describe_unplayed(self) -> str:
        """The first call that nobody has asked for; those that the agent had left before their end may stay."""
        for key, call in self._unplayed.values():
            if call.ending.end != "left":
                return (
                    f"Call {call.request.call} of {self._total} was never asked for: {describe_key(key)}. {_NEXT_STEP}"
                )
        return ""


class _SideAnswers:
    """The answers to requests that are no calls to the model."""

    def __init__(self, calls: Iterable[Exchange]) -> None:
        self._answers: dict[tuple[str, str], list[Exchange]] = {}
        for call in calls:
            self._answers.setdefault((call.request.wire, call.request.purpose), []).append(call)

    def take(self, request: Request) -> Exchange | None:
        answers = self._answers.get((request.wire, request.purpose), [])
        return answers.pop(0) if len(answers) > 1 else next(iter(answers), None)


def _distance(recorded: RecordedRequest, asked: RecordedRequest) -> tuple[bool, ...]:
    """The smaller, the likelier it is that the one was to be the other; the first of equals counts."""
    follows = bool(asked.answers_to) and recorded.answers_to == asked.answers_to
    return (not follows, recorded.wire != asked.wire, recorded.model != asked.model, recorded.stream != asked.stream)


async def _refuse(request: Request, reply: Reply, *, status: int, message: str) -> None:
    reply.note(f"unexpected request: {message}")
    body = BY_NAME[request.wire].encode_error(status, message)
    await reply.start(status, {"content-type": "application/json", "content-length": str(len(body))})
    await reply.write(body)
    await reply.finish()
