"""What Gemini CLI writes down of a session, and what can be read from it; the live stream tells some of it as well."""

import os.path
import re

import msgspec

from inspan.dialects.json_values import Json
from inspan.dialects.plans import plan_events
from inspan.protocol.events import (
    CommandExecuted,
    Event,
    FileChanged,
    ReasoningSaid,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
)
from inspan.protocol.usage import Usage

SHELL = "run_shell_command"
WRITERS = ("write_file", "replace")
# How the words for the model end when a command is over; an exit code of zero is not told.
COMMAND_END = re.compile(
    r"(?:\nExit Code: (?P<code>\d+))?(?:\nSignal: (?P<signal>[^\n]+))?(?:\nBackground PIDs: [\d, ]+)?"
    r"\nProcess Group PGID: \d+(?:\n</untrusted_context>)?\s*$"
)
_SHOWN_CODE = re.compile(r"Command exited with code: (\d+)")


class Thought(msgspec.Struct):
    """A part of its thinking, whose first words in bold it takes for a subject."""

    subject: str = ""
    description: str = ""


class Tokens(msgspec.Struct):
    """Tokens of one response. `input` includes the cached ones, `output` leaves out the thoughts."""

    input: int = 0
    output: int = 0
    cached: int = 0
    thoughts: int = 0
    tool: int = 0

    @property
    def usage(self) -> Usage:
        """The same in our words."""
        return Usage(
            input=max(0, self.input - self.cached) + self.tool,
            output=self.output + self.thoughts,
            cache_read=self.cached,
            reasoning=self.thoughts,
        )


def events_from_thoughts(thoughts: list[Thought]) -> list[Event]:
    """What it has thought, part by part."""
    return [ReasoningSaid(text=text) for thought in thoughts if (text := _format_thought(thought))]


def command_events(id: str, command: str, *, model_text: str, display_text: str) -> list[Event]:
    """A command that has ended, its exit code read from the end of `model_text`, else from `display_text`.

    The program calls it a success whatever its exit code.
    """
    ended, seen = COMMAND_END.search(model_text), _SHOWN_CODE.fullmatch(display_text)
    code = int(seen[1]) if seen else None
    if ended:
        code = None if ended["signal"] else int(ended["code"] or 0)
    end = ToolFailed if code or (ended and ended["signal"]) else ToolCompleted
    return [end(id=id, name=SHELL, output=display_text), CommandExecuted(id=id, command=command, exit_code=code)]


def file_change_events(id: str, path: str, *, created: bool) -> list[Event]:
    """The file that a tool has written, by its full path."""
    return [FileChanged(path=os.path.normpath(path), change="added" if created else "modified", id=id)] if path else []


def tool_start_events(id: str, name: str, given: Json) -> list[Event]:
    """The start of a call, and the plan that it writes down with its own tool for it."""
    plan = plan_events(given.get("todos"), text="description") if name == "write_todos" else []
    return [ToolStarted(id=id, name=name, input=given), *plan]


def _format_thought(thought: Thought) -> str:
    subject = f"**{thought.subject}**" if thought.subject else ""
    return "\n".join(part for part in (subject, thought.description) if part)
