"""One conversation in the Agent Client Protocol: opened, answered, read, and ended with its turn."""

from collections.abc import Callable

import msgspec

from inspan.contracts.dialect import NOTHING, Said
from inspan.contracts.work import ReadText, Work, Worked, WriteText
from inspan.framing import jsonrpc
from inspan.framing.jsonrpc import Id, Message, Problem
from inspan.protocol.commands import Cancel, Command
from inspan.protocol.events import (
    Event,
    PermissionAnswered,
    PermissionAsked,
    ThreadStarted,
    ToolFailed,
    TurnStarted,
    Unrecognized,
)
from inspan.protocol.outcome import FailureKind
from inspan.protocol.task import Mode, Task
from inspan.protocol.usage import Told
from inspan.protocol.wire import UNREADABLE

from .handshake import AUTH_REQUIRED, PROMPT, SESSIONS, Handshake, Step, told_by
from .opening import Opening
from .policy import decide
from .settings import Trouble, mapping, mappings
from .speaker import Habits
from .turn import Turn

_NOT_FOUND = -32002
_LOWEST_STATUS = 400
_STATUS: dict[int, FailureKind] = {
    401: "authentication",
    403: "authentication",
    404: "model_not_found",
    413: "context_too_long",
    429: "rate_limit",
}


