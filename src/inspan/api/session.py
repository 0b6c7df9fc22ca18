"""A conversation with an agent: open, with one process behind it, or message by message, each a run of its own."""

import asyncio
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, Unpack, cast

from inspan.errors import BadInput, InspanError, SessionClosed
from inspan.folds.session import SessionFold
from inspan.folds.summary import Summary, summarize
from inspan.protocol.commands import (
    Answer,
    CloseSession,
    Command,
    Configure,
    Delivery,
    GetState,
    Interrupt,
    SendMessage,
    SubmitToolResult,
)
from inspan.protocol.events import (
    MessageEnded,
    MessageSent,
    MessageStarted,
    RunEnded,
    RunStarted,
    ThreadStarted,
    ToolRequested,
)
from inspan.protocol.session import HookName, SessionState
from inspan.protocol.task import Mode
from inspan.protocol.wire import Record
from inspan.runs.control_client import check_reply
from inspan.stores.event_log import iter_log
from inspan.stores.run_folder import RunFolder
from inspan.system.loop_lock import LoopLock

from .hooks import Hook
from .options import MODES, Options, Path, check_function, check_text, list_hooks
from .permissions import check_input, check_json
from .responder import Responder, RunTool, Send
from .result import AgentResult, build_message_result

if TYPE_CHECKING:
    from .connection import Connection

_RECENT_RECORDS = 4096


class Runner(Protocol):
    """What a conversation of single runs needs: the modes of one agent."""

    agent: str

    async def run_mode(self, mode: Mode, prompt: str, options: Options) -> AgentResult: ...

    def folder(self, options: Options) -> Any: ...


class ToolError(str):
    """The result of a tool that failed, for `submit_tool_results`."""

    __slots__ = ()


class SentMessage:
    """A message that was sent to an open session: await it for its result, or iterate over its records, from those
    that follow its sending to its end."""

    def __init__(
        self, identity: str, result: "asyncio.Future[AgentResult]", records: Callable[[], AsyncIterator[Record]]
    ) -> None:
        self.id = identity
        self._result = result
        self._records = records

    async def __aiter__(self) -> AsyncIterator[Record]:
        async for record in self._records():
            yield record
            if isinstance(record.event, MessageEnded) and record.event.id == self.id:
                return

    def __await__(self) -> Any:
        return asyncio.shield(self._result).__await__()

    def __repr__(self) -> str:
        return f"SentMessage({self.id!r})"


