"""One conversation in the Agent Client Protocol: opened, answered, read, and ended with its turn."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from inspan.contracts.dialect import NO_OUTPUT, DialectOutput
from inspan.contracts.file_requests import FileRequest, FileResult, ReadText, WriteText
from inspan.contracts.permissions import Rulebook
from inspan.contracts.tool_grants import asks_first
from inspan.framing import jsonrpc
from inspan.framing.jsonrpc import Id, Message, RpcError
from inspan.protocol.commands import Answer, Cancel, Command, Interrupt, SendMessage
from inspan.protocol.events import (
    Event,
    PermissionAnswered,
    PermissionAsked,
    ThreadStarted,
    ToolFailed,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
    Unrecognized,
)
from inspan.protocol.http_status import failure_of_status, is_error_status
from inspan.protocol.known_types import know_type
from inspan.protocol.task import Mode, Task
from inspan.protocol.usage import SessionTotals
from inspan.protocol.wire import DECODE_ERRORS

from ..question_ids import name_question
from .handshake import AUTH_REQUIRED, PROMPT, SESSIONS, Handshake, Step, describe_error
from .policy import Decision, answer_with, decide
from .profile import AcpProfile
from .session_setup import SessionSetup
from .settings import SetupProblem, as_object, as_objects
from .tool_call import ToolCall
from .turn import Turn

_NOT_FOUND = -32002
_KIND_NAMES = {"execute": "Bash", "edit": "Edit", "delete": "Delete", "read": "Read", "fetch": "WebFetch"}


class _OpenRequest(NamedTuple):
    """A permission that waits for its answer."""

    id: Id | None
    options: list[dict[str, Any]]
    call: ToolCall


class AcpDialect:
    """Speaks with one agent: for one turn, or, in a conversation, for as many as there are messages."""

    def __init__(self, task: Task, reported: SessionTotals, *, profile: AcpProfile = AcpProfile()) -> None:  # noqa: B008  a frozen value
        self._converses = task.converses
        self._asks = asks_first(task)
        self._servers = sorted(task.mcp_servers, key=len, reverse=True)
        self._ask_rules = Rulebook(ask=task.ask)
        self._partial = task.partial
        # What was reported before is of other processes.
        self._reported = SessionTotals() if profile.usage_scope == "process" else reported
        self._held: SendMessage | None = None
        self._prompt_id = PROMPT
        self._open_requests: dict[str, _OpenRequest] = {}
        self._mode: Mode = task.mode
        self._model = task.model
        self._granted = task.allowed_tools
        self._profile = profile
        self._handshake = Handshake(prompts=not self._converses)
        self._turn = Turn(partial=task.partial, reported=self._reported, profile=profile)
        self._pending_files: dict[str, Id | None] = {}
        self._begun = False
        self._done = False
        self._requests: dict[str, Callable[[Message], DialectOutput]] = {
            "session/request_permission": self._on_permission_request,
            "fs/read_text_file": self._on_read_file,
            "fs/write_text_file": self._on_write_file,
        }

    def open(self) -> DialectOutput:
        return self.begin(b"{}")

    def begin(self, setup: bytes) -> DialectOutput:
        decoded = msgspec.json.decode(setup, type=know_type(SessionSetup))
        self._turn.calls.cwd = decoded.cwd
        return DialectOutput(frames=[self._handshake.begin(decoded)])

    def receive(self, frame: bytes) -> DialectOutput:
        try:
            message = jsonrpc.parse_message(frame)
        except DECODE_ERRORS as error:
            side_line = self._profile.parse_side_line(frame) if self._profile.parse_side_line else None
            return (
                _build_unrecognized(frame, str(error))
                if side_line is None
                else DialectOutput(self._turn.handle_side_line(side_line))
            )
        if message.kind == "notification":
            said = self._on_notification(message)
        elif message.kind == "request":
            said = self._on_request(message)
        else:
            said = self._on_response(message)
        return said or _build_unrecognized(frame, f"{message.kind} {message.method or message.id}")

    def receive_stderr(self, line: bytes) -> DialectOutput:
        return NO_OUTPUT

    def send(self, command: Command) -> DialectOutput:
        if isinstance(command, SendMessage) and self._converses:
            return self._send_message(command)
        if isinstance(command, Answer):
            return self._send_answer(command)
        if not isinstance(command, Cancel | Interrupt):
            return NO_OUTPUT
        if self._held:
            self._held = None
            return DialectOutput([TurnInterrupted()])
        if not self._handshake.prompted or self._done or not self._begun:
            return NO_OUTPUT
        self._turn.cancelled = True
        return DialectOutput(frames=[self._cancel_frame()])

    def _send_message(self, message: SendMessage) -> DialectOutput:
        if not self._handshake.prompted:
            self._held = message
            return NO_OUTPUT  # Said when the session stands.
        if self._begun:
            self._begin_turn()
        self._begun = True
        attached = self._handshake.setup.prompt if self._prompt_id == PROMPT else []
        blocks = [{"type": "text", "text": message.text}, *attached]
        return DialectOutput([TurnStarted()], [self._handshake.prompt_request(self._prompt_id, blocks)])

    def _begin_turn(self) -> None:
        """What was told of the session so far is not of the next turn."""
        self._reported = self._turn.total
        self._prompt_id += 1
        cwd = self._turn.calls.cwd
        self._turn = Turn(partial=self._partial, reported=self._reported, profile=self._profile)
        self._turn.calls.cwd = cwd
        self._done = False

    def _send_answer(self, answer: Answer) -> DialectOutput:
        request = self._open_requests.pop(answer.id, None)
        if request is None:
            return NO_OUTPUT
        decision = answer_with(request.options, allowed=answer.allowed, reason=answer.reason)
        if not decision.allowed:
            request.call.refusal = decision.reason or "the user said no"
        return DialectOutput(frames=[jsonrpc.encode_result(request.id, decision.answer)])

    def receive_file_result(self, result: FileResult) -> DialectOutput:
        identity = self._pending_files.pop(result.id, None)
        if result.missing and self._profile.reads_missing_as_empty:
            return DialectOutput((), [jsonrpc.encode_result(identity, {"content": ""})])
        if result.problem:
            code = _NOT_FOUND if result.missing else jsonrpc.INVALID_PARAMS if result.denied else jsonrpc.INTERNAL_ERROR
            failed = (
                [ToolFailed(id=result.id, name="file", output=result.problem, denied=True)] if result.denied else []
            )
            return DialectOutput(failed, [jsonrpc.encode_error(identity, code, result.problem)])
        if result.change:
            self._turn.calls.note_file_write(result.path, result.change)
            return DialectOutput((), [jsonrpc.encode_result(identity, {})])
        return DialectOutput((), [jsonrpc.encode_result(identity, {"content": result.text})])

    def close(self) -> DialectOutput:
        return DialectOutput([*self._turn.flush(), *self._turn.calls.finish()])

    def _on_notification(self, message: Message) -> DialectOutput | None:
        if message.method in self._profile.ignored_methods:
            return NO_OUTPUT
        if message.method != "session/update":
            return None
        params = as_object(message.params)
        self._handshake.session_id = self._handshake.session_id or str(params.get("sessionId") or "")
        if not self._begun:
            return NO_OUTPUT  # What it tells before the prompt is of the session's past.
        failed = bool(self._turn.problem)
        events = self._turn.update(as_object(params.get("update")))
        if events is None:
            return None
        # Whoever started the run decides whether to try again.
        return DialectOutput(events, [] if failed or not self._turn.problem else [self._cancel_frame()])

    def _on_request(self, message: Message) -> DialectOutput | None:
        if handler := self._requests.get(message.method):
            return handler(message)
        refusal = [jsonrpc.encode_error(message.id, jsonrpc.METHOD_NOT_FOUND, f"Method not found: {message.method}")]
        if message.method in self._profile.ignored_methods:
            return DialectOutput(frames=refusal)
        raw = msgspec.json.encode(message.params).decode()
        return DialectOutput([Unrecognized(raw=raw, note=f"request {message.method}")], refusal)

    def _on_response(self, message: Message) -> DialectOutput | None:
        identity = message.id
        if not isinstance(identity, int):
            return None
        if identity >= PROMPT:
            # What answers a question that was not asked yet was not meant for it.
            return self._on_prompt_response(message) if self._is_awaited(identity) else None
        if message.kind == "error":
            step = self._handshake.on_error(identity, message.error)
        else:
            step = self._handshake.on_result(identity, message.result)
        return (
            None if step is None else self._apply_step(step, opened=identity in SESSIONS and message.kind == "result")
        )

    def _apply_step(self, step: Step, *, opened: bool) -> DialectOutput:
        events: list[Event] = []
        if opened:
            events.append(self._thread_event())
        if step.problem:
            return self._give_up([*events, TurnStarted()], step.problem)
        if step.ready and self._converses:
            held, self._held = self._held, None
            first = self._send_message(held) if held else NO_OUTPUT
            return DialectOutput([*events, *first.events], [*step.frames, *first.frames])
        if step.ready:
            self._begun = True
            events.append(TurnStarted())
        return DialectOutput(events, step.frames)

    def _is_awaited(self, identity: int) -> bool:
        return self._handshake.prompted and self._begun and identity == self._prompt_id and not self._done

    def _cancel_frame(self) -> bytes:
        return jsonrpc.encode_notification("session/cancel", {"sessionId": self._handshake.session_id})

    def _thread_event(self) -> ThreadStarted:
        return ThreadStarted(
            session_id=self._handshake.session_id,
            model=self._handshake.model or self._model,
            agent_version=self._handshake.agent_version,
        )

    def _give_up(self, events: list[Event], problem: SetupProblem) -> DialectOutput:
        self._done = True
        kind = (
            problem.failure
            if problem.failure != "unknown"
            else self._turn.classify_failure(problem.message) or "unknown"
        )
        return DialectOutput([*events, *self._turn.fail(kind, problem.message)], done=True)

    def _on_prompt_response(self, message: Message) -> DialectOutput:
        self._done = True
        failed = message.kind == "error"
        events = self._fail_turn(message.error) if failed else self._turn.finish(as_object(message.result))
        if self._converses and self._turn.cancelled:
            events = [*_without_end(events), self._turn.build_interrupted()]
        return DialectOutput(events, done=not self._converses)

    def _fail_turn(self, problem: RpcError) -> list[Event]:
        words = describe_error(problem)
        status = int(problem.code) if is_error_status(int(problem.code)) else None
        kind = failure_of_status(status) or self._turn.classify_failure(words)
        if kind is None:
            kind = "authentication" if problem.code == AUTH_REQUIRED else "unknown"
        return self._turn.fail(kind, words, status=status)

    def _on_permission_request(self, message: Message) -> DialectOutput:
        params = as_object(message.params)
        call, events = self._turn.calls.handle_permission_request(as_object(params.get("toolCall")))
        options = as_objects(params.get("options"))
        decision = decide(
            self._mode,
            kind=call.kind,
            name=call.name,
            allowed_tools=self._granted,
            options=options,
        )
        if self._asks and self._is_open(call, decision):
            identity = name_question(call.id, self._open_requests)
            self._open_requests[identity] = _OpenRequest(message.id, options, call)
            asked = PermissionAsked(
                id=identity, tool=self._name_tool(call), input=call.input or None, reason=call.title
            )
            return DialectOutput([*self._turn.flush(), *events, asked])
        if not decision.allowed:
            call.refusal = decision.reason
        if self._converses:  # Nobody is asked: a question in a conversation is one that waits for an answer.
            return DialectOutput([*self._turn.flush(), *events], [jsonrpc.encode_result(message.id, decision.answer)])
        told: list[Event] = [
            *self._turn.flush(),
            *events,
            PermissionAsked(id=call.id, tool=call.name, input=call.input or None),
            PermissionAnswered(id=call.id, allowed=decision.allowed, by="policy", reason=decision.reason),
        ]
        return DialectOutput(told, [jsonrpc.encode_result(message.id, decision.answer)])

    def _is_open(self, call: ToolCall, decision: Decision) -> bool:
        """Whether a call is asked about: beside `exec` not what the mode forbids, nor what no pattern is about."""
        if self._mode == "exec":
            return True
        asked = "*" in self._ask_rules.ask or self._ask_rules.rule(self._name_tool(call), call.input) == "ask"
        return decision.allowed and asked

    def _name_tool(self, call: ToolCall) -> str:
        """The tool as rules name it: one of a server by that, and of an agent that tells only a title by its kind."""
        if call.name in ("", call.title) and call.kind in _KIND_NAMES:
            return _KIND_NAMES[call.kind]
        if self._profile.mcp_prefix and call.kind in ("", "other"):
            for server in self._servers:
                prefix = self._profile.mcp_prefix.format(server=server)
                if call.name.startswith(prefix):
                    return f"mcp__{server}__{call.name.removeprefix(prefix)}"
        return call.name

    def _on_read_file(self, message: Message) -> DialectOutput:
        if self._mode == "complete":
            return self._refuse_file(message, "a completion reads no files")
        params = as_object(message.params)
        line, limit = params.get("line"), params.get("limit")
        return self._request_file(
            message,
            lambda identity: ReadText(
                id=identity,
                path=str(params.get("path") or ""),
                line=line if isinstance(line, int) else 1,
                limit=limit if isinstance(limit, int) else None,
            ),
        )

    def _on_write_file(self, message: Message) -> DialectOutput:
        if self._mode != "exec":
            return self._refuse_file(message, f"mode {self._mode} changes no files")
        params = as_object(message.params)
        path, text = str(params.get("path") or ""), str(params.get("content") or "")
        return self._request_file(message, lambda identity: WriteText(id=identity, path=path, text=text))

    def _request_file(self, message: Message, work: Callable[[str], FileRequest]) -> DialectOutput:
        identity = f"file-{len(self._pending_files) + 1}-{message.id}"
        self._pending_files[identity] = message.id
        return DialectOutput(file_requests=[work(identity)])

    def _refuse_file(self, message: Message, reason: str) -> DialectOutput:
        path = str(as_object(message.params).get("path") or "")
        event = ToolFailed(id=f"file-{message.id}", name="file", output=f"{path}: {reason}", denied=True)
        return DialectOutput([event], [jsonrpc.encode_error(message.id, jsonrpc.INVALID_PARAMS, event.output)])


def _without_end(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, TurnCompleted | TurnFailed)]


def _build_unrecognized(frame: bytes, note: str) -> DialectOutput:
    return DialectOutput([Unrecognized(raw=frame.decode(errors="replace"), note=note)])
