"""The tool calls of a turn: what is told of one bit by bit, put together into when it began and how it ended."""

import os.path
from collections.abc import Mapping, Sequence
from typing import Any

from inspan.protocol.events import (
    Change,
    CommandExecuted,
    Event,
    FileChanged,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
)

from .call import Call, command_of, exit_code_of, found_in, in_meta, output_of
from .settings import mapping, mappings
from .speaker import Beside, Habits

# What agents call the tool that runs a command, where they do not say that it does.
_SHELLS = frozenset({"shell", "bash", "exec_command", "run_shell_command", "execute_command", "run_command"})
_ENDS = frozenset({"completed", "failed"})
_CHANGING = frozenset({"edit", "delete", "move"})
_ADDED: Change = "added"
_MODIFIED: Change = "modified"
_DELETED: Change = "deleted"


class Calls:
    """The open calls of a turn. Feed it every update; it gives the events that follow."""

    def __init__(self, *, habits: Habits) -> None:
        self.cwd = "/"
        self._habits = habits
        self._open: dict[str, Call] = {}
        self._ended: set[str] = set()
        self._waiting: dict[str, tuple[Call, bool]] = {}
        self._written: dict[str, Change] = {}

    def told(self, update: Mapping[str, Any]) -> list[Event]:
        """Takes in what an update says of a call."""
        identity = str(update.get("toolCallId") or "")
        if identity in self._ended:
            return []
        call = self._known(identity, update)
        self._take_output(call, update)
        status = update.get("status")
        # A call that is pending may have but a part of its input so far.
        known = call.input and (status != "pending" or update.get("sessionUpdate") != "tool_call")
        events = self._start(call) if known or status in (*_ENDS, "in_progress") else []
        if status not in _ENDS:
            return events
        del self._open[call.id]
        self._ended.add(call.id)
        if self._habits.waits:
            self._waiting[call.id] = (call, status == "failed")
            return events
        return [*events, *self._end(call, failed=status == "failed")]

    def told_beside(self, told: Beside) -> list[Event]:
        """What came of a call that has ended, where more is told of it than the protocol does."""
        if told.id not in self._waiting:
            return []
        call, failed = self._waiting.pop(told.id)
        shown = told.exit_code is None and output_of(call)
        if told.output is not None and not shown:
            call.output, call.texts = told.output, []
        call.exit_code = told.exit_code if told.exit_code is not None else call.exit_code
        return self._end(call, failed=failed)

    def settle(self) -> list[Event]:
        """The ends of calls of which nothing more will be told."""
        waiting, self._waiting = self._waiting, {}
        return [event for call, failed in waiting.values() for event in self._end(call, failed=failed)]

    def asked(self, update: Mapping[str, Any]) -> tuple[Call, list[Event]]:
        """Takes in what a request for permission says of its call, which has begun by then."""
        identity = str(update.get("toolCallId") or "")
        if identity in self._open and self._open[identity].input:
            # Its input is known; some show another form of it here, to be looked at by a person.
            update = {name: value for name, value in update.items() if name != "rawInput"}
        call = self._known(identity, update)
        return call, self._start(call)

    def wrote(self, path: str, change: Change) -> None:
        """A file was written for the agent; the call that it belongs to tells of it, or else the turn's end."""
        self._written.setdefault(path, change)

    def finish(self) -> list[Event]:
        """What is left to tell when the turn is over: refused calls of which nothing more came, and written files."""
        settled = self.settle()
        refused: list[Event] = [
            ToolFailed(id=call.id, name=call.name, output=call.refusal, denied=True)
            for call in self._open.values()
            if call.refusal
        ]
        written: list[Event] = [FileChanged(path=path, change=change) for path, change in self._written.items()]
        self._open, self._written = {}, {}
        return [*settled, *refused, *written]

    def _known(self, identity: str, update: Mapping[str, Any]) -> Call:
        call = self._open.setdefault(identity, Call(identity))
        name = self._name(update)
        if name and not call.started and (not call.name or update.get("sessionUpdate") == "tool_call"):
            call.name = name
        call.kind = str(update.get("kind") or call.kind)
        call.title = str(update.get("title") or call.title)
        if call.kind in ("", "other"):
            call.kind = self._habits.kinds.get(call.name, "execute" if call.name.lower() in _SHELLS else call.kind)
        if update.get("rawInput") and not call.started:
            call.input = update["rawInput"]
        self._take_meta(call, mapping(update.get("_meta")))
        self._take_places(call, update)
        return call

    def _name(self, update: Mapping[str, Any]) -> str:
        if self._habits.tool_name and (found := self._habits.tool_name(update)):
            return found
        named = update.get("name") or in_meta(update, "toolName")
        return str(named or update.get("title") or update.get("kind") or "")

    def _take_meta(self, call: Call, meta: Mapping[str, Any]) -> None:
        for field in ("terminal_output_delta", "terminal_output"):
            if data := mapping(meta.get(field)).get("data"):
                call.streamed.append(str(data))
        code = mapping(meta.get("terminal_exit")).get("exit_code")
        call.exit_code = code if isinstance(code, int) else call.exit_code
        call.parent = call.parent or str(found_in(meta, "parentToolUseId") or "")

    def _take_output(self, call: Call, update: Mapping[str, Any]) -> None:
        if "rawOutput" in update and update["rawOutput"] is not None:
            call.output = update["rawOutput"]
        content = mappings(update.get("content"))
        texts = [str(inner["text"]) for each in content if (inner := mapping(each.get("content"))).get("text")]
        if texts:
            call.texts = texts

    def _take_places(self, call: Call, update: Mapping[str, Any]) -> None:
        for each in mappings(update.get("content")):
            if each.get("type") == "diff" and each.get("path"):
                call.diffs[self._whole(each["path"])] = "modified" if each.get("oldText") else "added"
        if locations := [self._whole(each["path"]) for each in mappings(update.get("locations")) if each.get("path")]:
            call.paths = locations

    def _whole(self, path: object) -> str:
        return os.path.normpath(os.path.join(self.cwd, str(path)))

    def _start(self, call: Call) -> list[Event]:
        if call.started:
            return []
        call.started = True
        if not call.input and call.kind == "execute" and call.title:
            call.input = {"command": call.title}  # Some tell it only as the title of the call.
        return [ToolStarted(id=call.id, name=call.name, input=call.input or None, parent=call.parent)]

    def _end(self, call: Call, *, failed: bool) -> list[Event]:
        output = output_of(call)
        command = command_of(call)
        code = exit_code_of(call, output)
        if code is None and not failed and self._habits.zero_if_done:
            code = 0
        if self._habits.trailer and command is not None:
            output = self._habits.trailer.sub("", output)
        failed = failed or (command is not None and bool(code))
        if call.refusal or (self._habits.refused and self._habits.refused.match(output)):
            return [ToolFailed(id=call.id, name=call.name, output=output or call.refusal, denied=True)]
        ended = (ToolFailed if failed else ToolCompleted)(id=call.id, name=call.name, output=output)
        if command is not None:
            return [ended, CommandExecuted(id=call.id, command=command, exit_code=code)]
        return [ended] if failed else [*self._changed(call), ended]

    def _changed(self, call: Call) -> Sequence[Event]:
        if call.kind not in _CHANGING and not call.diffs:
            return []
        new = mapping(mapping(call.output).get("metadata")).get("exists") is False
        found: dict[str, Change] = call.diffs or dict.fromkeys(call.paths, _ADDED if new else _MODIFIED)
        if call.kind == "delete":
            found = dict.fromkeys(found, _DELETED)
        return [FileChanged(path=path, change=self._written.pop(path, found[path]), id=call.id) for path in found]
