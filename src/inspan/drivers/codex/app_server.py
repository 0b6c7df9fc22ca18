"""The language of `codex app-server`: JSON-RPC on lines, both ways (0.163.0)."""

import re
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from inspan import __version__
from inspan.contracts.dialect import NO_OUTPUT, DialectOutput, build_unrecognized
from inspan.contracts.file_requests import FileResult
from inspan.dialects.json_values import Json, as_object, get_object, get_text
from inspan.dialects.output_end import append_output
from inspan.framing import jsonrpc
from inspan.framing.jsonrpc import Id, Message
from inspan.protocol.commands import Answer, Cancel, Command, Configure, Interrupt, SendMessage
from inspan.protocol.events import (
    ErrorReported,
    TextDelta,
    ThreadStarted,
    ToolOutput,
    TurnCompleted,
    TurnInterrupted,
    TurnStarted,
)
from inspan.protocol.known_types import know_type
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals
from inspan.protocol.wire import DECODE_ERRORS

from .app_server_items import read_failure, read_plan, read_total, to_item
from .app_server_launch import Setup
from .app_server_questions import ServerQuestions
from .dialect import SERVERS_FAILED, CodexDialect, on_servers_failed, read_item

# What it would tell in pieces, or a second time.
_UNWANTED = (
    "thread/started",
    "thread/status/changed",
    "thread/settings/updated",
    "thread/name/updated",
    "thread/readState/changed",
    "thread/queue/changed",
    "thread/goal/updated",
    "thread/goal/cleared",
    "thread/compacted",
    "thread/environment/connected",
    "thread/environment/disconnected",
    "hook/started",
    "hook/completed",
    "skills/changed",
    "turn/diff/updated",
    "item/commandExecution/terminalInteraction",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "item/mcpToolCall/progress",
    "item/plan/delta",
    "item/reasoning/summaryTextDelta",
    "item/reasoning/summaryPartAdded",
    "item/reasoning/textDelta",
    "mcpServer/startupStatus/updated",
    "account/updated",
    "account/rateLimits/updated",
    "remoteControl/status/changed",
    "serverRequest/resolved",
)
_DELTA = "item/agentMessage/delta"
_OUTPUT_DELTA = "item/commandExecution/outputDelta"
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
_TOLD_ELSEWHERE = re.compile(rb"rejected by user(?! approval)|required MCP servers failed to initialize")
_TERMINATE = "thread/backgroundTerminals/terminate"
_decode_setup = msgspec.json.Decoder(know_type(Setup)).decode


