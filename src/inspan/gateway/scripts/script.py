"""A scripted model: answers each call with the next step of a scenario, and says where a run left it."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from inspan.contracts.journal import DANGEROUS, JournalEntry, SkippedStep
from inspan.gateway.scripts.journal import Journal, list_offered_tools
from inspan.gateway.scripts.scenario import ALWAYS, Call, Fail, Scenario
from inspan.gateway.scripts.trials import build_trial
from inspan.gateway.upstream import Ask, Reply, Request, Tool
from inspan.gateway.wires import BY_NAME
from inspan.gateway.wires.arrays import to_array, wants_array
from inspan.gateway.wires.failures import failure_message
from inspan.gateway.wires.wire import Answer, Stream, ToolUse, Wire
from inspan.protocol.usage import Usage

from .tool_choice import Step, choose_answer_tool, choose_tool
from .tool_kinds import classify_tool

DEFAULT_USAGE = Usage(input=100, output=7, cache_read=20, cache_write=10, reasoning=3)

_MAX_QUOTE_LENGTH = 200
_MAX_JOURNAL_LENGTH = 2000
_ASIDE = Call(say="An aside.")
_JSON = {"content-type": "application/json"}
_EVENTS = {"content-type": "text/event-stream", "cache-control": "no-cache"}


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
        self._first_mismatch = ""
        self._journal = Journal(scenario.journal) if scenario.journal else None
        self._skipped: list[SkippedStep] = []
        self._tried: list[tuple[str, str]] = []

    @property
    def mismatch(self) -> str:
        """One sentence naming the step or request that went wrong; empty when all was played as written."""
        return self._first_mismatch or self._describe_unplayed()

    @property
    def request_mismatch(self) -> str:
        """The same without what was left over: a run that is made to fail leaves something."""
        return self._first_mismatch

    async def answer(self, request: Request, reply: Reply) -> None:
        wire = BY_NAME[request.wire]
        if request.ask is None:
            return await _send(reply, 200, wire.encode_side_answer(request.purpose, tokens=DEFAULT_USAGE.input))
        step = self._find_aside(request) or self._take_step(request.ask)
        if step is None:
            complaint = f"A request came after the last call: {self._quote_newest(request.ask)}."
            return await self._refuse(wire, reply, request.ask, complaint)
        number, call = step
        tool = self._build_trial(call, request.ask) if call.try_tools else self._choose_tool(call, request.ask)
        objection = self._find_mismatch(call, request, request.ask, tool=tool)
        if objection:
            return await self._refuse(wire, reply, request.ask, f"Call {number} {objection}.")
        self._write_journal(request.ask, step=number, tool=tool)
        return await _play(call, wire, request, reply, _build_answer(call, request.ask, tool))

    def _find_aside(self, request: Request) -> tuple[int, Call] | None:
        """The answer to a request that holds the text which an answer out of order waits for."""
        for call in self._asides:
            if _occurs(call.when, request.plain):
                return 0, call
        if self._answers_asides and request.ask and not request.ask.has_tools:
            return 0, _ASIDE
        return None

    def _take_step(self, ask: Ask) -> tuple[int, Call] | None:
        """The step that the next call is answered with, and its number in the scenario."""
        while self._index < len(self._steps) and self._is_skipped(self._steps[self._index], ask):
            if not self._steps[self._index].try_tools:
                why = f"no tool on offer can {_describe_step(self._steps[self._index])}; offered: {_tool_names(ask)}"
                self._skipped.append(SkippedStep(step=self._index + 1, why=why))
            self._index, self._times_played = self._index + 1, 0
        if self._index == len(self._steps):
            return None
        number, call = self._index + 1, self._steps[self._index]
        if call.try_tools:
            return number, call
        self._times_played += 1
        if self._times_played == call.repeat:
            self._index, self._times_played = number, 0
        return number, call

    def _is_skipped(self, call: Call, ask: Ask) -> bool:
        if call.try_tools:
            return not self._list_untried(call, ask)
        return call.optional and _find_tool_step(call) is not None and self._choose_tool(call, ask) is None

    def _choose_tool(self, call: Call, ask: Ask) -> ToolUse | None:
        if call.answer is not None:
            return choose_answer_tool(call.answer, ask.tools)
        wanted = _find_tool_step(call)
        return None if wanted is None else choose_tool(wanted, ask.tools, cwd=self._cwd)

    def _list_untried(self, call: Call, ask: Ask) -> list[Tool]:
        """The tools that this step has yet to call."""
        wanted = [tool for tool in ask.tools if call.try_tools == "all" or classify_tool(tool) in DANGEROUS]
        return [tool for tool in wanted if (tool.namespace, tool.name) not in self._tried]

    def _build_trial(self, call: Call, ask: Ask) -> ToolUse:
        tool = self._list_untried(call, ask)[0]
        self._tried.append((tool.namespace, tool.name))
        return build_trial(tool, number=len(self._tried), cwd=self._cwd, with_output=call.try_tools == "all")

    def _find_mismatch(self, call: Call, request: Request, ask: Ask, *, tool: ToolUse | None) -> str:
        """What keeps this call from being answered as written."""
        for text in _to_parts(call.expect_anywhere):
            if not _occurs(text, request.plain):
                return f"expected {text!r} anywhere in the request, and it is not there"
        if call.expect not in ask.newest_text:
            return f"expected {call.expect!r}, but what came was {self._quote_newest(ask)}"
        if _find_tool_step(call) is not None and tool is None:
            return f"finds no tool for {_find_tool_step(call)!r}; offered: {_tool_names(ask)}"
        return ""

    def _quote_newest(self, ask: Ask) -> str:
        return repr(self._redact(ask.newest_text)[:_MAX_QUOTE_LENGTH])

    async def _refuse(self, wire: Wire, reply: Reply, ask: Ask, complaint: str) -> None:
        self._write_journal(ask, refused=complaint)
        self._first_mismatch = self._first_mismatch or complaint
        reply.note(f"unexpected request: {complaint}")
        await _send(reply, 400, wire.encode_error(400, complaint))

    def _write_journal(self, ask: Ask, *, step: int = 0, tool: ToolUse | None = None, refused: str = "") -> None:
        """Tells the journal of a request; a journal that cannot be written is something to complain of."""
        skipped, self._skipped = self._skipped, []
        if self._journal is None:
            return
        called = (tool.namespace, tool.name) if tool else None
        entry = JournalEntry(
            step=step,
            offered=list_offered_tools(ask),
            results=ask.results,
            told=self._redact(ask.newest_text)[:_MAX_JOURNAL_LENGTH] if ask.results else "",
            called=called,
            skipped=skipped,
            refused=refused,
        )
        try:
            self._journal.add(entry)
        except OSError as error:
            problem = f"The journal of the scenario cannot be written: {error.strerror or error}."
            self._first_mismatch = self._first_mismatch or problem

    def _describe_unplayed(self) -> str:
        if self._index == len(self._steps) or self._steps[self._index].repeat == ALWAYS:
            return ""
        times, total = self._steps[self._index].repeat, len(self._steps)
        if self._steps[self._index].try_tools and self._tried:
            return f"Call {self._index + 1} of {total} tried {len(self._tried)} tools, and nothing was asked for then."
        asked = f"asked for {self._times_played} of {times} times" if self._times_played else "never asked for"
        return f"Call {self._index + 1} of {total} was {asked}."


def _occurs(text: str, body: bytes) -> bool:
    """Whether a text stands inside a string of a JSON request, as it is or with all but ASCII escaped."""
    return any(spelled[1:-1] in body for spelled in (msgspec.json.encode(text), json.dumps(text).encode()))


def _find_tool_step(call: Call) -> Step | None:
    return call.run if call.run is not None else call.write or call.edit or call.use


def _describe_step(call: Call) -> str:
    """What a step wants done, in a few words."""
    for key in ("run", "write", "edit"):
        if getattr(call, key) is not None:
            given = getattr(call, key)
            return f"{key} {given if isinstance(given, str) else given.path!r}"
    return "do it"


def _tool_names(ask: Ask) -> str:
    return ", ".join(tool.name for tool in ask.tools) or "none"


async def _play(call: Call, wire: Wire, request: Request, reply: Reply, answer: Answer) -> None:
    if call.stall == "before-headers":
        await _stall(call, reply)
    if call.fail is not None:
        return await _send_failure(call.fail, wire, reply)
    headers, pieces = _encode_answer(answer, wire, request)
    if call.garbage is not None:
        return await _send(reply, 200, call.garbage.encode(), headers=headers)
    return await _send_answer(call, headers, pieces, reply)


async def _send_failure(fail: Fail, wire: Wire, reply: Reply) -> None:
    body = fail.body
    if body is None:
        written = wire.encode_error(fail.status, fail.message or failure_message(fail.status), kind=fail.type)
    else:
        written = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    await _send(reply, fail.status, written, headers={**_JSON, **fail.headers})


def _encode_answer(answer: Answer, wire: Wire, request: Request) -> tuple[Mapping[str, str], Stream]:
    """The answer in pieces, as the request wants it; a stream has no length."""
    if request.ask is None or not request.ask.stream:
        body = wire.encode_body(answer)
        return {**_JSON, "content-length": str(len(body))}, _split_body(body)
    stream = wire.encode_stream(answer)
    return (_JSON, to_array(stream)) if wants_array(request) else (_EVENTS, stream)


async def _send_answer(call: Call, headers: Mapping[str, str], pieces: Stream, reply: Reply) -> None:
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


def _build_answer(call: Call, ask: Ask, tool: ToolUse | None) -> Answer:
    usage = DEFAULT_USAGE if call.usage is None else Usage(**msgspec.structs.asdict(call.usage))
    tools = () if tool is None else (tool,)
    say = _to_parts(call.say)
    if call.answer is not None and tool is None:
        say = (*say, msgspec.json.encode(call.answer).decode())
    return Answer(model=ask.model, think=_to_parts(call.think), say=say, tools=tools, usage=usage)


def _to_parts(text: str | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for part in ((text,) if isinstance(text, str) else text) if part)


def _split_body(body: bytes) -> Stream:
    middle = len(body) // 2
    return Stream(head=(body[:middle],), tail=(body[middle:],))


async def _send(reply: Reply, status: int, body: bytes, *, headers: Mapping[str, str] = _JSON) -> None:
    await reply.start(status, {**headers, "content-length": str(len(body))})
    await reply.write(body)
    await reply.finish()
