"""A scripted model: answers each call with the next step of a scenario, and says where a run left it."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from inspan.gateway.scripts.scenario import ALWAYS, Call, Fail, Scenario
from inspan.gateway.scripts.tools import Step, answering, pick
from inspan.gateway.upstream import Ask, Purpose, Reply, Request
from inspan.gateway.wires import BY_NAME
from inspan.gateway.wires.arrays import as_array, wants_array
from inspan.gateway.wires.failures import failure_words
from inspan.gateway.wires.wire import Answer, Json, Stream, ToolUse, Wire
from inspan.protocol.usage import Usage

DEFAULT_USAGE = Usage(input=100, output=7, cache_read=20, cache_write=10, reasoning=3)

_SHOWN_LENGTH = 200
_ASIDE = Call(say="An aside.")
_JSON = {"content-type": "application/json"}
_EVENTS = {"content-type": "text/event-stream", "cache-control": "no-cache"}
_SIDE_ANSWERS: dict[Purpose, Json] = {
    "count tokens": {"input_tokens": DEFAULT_USAGE.input},
    "list models": {"object": "list", "data": [], "has_more": False},
}
_OTHER_SIDE_ANSWERS: dict[tuple[str, Purpose], Json] = {
    ("generate", "count tokens"): {"totalTokens": DEFAULT_USAGE.input},
    ("generate", "list models"): {"models": []},
}


class ScriptUpstream:
    """Plays a scenario once; a call that the scenario did not foresee is refused, and complained of.

    Complaints quote what came, cut short: `redact` sees it first, for half a secret is not found any more.
    """

    def __init__(self, scenario: Scenario, *, cwd: str, redact: Callable[[str], str] = str) -> None:
        self._steps = tuple(call for call in scenario.call if not call.when)
        self._asides = [call for call in scenario.call if call.when]
        self._answers_asides = scenario.asides
        self._cwd = Path(cwd)
        self._redact = redact
        self._index = 0
        self._times_played = 0
        self._first_complaint = ""

    @property
    def complaint(self) -> str:
        """One sentence naming the step or request that went wrong; empty when all was played as written."""
        return self._first_complaint or self._left_over()

    @property
    def misfit(self) -> str:
        """The same without what was left over: a run that is made to fail leaves something."""
        return self._first_complaint

    async def answer(self, request: Request, reply: Reply) -> None:
        wire = BY_NAME[request.wire]
        if request.ask is None:
            return await _send(reply, 200, _side_answer(request))
        step = self._aside(request) or self._next_step(request.ask)
        if step is None:
            return await self._refuse(wire, reply, f"A request came after the last call: {self._shown(request.ask)}.")
        number, call = step
        tool = self._tool(call, request.ask)
        objection = self._objection(call, request, request.ask, tool=tool)
        if objection:
            return await self._refuse(wire, reply, f"Call {number} {objection}.")
        return await _play(call, wire, request, reply, _answer(call, request.ask, tool))

    def _aside(self, request: Request) -> tuple[int, Call] | None:
        """The answer to a request that holds the text which an answer out of order waits for."""
        for call in self._asides:
            if _occurs(call.when, request.plain):
                return 0, call
        if self._answers_asides and request.ask and not request.ask.has_tools:
            return 0, _ASIDE
        return None

    def _next_step(self, ask: Ask) -> tuple[int, Call] | None:
        """The step that the next call is answered with, and its number in the scenario."""
        while self._index < len(self._steps) and self._is_left_out(self._steps[self._index], ask):
            self._index, self._times_played = self._index + 1, 0
        if self._index == len(self._steps):
            return None
        number, call = self._index + 1, self._steps[self._index]
        self._times_played += 1
        if self._times_played == call.repeat:
            self._index, self._times_played = number, 0
        return number, call

    def _is_left_out(self, call: Call, ask: Ask) -> bool:
        return call.optional and _wanted(call) is not None and self._tool(call, ask) is None

    def _tool(self, call: Call, ask: Ask) -> ToolUse | None:
        if call.answer is not None:
            return answering(call.answer, ask.tools)
        wanted = _wanted(call)
        return None if wanted is None else pick(wanted, ask.tools, cwd=self._cwd)

    def _objection(self, call: Call, request: Request, ask: Ask, *, tool: ToolUse | None) -> str:
        """What keeps this call from being answered as written."""
        for text in _parts(call.expect_anywhere):
            if not _occurs(text, request.plain):
                return f"expected {text!r} anywhere in the request, and it is not there"
        if call.expect not in ask.newest_text:
            return f"expected {call.expect!r}, but what came was {self._shown(ask)}"
        if _wanted(call) is not None and tool is None:
            offered = ", ".join(tool.name for tool in ask.tools) or "none"
            return f"finds no tool for {_wanted(call)!r}; offered: {offered}"
        return ""

    def _shown(self, ask: Ask) -> str:
        return repr(self._redact(ask.newest_text)[:_SHOWN_LENGTH])

    async def _refuse(self, wire: Wire, reply: Reply, complaint: str) -> None:
        self._first_complaint = self._first_complaint or complaint
        reply.note(f"unexpected request: {complaint}")
        await _send(reply, 400, wire.error(400, complaint))

    def _left_over(self) -> str:
        if self._index == len(self._steps) or self._steps[self._index].repeat == ALWAYS:
            return ""
        times, total = self._steps[self._index].repeat, len(self._steps)
        asked = f"asked for {self._times_played} of {times} times" if self._times_played else "never asked for"
        return f"Call {self._index + 1} of {total} was {asked}."


def _occurs(text: str, body: bytes) -> bool:
    """Whether a text stands inside a string of a JSON request, as it is or with all but ASCII escaped."""
    return any(spelled[1:-1] in body for spelled in (msgspec.json.encode(text), json.dumps(text).encode()))


def _wanted(call: Call) -> Step | None:
    return call.run if call.run is not None else call.write or call.edit or call.use


def _side_answer(request: Request) -> bytes:
    place = request.wire, request.purpose
    return msgspec.json.encode(_OTHER_SIDE_ANSWERS.get(place) or _SIDE_ANSWERS.get(request.purpose, {}))


async def _play(call: Call, wire: Wire, request: Request, reply: Reply, answer: Answer) -> None:
    if call.stall == "before-headers":
        await _stall(call, reply)
    if call.fail is not None:
        return await _fail(call.fail, wire, reply)
    headers, pieces = _written(answer, wire, request)
    if call.garbage is not None:
        return await _send(reply, 200, call.garbage.encode(), headers=headers)
    return await _say(call, headers, pieces, reply)


async def _fail(fail: Fail, wire: Wire, reply: Reply) -> None:
    body = fail.body
    if body is None:
        written = wire.error(fail.status, fail.message or failure_words(fail.status), kind=fail.type)
    else:
        written = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    await _send(reply, fail.status, written, headers={**_JSON, **fail.headers})


def _written(answer: Answer, wire: Wire, request: Request) -> tuple[Mapping[str, str], Stream]:
    """The answer in pieces, as the request wants it; a stream has no length."""
    if request.ask is None or not request.ask.stream:
        body = wire.body(answer)
        return {**_JSON, "content-length": str(len(body))}, _halves(body)
    stream = wire.stream(answer)
    return (_JSON, as_array(stream)) if wants_array(request) else (_EVENTS, stream)


async def _say(call: Call, headers: Mapping[str, str], pieces: Stream, reply: Reply) -> None:
    await reply.start(200, headers)
    for piece in pieces.head:
        await reply.write(piece)
    if call.cut:
        return reply.cut()
    if call.stall == "mid-stream":
        await _stall(call, reply)
    for piece in pieces.tail:
        await reply.write(piece)
    return await reply.finish()


async def _stall(call: Call, reply: Reply) -> None:
    """Sends nothing: for the time given, or until the call is cancelled."""
    reply.note("stalled")
    if call.stall_s is None:
        await asyncio.get_running_loop().create_future()
    else:
        await asyncio.sleep(call.stall_s)
    reply.note("")


def _answer(call: Call, ask: Ask, tool: ToolUse | None) -> Answer:
    usage = DEFAULT_USAGE if call.usage is None else Usage(**msgspec.structs.asdict(call.usage))
    tools = () if tool is None else (tool,)
    say = _parts(call.say)
    if call.answer is not None and tool is None:
        say = (*say, msgspec.json.encode(call.answer).decode())
    return Answer(model=ask.model, think=_parts(call.think), say=say, tools=tools, usage=usage)


def _parts(text: str | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for part in ((text,) if isinstance(text, str) else text) if part)


def _halves(body: bytes) -> Stream:
    middle = len(body) // 2
    return Stream(head=(body[:middle],), tail=(body[middle:],))


async def _send(reply: Reply, status: int, body: bytes, *, headers: Mapping[str, str] = _JSON) -> None:
    await reply.start(status, {**headers, "content-length": str(len(body))})
    await reply.write(body)
    await reply.finish()
