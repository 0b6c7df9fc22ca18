"""The tool calls of a turn: what is told of one bit by bit, put together into when it began and how it ended."""

import os.path
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from inspan.contracts.permissions import drop_subjects
from inspan.protocol.events import (
    Change,
    CommandExecuted,
    Event,
    FileChanged,
    ToolCompleted,
    ToolFailed,
    ToolOutput,
    ToolStarted,
)
from inspan.protocol.wire import DECODE_ERRORS

from ..output_end import append_output
from .profile import AcpProfile, SideLine
from .settings import as_object, as_objects
from .tool_call import ToolCall, command_of, exit_code_of, find_in_meta, find_nested, output_of

# What agents call the tool that runs a command, where they do not say that it does.
_SHELLS = frozenset({"shell", "bash", "exec_command", "run_shell_command", "execute_command", "run_command"})
_ENDS = frozenset({"completed", "failed"})
_EDIT_KINDS = frozenset({"edit", "delete", "move"})
_STREAMED = ("terminal_output_delta", "terminal_output")
_ADDED: Change = "added"
_MODIFIED: Change = "modified"
_DELETED: Change = "deleted"


class ToolCalls:
    """The open calls of a turn. Feed it every update; it gives the events that follow."""

    def __init__(self, *, profile: AcpProfile, partial: bool) -> None:
        self.cwd = "/"
        self._partial = partial
        self._profile = profile
        self._open: dict[str, ToolCall] = {}
        self._ended: set[str] = set()
        self._waiting: dict[str, tuple[ToolCall, bool]] = {}
        self._written: dict[str, Change] = {}
        self._inputs: dict[str, Any] = {}

    def handle_update(self, update: Mapping[str, Any]) -> list[Event]:
        """Takes in what an update says of a call."""
        identity = str(update.get("toolCallId") or "")
        if identity in self._ended:
            return []
        call = self._merge_update(identity, update)
        self._take_output(call, update)
        status = update.get("status")
        # A call that is pending may have but a part of its input so far.
        known = call.input and (status != "pending" or update.get("sessionUpdate") != "tool_call")
        events = self._start(call) if known or status in (*_ENDS, "in_progress") else []
        if status not in _ENDS:
            return [*events, *self._tell_output(call, update)] if self._partial else events
        del self._open[call.id]
        self._ended.add(call.id)
        if self._profile.waits_for_side_line:
            self._waiting[call.id] = (call, status == "failed")
            return events
        return [*events, *self._end(call, failed=status == "failed")]

    def handle_side_line(self, side_line: SideLine) -> list[Event]:
        """What came of a call that has ended, where more is told of it than the protocol does."""
        if side_line.input:
            self._inputs[side_line.id] = side_line.input
        if side_line.id not in self._waiting:
            return []
        call, failed = self._waiting.pop(side_line.id)
        shown = side_line.exit_code is None and output_of(call)
        if side_line.output is not None and not shown:
            call.output, call.texts = side_line.output, []
        call.exit_code = side_line.exit_code if side_line.exit_code is not None else call.exit_code
        return self._end(call, failed=failed)

    def flush_ended(self) -> list[Event]:
        """The ends of calls of which nothing more will be told."""
        waiting, self._waiting = self._waiting, {}
        return [event for call, failed in waiting.values() for event in self._end(call, failed=failed)]

    def handle_permission_request(self, update: Mapping[str, Any]) -> tuple[ToolCall, list[Event]]:
        """Takes in what a request for permission says of its call, which has begun by then.

        What it states counts, whatever was told of the call before: that is what will be done.
        """
        identity = str(update.get("toolCallId") or "")
        known = self._open[identity].input if identity in self._open else None
        call = self._merge_update(identity, update)
        call.name = self._find_stated_name(update) or call.name
        call.input = _state_again(known, update.get("rawInput"))
        if not call.input:
            call.input = self._inputs.get(identity) or _find_shown_input(call, update)
        return call, self._start(call)

    def note_file_write(self, path: str, change: Change) -> None:
        """A file was written for the agent; the call that it belongs to tells of it, or else the turn's end."""
        self._written.setdefault(path, change)

    def finish(self) -> list[Event]:
        """What is left to tell when the turn is over: refused calls of which nothing more came, and written files."""
        settled = self.flush_ended()
        refused: list[Event] = [
            ToolFailed(id=call.id, name=call.name, output=call.refusal, denied=True)
            for call in self._open.values()
            if call.refusal
        ]
        written: list[Event] = [FileChanged(path=path, change=change) for path, change in self._written.items()]
        self._open, self._written = {}, {}
        return [*settled, *refused, *written]

    def _merge_update(self, identity: str, update: Mapping[str, Any]) -> ToolCall:
        call = self._open.setdefault(identity, ToolCall(identity))
        name = self._find_name(update)
        if name and not call.started and (not call.name or update.get("sessionUpdate") == "tool_call"):
            call.name = name
        call.kind = str(update.get("kind") or call.kind)
        call.title = str(update.get("title") or call.title)
        if call.kind in ("", "other"):
            call.kind = self._profile.tool_kinds.get(
                call.name, "execute" if call.name.lower() in _SHELLS else call.kind
            )
        if update.get("rawInput") and not call.started:
            call.input = update["rawInput"]
        self._take_meta(call, as_object(update.get("_meta")))
        self._take_paths(call, update)
        return call

    def _find_name(self, update: Mapping[str, Any]) -> str:
        return self._find_stated_name(update) or str(update.get("title") or update.get("kind") or "")

    def _find_stated_name(self, update: Mapping[str, Any]) -> str:
        """The name of the tool, where an update has it apart from what it shows to a person."""
        if self._profile.find_tool_name and (found := self._profile.find_tool_name(update)):
            return found
        return str(update.get("name") or find_in_meta(update, "toolName") or "")

    def _take_meta(self, call: ToolCall, meta: Mapping[str, Any]) -> None:
        for field in _STREAMED:
            if data := as_object(meta.get(field)).get("data"):
                call.streamed.append(str(data))
                call.streamed_end = append_output(call.streamed_end, str(data))
        code = as_object(meta.get("terminal_exit")).get("exit_code")
        call.exit_code = code if isinstance(code, int) else call.exit_code
        call.parent = call.parent or str(find_nested(meta, "parentToolUseId") or "")

    def _take_output(self, call: ToolCall, update: Mapping[str, Any]) -> None:
        if "rawOutput" in update and update["rawOutput"] is not None:
            call.output = update["rawOutput"]
        content = as_objects(update.get("content"))
        texts = [str(inner["text"]) for each in content if (inner := as_object(each.get("content"))).get("text")]
        if texts:
            call.texts = texts

    def _tell_output(self, call: ToolCall, update: Mapping[str, Any]) -> list[Event]:
        """The output of a command so far; beside an input, the text of a call is a description of it."""
        if not call.started or command_of(call) is None or update.get("rawInput") or not _has_output(update):
            return []
        text = call.streamed_end if call.streamed else append_output("", output_of(call))
        return [ToolOutput(id=call.id, text=text)] if text else []

    def _take_paths(self, call: ToolCall, update: Mapping[str, Any]) -> None:
        for each in as_objects(update.get("content")):
            if each.get("type") == "diff" and each.get("path"):
                call.diffs[self._to_absolute(each["path"])] = "modified" if each.get("oldText") else "added"
        if locations := [
            self._to_absolute(each["path"]) for each in as_objects(update.get("locations")) if each.get("path")
        ]:
            call.paths = locations

    def _to_absolute(self, path: object) -> str:
        return os.path.normpath(os.path.join(self.cwd, str(path)))

    def _start(self, call: ToolCall) -> list[Event]:
        if call.started:
            return []
        call.started = True
        if not call.input and call.kind == "execute" and call.title:
            call.input = {"command": call.title}  # Some tell it only as the title of the call.
        return [ToolStarted(id=call.id, name=call.name, input=call.input or None, parent=call.parent)]

    def _end(self, call: ToolCall, *, failed: bool) -> list[Event]:
        output = output_of(call)
        command = command_of(call)
        code = exit_code_of(call, output)
        if code is None and not failed and self._profile.implies_exit_zero:
            code = 0
        if self._profile.trailer_pattern and command is not None:
            output = self._profile.trailer_pattern.sub("", output)
        failed = failed or (command is not None and bool(code))
        if call.refusal or (self._profile.refusal_pattern and self._profile.refusal_pattern.match(output)):
            return [ToolFailed(id=call.id, name=call.name, output=output or call.refusal, denied=True)]
        ended = (ToolFailed if failed else ToolCompleted)(id=call.id, name=call.name, output=output)
        if command is not None:
            return [ended, CommandExecuted(id=call.id, command=command, exit_code=code)]
        return [ended] if failed else [*self._file_change_events(call), ended]

    def _file_change_events(self, call: ToolCall) -> Sequence[Event]:
        if call.kind not in _EDIT_KINDS and not call.diffs:
            return []
        new = as_object(as_object(call.output).get("metadata")).get("exists") is False
        found: dict[str, Change] = call.diffs or dict.fromkeys(call.paths, _ADDED if new else _MODIFIED)
        if call.kind == "delete":
            found = dict.fromkeys(found, _DELETED)
        return [FileChanged(path=path, change=self._written.pop(path, found[path]), id=call.id) for path in found]