class AgentSession:
    """One conversation with an agent.

    Open, it is one run with many messages: `async with inspan.open_session(agent=…) as session`, or
    `async with runner.create_session()`. Iterate over it for its records, from the first on. The block's end waits for
    what was sent and closes it; an exception in the block ends the run at once.

    Not open, each message is a run of its own that goes on where the last one ended, for agents and modes that keep no
    process. `session_id` is the agent's own once it has told it. Messages that are sent at once wait for one another,
    from whatever threads and loops they are sent. After a message that was cancelled the conversation goes on with what
    the agent has kept of it; where it has kept nothing, the next message raises `SessionNotFound`, or its result has
    that reason. Only a message that was cancelled before its agent was started has left nothing to go on with.
    """

    def __init__(
        self,
        runner: Runner,
        options: Options,
        *,
        session_id: str = "",
        connect: "Callable[[], Awaitable[Connection]] | None" = None,
        responder: Responder | None = None,
        detaches: bool = False,
    ) -> None:
        self._session_id = session_id
        self._runner = runner
        self._options = options
        self._resume = session_id
        self._continues = False
        self._claimed: RunFolder | None = None
        self._folder: Path = ""
        self._turn = LoopLock()
        self._connect = connect
        self._responder = responder
        self._detaches = detaches
        self._live: _LiveSession | None = None

    async def __aenter__(self) -> Self:
        if self._live or self._connect is None:
            raise BadInput("session", self.run_id, "it is open already.", next_step="Open another one.")
        self._live = _LiveSession(await self._connect(), self._responder)
        await self._live.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        live = self._require_live("leave")
        if self._detaches:
            await live.detach()
        elif kind is None:
            await self.close()
        else:
            await live.kill()

    async def __aiter__(self) -> AsyncIterator[Record]:
        async for record in self._require_live("iterate").records():
            yield record

    @property
    def session_id(self) -> str:
        """The agent's own name for the conversation, once it has told it."""
        return (self._live.session_id if self._live else "") or self._session_id

    @property
    def run_id(self) -> str:
        """The run of an open session; empty where it is not open."""
        return self._live.run_id if self._live else ""

    async def send_message(self, prompt: str, *, mode: Mode | None = None, **options: Unpack[Options]) -> AgentResult:
        """Says something and waits for the whole answer; in an open session, behind what was sent before."""
        if self._live is None:
            return await self._run_message(prompt, "exec" if mode is None else mode, options)
        if options or mode is not None:
            given = [*options, *([] if mode is None else ["mode"])]
            step = "Give options to open_session; `configure` sets model, mode and effort."
            raise BadInput("options", given, "an open session takes them when it is opened.", next_step=step)
        return await (await self._send(prompt, "queue"))

    async def follow_up(self, prompt: str, *, when: Delivery = "queue") -> SentMessage:
        """Says something and does not wait: it is next once the running turn has ended. Await what this gives for the
        result. With `when="refuse"`, it is refused while a turn is running."""
        return await self._send(prompt, when)

    async def steer(self, prompt: str) -> SentMessage:
        """Says something into the running turn, where the agent can hear it; its result is that turn's."""
        return await self._send(prompt, "steer")

    async def abort(self) -> None:
        """Ends the running turn; the session stays, and its message's result has the reason `interrupted`."""
        await self._command(Interrupt())

    async def answer(
        self,
        question: str,
        allowed: bool = True,
        *,
        reason: str = "",
        input: dict[str, Any] | None = None,
        always: bool = False,
        answers: Mapping[str, str] | None = None,
    ) -> None:
        """Answers what the agent asked, by the id of its question."""
        check_json("reason", reason)
        if input is not None:
            check_input("answer", input)
        given = {str(text): str(value) for text, value in (answers or {}).items()}
        await self._command(
            Answer(id=question, allowed=allowed, reason=reason, input=input, always=always, answers=given, by="program")
        )

    async def configure(self, *, model: str = "", effort: str = "", mode: str = "") -> None:
        """Sets what is given, from the next message on."""
        await self._command(Configure(model=model, effort=effort, mode=mode))

    async def get_state(self) -> SessionState:
        """What the session is doing."""
        live = self._require_live("get_state")
        reply = await live.connection.send(GetState())
        return reply.state or live.state

    async def detach(self) -> None:
        """Lets go of a supervised session, which stays open: `attach_session` takes it up again. The end of the block
        does not close it then."""
        await self._require_live("detach").detach()
        self._detaches = True

    async def close(self) -> AgentResult | None:
        """Ends an open session once what was sent to it is done, and gives what its run came to."""
        return await self._require_live("close").close()

    async def submit_tool_results(self, results: Mapping[str, str | ToolError]) -> None:
        """Answers calls of tools that were declared without a function, by the ids of their `tool_requested`."""
        if not isinstance(cast(object, results), Mapping):
            step = 'Give a dict from ids to texts: {"tool-1": "4"}.'
            raise BadInput("submit_tool_results", results, "they are not by id.", next_step=step)
        for identity, result in results.items():
            failed = isinstance(result, ToolError)
            await self._command(SubmitToolResult(id=identity, output=str(result), failed=failed))

    def _require_live(self, name: str) -> "_LiveSession":
        if self._live is None:
            step = "Use `async with inspan.open_session(…) as session`."
            raise BadInput(name, "", "this session is not open.", next_step=step)
        if asyncio.get_running_loop() is not self._live.loop:
            step = "Use it where it was opened, or attach_session from here."
            raise BadInput(name, self.run_id, "this session was opened in another loop.", next_step=step)
        return self._live

    async def _send(self, prompt: str, when: Delivery) -> SentMessage:
        check_text("prompt", prompt)
        if not prompt.strip():
            raise BadInput("prompt", prompt, "it is empty.", next_step="Say what to do.")
        live = self._require_live("send_message")
        return await live.send_message(prompt, when)

    async def _command(self, command: Command) -> None:
        await self._require_live(type(command).__name__).command(command)

    async def _run_message(self, prompt: str, mode: Mode, options: Options) -> AgentResult:
        if mode not in MODES:
            raise BadInput("mode", mode, "unknown mode.", next_step="Use exec, review or complete.")
        async with self._turn:
            given: Options = {**self._options, **options}
            if self._resume:
                given["resume"] = self._resume
            if self._continues:
                given["fork"] = False  # It was for the beginning: from now on the copy goes on.
            if self._folder and "cwd" not in options:
                given["cwd"] = self._folder  # Where it began, wherever the program has gone since.
            folder = given["cwd"] = self._runner.folder(given)
            self._claimed = None
            try:
                result = await self._runner.run_mode(mode, prompt, given)
            except BaseException:
                self._adopt_claimed_run(folder)
                raise
            if result.session_id:
                self._continue_from(result.run_id, result.session_id, folder)
        return result

    def remember_claim(self, folder: RunFolder) -> None:
        """Hears of the run of a message before its agent is started."""
        self._claimed = folder

    def _adopt_claimed_run(self, folder: Path) -> None:
        """A run that was cut off belongs to the conversation all the same."""
        if not self._claimed:
            return
        session_id = self.session_id
        with suppress(InspanError, OSError):  # A log that cannot be read now is read, and told of, when it goes on.
            session_id = summarize(record.event for record in iter_log(self._claimed.log)).session_id or session_id
        self._continue_from(self._claimed.run_id, session_id, folder)

    def _continue_from(self, run_id: str, session_id: str, folder: Path) -> None:
        self._session_id, self._resume, self._folder, self._continues = session_id, run_id, folder, True