class AcpDialect:
    """Speaks with one agent for one turn."""

    def __init__(self, task: Task, told: Told, *, habits: Habits = Habits()) -> None:  # noqa: B008  a frozen value
        self._mode: Mode = task.mode
        self._model = task.model
        self._granted = task.allowed_tools
        self._habits = habits
        self._handshake = Handshake()
        self._turn = Turn(partial=task.partial, told=told, habits=habits)
        self._asked: dict[str, Id | None] = {}
        self._begun = False
        self._done = False
        self._requests: dict[str, Callable[[Message], Said]] = {
            "session/request_permission": self._permission,
            "fs/read_text_file": self._read_file,
            "fs/write_text_file": self._write_file,
        }

    def open(self) -> Said:
        return self.begin(b"{}")

    def begin(self, opening: bytes) -> Said:
        decoded = msgspec.json.decode(opening, type=Opening)
        self._turn.calls.cwd = decoded.cwd
        return Said(frames=[self._handshake.begin(decoded)])

    def receive(self, frame: bytes) -> Said:
        try:
            message = jsonrpc.read(frame)
        except UNREADABLE as error:
            told = self._habits.beside(frame) if self._habits.beside else None
            return _unknown(frame, str(error)) if told is None else Said(self._turn.told_beside(told))
        if message.kind == "notification":
            said = self._notified(message)
        elif message.kind == "request":
            said = self._requested(message)
        else:
            said = self._answered(message)
        return said or _unknown(frame, f"{message.kind} {message.method or message.id}")

    def overhear(self, line: bytes) -> Said:
        return NOTHING

    def send(self, command: Command) -> Said:
        if not isinstance(command, Cancel) or not self._handshake.prompted or self._done:
            return NOTHING
        self._turn.cancelled = True
        return Said(frames=[self._cancel()])

    def worked(self, done: Worked) -> Said:
        identity = self._asked.pop(done.id, None)
        if done.missing and self._habits.empty_for_missing:
            return Said((), [jsonrpc.result(identity, {"content": ""})])
        if done.problem:
            code = _NOT_FOUND if done.missing else jsonrpc.INVALID_PARAMS if done.denied else jsonrpc.INTERNAL_ERROR
            failed = [ToolFailed(id=done.id, name="file", output=done.problem, denied=True)] if done.denied else []
            return Said(failed, [jsonrpc.error(identity, code, done.problem)])
        if done.change:
            self._turn.calls.wrote(done.path, done.change)
            return Said((), [jsonrpc.result(identity, {})])
        return Said((), [jsonrpc.result(identity, {"content": done.text})])

    def close(self) -> Said:
        return Said([*self._turn.flush(), *self._turn.calls.finish()])

    def _notified(self, message: Message) -> Said | None:
        if message.method in self._habits.quiet:
            return NOTHING
        if message.method != "session/update":
            return None
        params = mapping(message.params)
        self._handshake.session_id = self._handshake.session_id or str(params.get("sessionId") or "")
        if not self._begun:
            return NOTHING  # What it tells before the prompt is of the session's past.
        failed = bool(self._turn.problem)
        events = self._turn.update(mapping(params.get("update")))
        if events is None:
            return None
        # Whoever started the run decides whether to try again.
        return Said(events, [] if failed or not self._turn.problem else [self._cancel()])

    def _requested(self, message: Message) -> Said | None:
        if handler := self._requests.get(message.method):
            return handler(message)
        refusal = [jsonrpc.error(message.id, jsonrpc.METHOD_NOT_FOUND, f"Method not found: {message.method}")]
        if message.method in self._habits.quiet:
            return Said(frames=refusal)
        raw = msgspec.json.encode(message.params).decode()
        return Said([Unrecognized(raw=raw, note=f"request {message.method}")], refusal)

    def _answered(self, message: Message) -> Said | None:
        identity = message.id
        if not isinstance(identity, int):
            return None
        if identity == PROMPT:
            return self._ended(message)
        if message.kind == "error":
            step = self._handshake.refused(identity, message.error)
        else:
            step = self._handshake.answered(identity, message.result)
        return None if step is None else self._stepped(step, opened=identity in SESSIONS and message.kind == "result")

    def _stepped(self, step: Step, *, opened: bool) -> Said:
        events: list[Event] = []
        if opened:
            events.append(self._thread())
        if step.trouble:
            return self._given_up([*events, TurnStarted()], step.trouble)
        if step.ready:
            self._begun = True
            events.append(TurnStarted())
        return Said(events, step.frames)

    def _cancel(self) -> bytes:
        return jsonrpc.notification("session/cancel", {"sessionId": self._handshake.session_id})

    def _thread(self) -> ThreadStarted:
        return ThreadStarted(
            session_id=self._handshake.session_id,
            model=self._handshake.model or self._model,
            agent_version=self._handshake.agent_version,
        )

    def _given_up(self, events: list[Event], trouble: Trouble) -> Said:
        self._done = True
        kind = trouble.failure if trouble.failure != "unknown" else self._turn.kind_of(trouble.message) or "unknown"
        return Said([*events, *self._turn.fail(kind, trouble.message)], done=True)

    def _ended(self, message: Message) -> Said:
        self._done = True
        if message.kind == "error":
            return Said(self._failed(message.error), done=True)
        return Said(self._turn.finish(mapping(message.result)), done=True)

    def _failed(self, problem: Problem) -> list[Event]:
        words = told_by(problem)
        status = int(problem.code) if problem.code >= _LOWEST_STATUS else None
        kind = _STATUS.get(status or 0) or ("overloaded" if (status or 0) >= 500 else None) or self._turn.kind_of(words)
        if kind is None:
            kind = "authentication" if problem.code == AUTH_REQUIRED else "unknown"
        return self._turn.fail(kind, words, status=status)

    def _permission(self, message: Message) -> Said:
        params = mapping(message.params)
        call, events = self._turn.calls.asked(mapping(params.get("toolCall")))
        decision = decide(
            self._mode,
            kind=call.kind,
            name=call.name,
            allowed_tools=self._granted,
            options=mappings(params.get("options")),
        )
        if not decision.allowed:
            call.refusal = decision.reason
        told: list[Event] = [
            *self._turn.flush(),
            *events,
            PermissionAsked(id=call.id, tool=call.name, input=call.input or None),
            PermissionAnswered(id=call.id, allowed=decision.allowed, by="policy", reason=decision.reason),
        ]
        return Said(told, [jsonrpc.result(message.id, decision.answer)])

    def _read_file(self, message: Message) -> Said:
        if self._mode == "complete":
            return self._refuse(message, "a completion reads no files")
        params = mapping(message.params)
        line, limit = params.get("line"), params.get("limit")
        return self._ask(
            message,
            lambda identity: ReadText(
                id=identity,
                path=str(params.get("path") or ""),
                line=line if isinstance(line, int) else 1,
                limit=limit if isinstance(limit, int) else None,
            ),
        )

    def _write_file(self, message: Message) -> Said:
        if self._mode != "exec":
            return self._refuse(message, f"mode {self._mode} changes no files")
        params = mapping(message.params)
        path, text = str(params.get("path") or ""), str(params.get("content") or "")
        return self._ask(message, lambda identity: WriteText(id=identity, path=path, text=text))

    def _ask(self, message: Message, work: Callable[[str], Work]) -> Said:
        identity = f"file-{len(self._asked) + 1}-{message.id}"
        self._asked[identity] = message.id
        return Said(work=[work(identity)])

    def _refuse(self, message: Message, reason: str) -> Said:
        path = str(mapping(message.params).get("path") or "")
        event = ToolFailed(id=f"file-{message.id}", name="file", output=f"{path}: {reason}", denied=True)
        return Said([event], [jsonrpc.error(message.id, jsonrpc.INVALID_PARAMS, event.output)])


def _unknown(frame: bytes, note: str) -> Said:
    return Said([Unrecognized(raw=frame.decode(errors="replace"), note=note)])
