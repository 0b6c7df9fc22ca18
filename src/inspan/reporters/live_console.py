"""The events of a run on a terminal: what scrolls, and a status line below it that is always true.

What it shows comes from a log and is redacted already. The log keeps everything; only what is shown here is folded.
"""

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from inspan.folds.live_state import LiveStateFold
from inspan.folds.summary import Summary
from inspan.protocol.budget import Budget
from inspan.protocol.events import (
    CommandExecuted,
    EndingBegan,
    ErrorReported,
    Event,
    FileChanged,
    MessageEnded,
    ModelCallEnded,
    RateLimited,
    RunEnded,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnFailed,
)
from inspan.protocol.ids import make_short_name
from inspan.protocol.wire import Record

from .ending import format_ending, wrap_segments
from .events import build_node_result
from .held_warnings import HeldWarnings
from .live_screen import LiveScreen, Span
from .markdown import MarkdownStream, PlainStream
from .narration import Narrator, TextChunk
from .prose import wrap_words
from .run_clock import RunClock
from .status_line import RunFigures, format_status
from .styles import format_chunk
from .text import CUT, Cut, Truncator, truncate, truncation_note
from .tool_lines import (
    ToolLine,
    describe_tool,
    fit_title,
    format_output,
    format_patch,
    has_failed,
    pad_ending,
    shorten_path,
)
from .tool_lines import format_ending as format_tool_ending
from .word_wrap import WordWrap

_IDLE_S = 0.5
_TURN_S = 0.25
# The exit code of a command is told right behind its end. So long it is waited for.
_EXIT_CODE_S = 10.0


class LiveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the console cannot know from events: how the run was asked for, and what its reader wants.

    `lines=None` shows every line of output, `cut` limits any text; a failure is told once, unless `every_warning` is
    wanted. `commands` gives what can be typed after the run, by its last event. Without `status` there is no status
    line, for runs that are over. With `spins`, something in it moves.
    """

    stays_open: bool = False
    prompted: bool = True
    timeout_s: float | None = None
    budget: Budget = Budget()
    lines: int | None = 12
    cut: Cut = CUT
    every_warning: bool = False
    status: bool = True
    spins: bool = False
    stoppable: bool = True
    commands: Callable[[RunEnded], Sequence[str]] = lambda ended: ()


class LiveConsole:
    """Show it every record in order, and `tick` it when there is none; `close` takes the status line away.

    Raises what the terminal raises.
    """

    def __init__(
        self, screen: LiveScreen, options: LiveOptions | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._screen = screen
        self._options = options or LiveOptions()
        self._clock = clock
        self._summary = Summary()
        self._state = LiveStateFold(stays_open=self._options.stays_open, prompted=self._options.prompted)
        self._narrator = Narrator()
        stream = MarkdownStream if screen.has_colours else PlainStream
        self._markdown = stream(columns=lambda: screen.columns)
        self._words = WordWrap(screen)
        self._truncator = Truncator(self._options.cut)
        self._tools: dict[str, ToolLine] = {}
        self._titles: dict[str, str] = {}
        self._open_tool = ""
        self._last_tool = ""
        self._ended_tool: tuple[ToolCompleted | ToolFailed, float | None, float] | None = None
        self._held = HeldWarnings(clock=clock)
        self._run_clock = RunClock(self._options.timeout_s, self._state)
        self._ending = False
        self._over = False
        self._depth = 0
        self._interjections: list[Callable[[], None]] = []

    @property
    def summary(self) -> Summary:
        """What the run has come to so far."""
        return self._summary

    @property
    def wait_s(self) -> float:
        """How long nothing has to be done, unless there is another record."""
        if self._options.status and self._screen.lacks_status:
            return self._screen.due_s
        return _TURN_S if self._spins else _IDLE_S

    @property
    def _spins(self) -> bool:
        state = self._state.state
        moves = state.status in ("starting", "working") and state.waits_for != "model"
        return self._options.spins and self._options.status and moves

    @property
    def _cwd(self) -> str:
        return self._summary.started.cwd if self._summary.started else ""

    def show(self, record: Record, *, timed: bool = True) -> None:
        """Takes the next record; `timed` says whether its moment is that of the event."""
        self.skip(record)
        with self._drawing():
            self._show(record.event, record.at, timed=timed)
            self._draw()

    def _show(self, event: Event, at: float, *, timed: bool) -> None:
        if self._ended_tool and not self._is_exit_code(event):
            self._end_tool(None)
        handler = _HANDLERS.get(type(event))
        for chunk in self._narrator.narrate(event):
            self._show_chunk(chunk, told=handler is not None)
        if handler:
            handler(self, event, at if timed else None)
        elif isinstance(event, MessageEnded):
            self._held.take()  # It has said what became of them.

    def skip(self, record: Record) -> None:
        """Takes a record in and shows nothing of it."""
        self._summary.add(record.event)
        self._state.add(record)
        self._run_clock.add(record)

    def tick(self) -> None:
        """Nothing new has come: shows what has waited for more, and the time."""
        with self._drawing():
            if self._ended_tool and self._clock() - self._ended_tool[2] > _EXIT_CODE_S:
                self._end_tool(None)
            self._draw()

    def hide(self) -> None:
        """Makes room for somebody else who writes to this terminal."""
        with self._drawing():
            self._leave_tool()
            self._screen.end_line()
            self._screen.erase()
            self._screen.flush()

    def close(self) -> None:
        """Nothing more is shown; what was held back is."""
        self._over = True
        with self._drawing():
            self._end_tool(None)
            self._show_chunk(TextChunk("\n", "piece_end"), told=False)
            self.hide()

    def interject(self, write: Callable[[], None]) -> None:
        """Lets a signal handler write lines of its own: at once, or when what is being drawn is whole.

        `write` must erase what is below the cursor and leave the cursor at the beginning of a row.
        """
        self._interjections.append(partial(self._give_way, write))
        self._run_interjections()

    def take_resize(self, write: Callable[[bytes], object]) -> None:
        """The terminal has another size, as a signal handler says: the status is taken away past every buffer, before
        further sizes spread it over so many rows that it cannot be found."""
        self._interjections.append(partial(self._screen.erase_at_once, write))
        self._run_interjections()

    def tell_held(self) -> None:
        """There will be no end of the run: tells what was held for it."""
        with self._drawing():
            self._flush_warnings()
            self._draw()

    @contextmanager
    def _drawing(self) -> Generator[None]:
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self._run_interjections()

    def _run_interjections(self) -> None:
        while self._interjections and not self._depth:
            self._interjections.pop(0)()

    def _give_way(self, write: Callable[[], None]) -> None:
        write()
        self._open_tool = self._last_tool = ""
        self._screen.forget_status()

    def _draw(self) -> None:
        began_at = self._run_clock.began_at
        if self._options.status and not self._over and self._screen.may_draw:
            self._screen.draw(
                format_status(
                    self._state.state,
                    self._collect_figures(),
                    # All clocks of the line go on at the same moment, once a second.
                    now=began_at + int(max(0.0, self._clock() - began_at)),
                    columns=self._screen.columns,
                    cwd=self._cwd,
                    ending=self._ending,
                    stoppable=self._options.stoppable,
                    turn=int(self._clock() / _TURN_S) if self._options.spins else None,
                )
            )
        self._screen.flush()

    def _collect_figures(self) -> RunFigures:
        used, budget = self._summary.spent, self._options.budget
        return RunFigures(
            began_at=self._run_clock.began_at,
            tokens=used.total if used else None,
            cost_usd=self._summary.cost.usd,
            calls=self._summary.calls,
            ends_at=self._run_clock.ends_at,
            budget_usd=budget.usd,
            budget_tokens=budget.tokens,
            budget_calls=budget.calls,
        )

    def _show_chunk(self, chunk: TextChunk, *, told: bool) -> None:
        """What the narrator says; of an event that has a handler here, only that a text before it has ended."""
        if chunk.kind == "piece":
            self._leave_tool()
            self._flush_warnings()
            self._write_text(self._truncator.truncate(chunk))
        elif chunk.kind == "piece_end":
            self._end_text()
        elif chunk.kind == "text":
            self._leave_tool()
            self._flush_warnings()
            self._screen.end_line()
            self._write_text(truncate(chunk.removesuffix("\n"), self._options.cut))
            self._write_spans(self._markdown.end())
            self._screen.end_line()
        elif not told:
            self._leave_tool()
            for text, style in format_chunk(chunk, lines=self._options.lines, cut=self._options.cut):
                self._screen.write_line((self._wrap_facts(text) if chunk.kind == "start" else text, style))

    def _write_text(self, text: str) -> None:
        """What the agent says; where nothing can look bold, the marks are better than nothing."""
        self._write_spans(self._markdown.feed(text))

    def _write_spans(self, spans: Iterable[Span]) -> None:
        for span in spans:
            write = self._words.write_verbatim if self._markdown.is_verbatim else self._words.write
            write(span)

    def _wrap_facts(self, text: str) -> str:
        """The first lines of a run are facts with dots between them: each stays whole, if a line has room for it."""
        columns = self._screen.columns
        rows = "\n".join(wrap_segments(line.split(" · "), columns=columns) for line in text.split("\n"))
        return "\n".join(wrap_words(row, columns=columns) for row in rows.split("\n"))

    def _end_text(self) -> None:
        self._write_spans(self._markdown.end())
        if self._truncator.missing_bytes:
            self._screen.write_line((truncation_note(self._truncator.missing_bytes, self._options.cut), "dim"))
        self._truncator = Truncator(self._options.cut)
        if not self._open_tool:
            self._screen.end_line()

    def _leave_tool(self) -> None:
        """Something else is written: the line of the tool at work is not the last any more."""
        if self._open_tool:
            self._screen.end_line()
        self._open_tool = self._last_tool = ""

    def on_tool_started(self, event: ToolStarted, at: float | None) -> None:
        self._flush_warnings()
        self._leave_tool()
        line = describe_tool(event, cwd=self._cwd, at=at)
        self._tools[event.id], self._titles[event.id] = line, line.title
        self._screen.end_line()
        self._screen.write((fit_title(line.title, self._screen.columns), "cyan"))
        self._open_tool = self._last_tool = event.id

    def on_tool_ended(self, event: ToolCompleted | ToolFailed, at: float | None) -> None:
        self._ended_tool = event, at, self._clock()
        line = self._tools.get(event.id)
        if line is None or not line.is_command:
            self._end_tool(None)

    def on_command_executed(self, event: CommandExecuted, at: float | None) -> None:
        if self._ended_tool and self._ended_tool[0].id == event.id:
            self._end_tool(event.exit_code)

    def _is_exit_code(self, event: object) -> bool:
        return (
            isinstance(event, CommandExecuted) and self._ended_tool is not None and (event.id == self._ended_tool[0].id)
        )

    def _end_tool(self, exit_code: int | None) -> None:
        if self._ended_tool is None:
            return
        (event, at, _), self._ended_tool = self._ended_tool, None
        line = self._tools.pop(event.id, None) or ToolLine(event.name, False, None, None)
        failed, denied = has_failed(event, exit_code), isinstance(event, ToolFailed) and event.denied
        ending, style = format_tool_ending(line, failed=failed, denied=denied, exit_code=exit_code, at=at)
        is_open = self._open_tool == event.id
        padded = pad_ending(ending, column=self._screen.column, columns=self._screen.columns) if is_open else ""
        if padded:
            self._screen.write((padded, style))
        elif ending:
            name = "" if self._last_tool == event.id else f"└ {fit_title(line.title, self._screen.columns)[2:]}  "
            self._screen.write_line((f"  {name}{ending}", style))
        self._screen.end_line()
        self._open_tool = self._last_tool = ""
        self._write_result(event.output, line, failed=failed)

    def _write_result(self, output: str, line: ToolLine, *, failed: bool) -> None:
        columns, lines = self._screen.columns, self._options.lines
        spans = format_output(output, failed=failed, lines=lines, columns=columns, cut=self._options.cut)
        if line.patch and not failed:
            spans = format_patch(line.patch, lines=lines, columns=columns)
        for span in spans:
            self._screen.write_line(span)

    def on_file_changed(self, event: FileChanged, at: float | None) -> None:
        """Told where no tool's title has named the file."""
        path = shorten_path(event.path, self._cwd)
        if path not in self._titles.get(event.id, ""):
            self._leave_tool()
            self._screen.write_line((f"  {event.change} {path}", "green"))

    def on_warning(self, event: ErrorReported | RateLimited | TurnFailed | ModelCallEnded, at: float | None) -> None:
        """What may be the beginning of a failure waits: the run's end tells it once, what goes on tells it before."""
        for chunk in Narrator().narrate(event):
            if self._options.every_warning:
                self._held.note(event)
                self._leave_tool()
                self._screen.write_line((chunk.removesuffix("\n"), "yellow"))
            else:
                self._held.hold(event, chunk)

    def _flush_warnings(self) -> None:
        """The agent goes on: what went wrong before is told in one line each."""
        for chunk in self._held.take():
            self._leave_tool()
            self._screen.write_line((truncate(chunk.removesuffix("\n")), "yellow"))

    def on_ending_began(self, event: EndingBegan, at: float | None) -> None:
        self._ending = True

    def _name_run(self, text: str) -> str:
        """A sentence with the name in it that people type for this run."""
        started = self._summary.started
        return text.replace(started.run_id, started.name or make_short_name(started.run_id)) if started else text

    def on_run_ended(self, event: RunEnded, at: float | None) -> None:
        problem = self._held.settle(event, self._summary.failure)
        self._flush_warnings()
        self._over = True
        self._leave_tool()
        self._screen.end_line()
        self._screen.erase()
        if not self._screen.is_clear:
            self._screen.write_line()
        result = build_node_result(self._summary, event)
        for span in format_ending(
            replace(result, error=self._name_run(problem or result.error)),
            has_words=bool(problem),
            commands=self._options.commands(event),
            columns=self._screen.columns,
        ):
            self._screen.write_line(span)


_HANDLERS: dict[type, Callable[[LiveConsole, Any, float | None], None]] = {
    ToolStarted: LiveConsole.on_tool_started,
    ToolCompleted: LiveConsole.on_tool_ended,
    ToolFailed: LiveConsole.on_tool_ended,
    CommandExecuted: LiveConsole.on_command_executed,
    FileChanged: LiveConsole.on_file_changed,
    ModelCallEnded: LiveConsole.on_warning,
    ErrorReported: LiveConsole.on_warning,
    RateLimited: LiveConsole.on_warning,
    TurnFailed: LiveConsole.on_warning,
    EndingBegan: LiveConsole.on_ending_began,
    RunEnded: LiveConsole.on_run_ended,
}