class _LiveSession:
    """An open session: hears every record once, keeps the last ones for readers, and knows who waits for what."""

    def __init__(self, connection: "Connection", responder: Responder | None) -> None:
        self.connection = connection
        self.loop = asyncio.get_running_loop()
        self._responder = responder
        self._fold = SessionFold()
        self._recent: deque[Record] = deque(maxlen=_RECENT_RECORDS)
        self._changed = asyncio.Event()
        self._ended = False
        self._detached = False
        self.session_id = ""
        self._results: dict[str, asyncio.Future[AgentResult]] = {}
        self._summary = Summary()

    @property
    def run_id(self) -> str:
        return self.connection.folder.run_id

    @property
    def state(self) -> SessionState:
        return self._fold.state

    async def open(self) -> None:
        await self.connection.open(self._hear)
        if self._responder:
            self._responder.bind(self.run_id, self.connection.send)

    async def send_message(self, prompt: str, when: Delivery) -> SentMessage:
        identity = uuid.uuid4().hex[:12]
        future = self._results[identity] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_look_at)
        before = self._recent[-1].number if self._recent else 0
        try:
            await self.command(SendMessage(id=identity, text=prompt, when=when))
        except BaseException:
            self._results.pop(identity, None)
            raise
        return SentMessage(identity, future, lambda: self.records(after=before))

    async def command(self, command: Command) -> None:
        if self._detached:
            raise self._build_detached()
        check_reply(self.run_id, await self.connection.send(command))

    async def records(self, *, after: int = 0) -> AsyncIterator[Record]:
        """From the first after a number on; whoever is slow reads from the log what is not kept any more."""
        number = after
        while True:
            for record in await self._read_after(number):
                number = record.number
                yield record
                if isinstance(record.event, RunEnded):
                    return
            if self._detached:
                return
            if not self._recent or self._recent[-1].number <= number:
                self._changed.clear()
                await self._changed.wait()

    async def close(self) -> AgentResult | None:
        await self.connection.send(CloseSession())
        return await self._end()

    async def kill(self) -> None:
        await self.connection.kill()
        await self._end_responder()

    async def detach(self) -> None:
        """Whoever still waits for something hears that nobody listens any more."""
        await self.connection.release()
        await self._end_responder()
        self._detached = True
        self._changed.set()
        for waiting in self._results.values():
            if not waiting.done():
                waiting.set_exception(self._build_detached())
        self._results.clear()

    def _build_detached(self) -> SessionClosed:
        step = f"inspan.attach_session({self.run_id!r}) takes it up again."
        return SessionClosed(f"Session {self.run_id} was let go of: it goes on without this program.", next_step=step)

    async def _end(self) -> AgentResult | None:
        from .result import build_result  # Start-up time: only an open session ends so.

        summary = await self.connection.wait_closed()
        await self._end_responder()
        return build_result(self.connection.folder, self.connection.task, summary)

    async def _end_responder(self) -> None:
        if self._responder:
            await self._responder.close()

    async def _read_after(self, number: int) -> list[Record]:
        first = self._recent[0].number if self._recent else 1
        if number + 1 >= first:
            return [record for record in self._recent if record.number > number]
        last = first - 1
        return await asyncio.to_thread(self._read_log, number, last)

    def _read_log(self, after: int, last: int) -> list[Record]:
        return [record for record in iter_log(self.connection.folder.log) if after < record.number <= last]

    def _hear(self, record: Record) -> None:
        event = record.event
        self._recent.append(record)
        self._changed.set()
        self._fold.add(event)
        if isinstance(event, ThreadStarted | RunStarted) and event.session_id:
            self.session_id = event.session_id
        if isinstance(event, MessageStarted) or (
            isinstance(event, MessageSent) and not event.queued and not event.steers
        ):
            self._summary = Summary()
        self._summary.add(event)
        if isinstance(event, MessageEnded):
            self._end_message(event)
        elif isinstance(event, RunEnded):
            self._ended = True
            self._fail_waiting(event)
        if self._responder:
            self._responder.hear(event)

    def _end_message(self, event: MessageEnded) -> None:
        waiting = self._results.pop(event.id, None)
        if waiting and not waiting.done():
            connection = self.connection
            self._summary.session_id = self.session_id
            waiting.set_result(build_message_result(connection.folder, connection.task, self._summary, event))

    def _fail_waiting(self, event: RunEnded) -> None:
        for waiting in self._results.values():
            if not waiting.done():
                sentence = f"Session {self.run_id} ended before it took the message: {event.message or event.reason}."
                waiting.set_exception(SessionClosed(sentence, next_step=event.next or "Open another one."))
        self._results.clear()