def _state_again(known: Any, stated: Any) -> Any:
    """An input that was told before, with what is stated of it now: another subject takes the place of the first."""
    before, now = as_object(known), as_object(stated)
    if not before or not now:
        return stated or known
    fresh = {name: value for name, value in now.items() if value not in (None, "", [], {})}
    return {**(before if drop_subjects(fresh) == fresh else drop_subjects(before)), **fresh}


def _has_output(update: Mapping[str, Any]) -> bool:
    meta = as_object(update.get("_meta"))
    return bool(update.get("content") or update.get("rawOutput") or any(meta.get(field) for field in _STREAMED))


def _find_shown_input(call: ToolCall, update: Mapping[str, Any]) -> dict[str, Any]:
    """What the tool was given, where a request only shows it to a person: a change to a file, or JSON as text."""
    content = as_objects(update.get("content"))
    shown = next((each for each in content if each.get("type") == "diff"), None)
    if shown is None:
        text = as_object(content[0].get("content")).get("text") if content and call.kind in ("", "other") else None
        return _parse_object(text) if isinstance(text, str) else {}
    given = {"file_path": shown.get("path"), "old_text": shown.get("oldText"), "new_text": shown.get("newText")}
    return {name: str(value) for name, value in given.items() if value is not None}


def _parse_object(text: str) -> dict[str, Any]:
    try:
        return as_object(msgspec.json.decode(text))
    except DECODE_ERRORS:
        return {}