class CodexRpcDialect(CodexDialect):
    """Speaks with the server: opens one thread, and gives it one turn after the other."""

    def __init__(self, task: Task, reported: SessionTotals) -> None:
        super().__init__(task, reported)
        self._task = task
        self._setup = Setup()
        self._thread_id = self._turn_id = ""
        self._held: SendMessage | None = None
        self._busy = self._interrupting = self._done = False
        self._total = self._counted = reported.usage
        self._open_items: dict[str, Json] = {}
        self._outputs: dict[str, str] = {}
        self._questions = ServerQuestions(self._open_items, asks=bool(task.ask))
        self._requests = 0
        self._waiting: dict[Id, Callable[[Message], DialectOutput]] = {}
        self._commands: dict[type[Command], Callable[[Any], DialectOutput]] = {
            SendMessage: self._send_message,
            Interrupt: self._send_interrupt,
            Cancel: self._send_interrupt,
            Answer: self._questions.answer,
            Configure: self._send_configuration,
        }
        self._notifications: dict[str, Callable[[Json], DialectOutput]] = {
            "turn/started": self._on_turn_started,
            "turn/completed": self._on_turn_completed,
            "turn/plan/updated": lambda params: DialectOutput([read_plan(params)]),
            "item/started": lambda params: _on_item(params, 0),
            "item/completed": lambda params: _on_item(params, 1),
            _DELTA: self._on_delta,
            _OUTPUT_DELTA: self._on_output_delta,
            "thread/tokenUsage/updated": self._on_usage,
            "error": lambda params: _on_problem(as_object(params.get("error"))),
            "warning": _on_problem,
            **dict.fromkeys(_UNWANTED, _ignore),
            "configWarning": _ignore,
        }

    def open(self) -> DialectOutput:
        return self.begin(b"{}")

    def begin(self, setup: bytes) -> DialectOutput:
        self._setup = _decode_setup(setup)
        unwanted = [*_UNWANTED, *(() if self._task.partial else (_DELTA, _OUTPUT_DELTA))]
        params: Json = {
            "clientInfo": {"name": "inspan", "title": "inspan", "version": __version__},
            "capabilities": {
                "experimentalApi": True,
                "requestAttestation": False,
                "optOutNotificationMethods": unwanted,
            },
        }
        return DialectOutput(frames=[self._request("initialize", params, self._on_initialized)])

    def receive(self, frame: bytes) -> DialectOutput:
        try:
            message = jsonrpc.parse_message(frame)
        except DECODE_ERRORS as error:
            return DialectOutput([build_unrecognized(frame, str(error))])
        if message.kind == "notification":
            return self._on_notification(message, frame)
        if message.kind == "request":
            return self._on_request(message, frame)
        handler = self._waiting.pop(message.id, None) if message.id is not None else None
        return handler(message) if handler else DialectOutput([build_unrecognized(frame, f"answer {message.id!r}")])

    def receive_stderr(self, line: bytes) -> DialectOutput:
        """Its log, which is in colours wherever it goes (0.163), without what the protocol tells too."""
        text = _COLOUR.sub(b"", line)
        return NO_OUTPUT if _TOLD_ELSEWHERE.search(text) else super().receive_stderr(text)

    def send(self, command: Command) -> DialectOutput:
        handler = self._commands.get(type(command))
        return handler(command) if handler else NO_OUTPUT

    def receive_file_result(self, result: FileResult) -> DialectOutput:
        return NO_OUTPUT  # It works on files itself.

    def close(self) -> DialectOutput:
        return NO_OUTPUT

    def _request(self, method: str, params: Json, handler: Callable[[Message], DialectOutput]) -> bytes:
        self._requests += 1
        self._waiting[self._requests] = handler
        return jsonrpc.encode_request(self._requests, method, params)

    def _on_initialized(self, message: Message) -> DialectOutput:
        if message.kind == "error":
            return self._give_up(message.error.message)
        opened = self._request(self._setup.method, self._setup.thread, self._on_thread)
        return DialectOutput(frames=[jsonrpc.encode_notification("initialized", {}), opened])

    def _on_thread(self, message: Message) -> DialectOutput:
        if message.kind == "error":
            return self._give_up(message.error.message)
        result = as_object(message.result)
        if self._setup.read_only and get_object(result, "sandbox").get("type") != "readOnly":
            return self._give_up(f"it did not take a read-only sandbox: {result.get('sandbox')}")
        thread = as_object(result.get("thread"))
        self._thread_id = get_text(thread, "id")
        started = ThreadStarted(
            session_id=self._thread_id,
            model=get_text(result, "model") or self._task.model,
            agent_version=get_text(thread, "cliVersion"),
        )
        held, self._held = self._held, None
        begun = self._start_turn(held) if held else NO_OUTPUT
        return DialectOutput([started, *begun.events], begun.frames)

    def _give_up(self, words: str) -> DialectOutput:
        """Without a thread there is nothing to talk about."""
        self._done = True
        failed = SERVERS_FAILED.search(words)
        ended = on_servers_failed(failed[1]) if failed else [read_failure({"message": words}, None)]
        return DialectOutput([TurnStarted(), *ended], done=True)

    def _send_message(self, message: SendMessage) -> DialectOutput:
        if self._done:
            return NO_OUTPUT
        if message.when == "steer" and (self._busy or self._held):
            return self._steer(message)
        if not self._thread_id:
            self._held = message
            return NO_OUTPUT
        return self._start_turn(message)

    def _start_turn(self, message: SendMessage) -> DialectOutput:
        params: Json = {"threadId": self._thread_id, "input": self._build_input(message.text)}
        if self._setup.schema is not None:
            params["outputSchema"] = self._setup.schema
        self._busy, self._interrupting, self._turn_id = True, False, ""
        return DialectOutput([TurnStarted()], [self._request("turn/start", params, self._on_turn_accepted)])

    def _build_input(self, text: str) -> list[Json]:
        setup = self._setup
        words = "\n\n".join(part for part in (setup.head, text, setup.tail) if part)
        self._setup = msgspec.structs.replace(setup, attached=[], head="", tail="")
        return [*setup.attached, {"type": "text", "text": words}]

    def _on_turn_accepted(self, message: Message) -> DialectOutput:
        if message.kind == "error":
            self._busy = False
            return DialectOutput([read_failure({"message": message.error.message}, None)])
        if self._busy and not self._turn_id:
            self._turn_id = get_text(get_object(message.result, "turn"), "id")
        return DialectOutput(frames=[self._interrupt_frame()]) if self._busy and self._interrupting else NO_OUTPUT

    def _steer(self, message: SendMessage) -> DialectOutput:
        if not self._turn_id or self._interrupting:
            return NO_OUTPUT
        said = [{"type": "text", "text": message.text}]
        params: Json = {"threadId": self._thread_id, "expectedTurnId": self._turn_id, "input": said}
        return DialectOutput(frames=[self._request("turn/steer", params, _on_steered)])

    def _send_interrupt(self, _: Command) -> DialectOutput:
        if self._held:
            self._held = None
            return DialectOutput([TurnInterrupted()])
        if not self._busy:
            return NO_OUTPUT
        self._interrupting = True  # A turn that has no id yet is interrupted once it has one.
        return DialectOutput(frames=[self._interrupt_frame()]) if self._turn_id else NO_OUTPUT

    def _interrupt_frame(self) -> bytes:
        return self._request("turn/interrupt", {"threadId": self._thread_id, "turnId": self._turn_id}, _on_done)

    def _terminate_frames(self) -> list[bytes]:
        """Ends the commands that a turn has begun: an interrupt lets them run on (0.163)."""
        commands = [each for each in self._open_items.values() if get_text(each, "processId")]
        return [
            self._request(_TERMINATE, {name: each[name] for name in ("threadId", "processId")}, _on_done)
            for each in commands
        ]

    def _send_configuration(self, command: Configure) -> DialectOutput:
        chosen = {"model": command.model, "effort": command.effort}
        params = {name: value for name, value in chosen.items() if value}
        if not params or not self._thread_id:
            return NO_OUTPUT
        params["threadId"] = self._thread_id
        return DialectOutput(frames=[self._request("thread/settings/update", params, _on_configured)])

    def _on_notification(self, message: Message, frame: bytes) -> DialectOutput:
        params = as_object(message.params)
        self._note_item(message.method, params)
        if params.get("threadId", self._thread_id) not in (self._thread_id, None):
            return NO_OUTPUT  # What a subagent does is not told in the usual channel either.
        handler = self._notifications.get(message.method)
        if handler is None:
            return DialectOutput([build_unrecognized(frame, f"notification {message.method}")])
        return handler(params)

    def _note_item(self, method: str, params: Json) -> None:
        """Keeps what is being done, also by subagents: questions about it only name it."""
        item = as_object(params.get("item"))
        if method == "item/started":
            self._open_items[get_text(item, "id")] = {**item, "threadId": params.get("threadId")}
        elif method == "item/completed":
            self._open_items.pop(get_text(item, "id"), None)
            self._outputs.pop(get_text(item, "id"), None)

    def _on_turn_started(self, params: Json) -> DialectOutput:
        """It may begin one by itself, to go on with a goal."""
        known, self._busy = self._busy, True
        self._turn_id = self._turn_id or get_text(as_object(params.get("turn")), "id")
        return NO_OUTPUT if known else DialectOutput([TurnStarted()])

    def _on_turn_completed(self, params: Json) -> DialectOutput:
        turn = as_object(params.get("turn"))
        if self._turn_id not in ("", turn.get("id")):
            return NO_OUTPUT  # Of an earlier one.
        spent, self._counted = self._total - self._counted, self._total
        interrupted = self._interrupting or turn.get("status") == "interrupted"
        frames = self._terminate_frames() if interrupted else []
        self._busy, self._interrupting, self._turn_id = False, False, ""
        self._open_items.clear()
        self._outputs.clear()
        self._questions.clear()
        usage = spent if spent.total else None
        if interrupted:
            return DialectOutput([TurnInterrupted(usage=usage)], frames)
        if turn.get("status") == "failed":
            return DialectOutput([read_failure(as_object(turn.get("error")), usage)])
        return DialectOutput([TurnCompleted(usage=spent)])

    def _on_usage(self, params: Json) -> DialectOutput:
        self._total = read_total(params)
        if get_text(params, "turnId") != self._turn_id:
            self._counted = self._total  # A thread that is resumed tells what it has used so far.
        return NO_OUTPUT

    def _on_delta(self, params: Json) -> DialectOutput:
        if not self._task.partial:
            return NO_OUTPUT
        return DialectOutput([TextDelta(block=get_text(params, "itemId"), text=get_text(params, "delta"))])

    def _on_output_delta(self, params: Json) -> DialectOutput:
        identity = get_text(params, "itemId")
        if not self._task.partial or identity not in self._open_items:
            return NO_OUTPUT
        text = append_output(self._outputs.get(identity, ""), get_text(params, "delta"))
        self._outputs[identity] = text
        return DialectOutput([ToolOutput(id=identity, text=text)] if text else ())

    def _on_request(self, message: Message, frame: bytes) -> DialectOutput:
        if (asked := self._questions.ask(message)) is not None:
            return asked
        refusal = jsonrpc.encode_error(message.id, jsonrpc.METHOD_NOT_FOUND, f"Method not found: {message.method}")
        return DialectOutput([build_unrecognized(frame, f"request {message.method}")], [refusal])


def _ignore(_: Json) -> DialectOutput:
    return NO_OUTPUT


def _on_item(params: Json, end: Literal[0, 1]) -> DialectOutput:
    item = to_item(as_object(params.get("item")))
    return DialectOutput((read_item(item, end) or ()) if item else ())


def _on_problem(problem: Json) -> DialectOutput:
    return DialectOutput([ErrorReported(message=get_text(problem, "message"))])


def _on_done(_: Message) -> DialectOutput:
    return NO_OUTPUT


def _on_steered(message: Message) -> DialectOutput:
    if message.kind != "error":
        return NO_OUTPUT
    return DialectOutput([ErrorReported(message=f"the message did not go into the turn: {message.error.message}")])


def _on_configured(message: Message) -> DialectOutput:
    if message.kind != "error":
        return NO_OUTPUT
    return DialectOutput([ErrorReported(message=f"it was not set: {message.error.message}")])