def build_responder(options: Options) -> Responder | None:
    """What answers for a program, if it has functions for it; raises `BadInput` for what is no function."""
    on_permission, on_question = options.get("on_permission"), options.get("on_question")
    for name, function in (("on_permission", on_permission), ("on_question", on_question)):
        if function is not None:
            check_function(name, function)
    run_tool = _build_tool_runner(tools) if (tools := options.get("tools")) else None
    hooks: dict[HookName, Hook] = {hook: cast(Hook, options.get(hook)) for hook in list_hooks(options)}
    for name, function in hooks.items():
        check_function(name, function)
    if not (on_permission or on_question or run_tool or hooks):
        return None
    return Responder(on_permission=on_permission, on_question=on_question, run_tool=run_tool, hooks=hooks)


def _build_tool_runner(given: object) -> RunTool:
    from .tools import collect_tools, run_tool  # Start-up time: few programs have tools of their own.

    tools = {tool.name: tool for tool in collect_tools(given) if tool.function}

    def start(requested: ToolRequested, send: Send) -> Coroutine[Any, Any, None] | None:
        tool = tools.get(requested.name)
        return run_tool(tool, requested, send) if tool else None

    return start


def _look_at(result: "asyncio.Future[AgentResult]") -> None:
    """Nobody has to wait for a message."""
    if not result.cancelled():
        result.exception()
