"""Events on the screen of the command line, for a run that is its only node: live at a terminal, else line by line.

What it shows comes from the log and is redacted already.
"""

import os
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from inspan.protocol.events import Event, RunEnded, TextSaid
from inspan.protocol.known_types import know_type
from inspan.protocol.wire import Record
from inspan.reporters.console import ConsoleReporter
from inspan.reporters.events import report_events
from inspan.reporters.left_edge import mark_text
from inspan.reporters.text import CUT, Cut, escape_controls, wants_colour
from inspan.reporters.text import truncate as truncate
from inspan.reporters.width import find_width
from inspan.stores.run_folder import RunFolder, read_json

from .run_names import choose_hint_name
from .streams import is_live
from .terminal_signals import held_terminal

if TYPE_CHECKING:
    from inspan.reporters.live_console import LiveConsole, LiveOptions
    from inspan.reporters.run_clock import LastMinute

LINES = 12
"""How much is shown of a tool's output, unless all is wanted."""

_IDLE_S = 0.5
_JUST_NOW_S = 2.0


class Console:
    """Shows the events of one run as they come. `lines` limits what is shown of a tool's output, `None` shows all, and
    `cut` any text. A failure is told once, unless `every_warning` is wanted.

    At a terminal there is a status line, where a `folder` says which run is followed. Use `hold_terminal` around it.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        lines: int | None = LINES,
        cut: Cut | None = None,
        every_warning: bool = False,
        folder: RunFolder | None = None,
        live: bool | None = None,
        stoppable: bool = False,
    ) -> None:
        self._stream = stream or sys.stderr
        self._folder = folder
        self._cut = cut or (cut_for(folder) if folder else CUT)
        self._live: LiveConsole | None = None
        self._last_minute: LastMinute | None = None
        if live if live is not None else is_live(self._stream):
            options = _collect_options(folder, lines=lines, every_warning=every_warning, stoppable=stoppable)
            self._live = _make_live_console(self._stream, msgspec.structs.replace(options, cut=self._cut))
        else:
            reporter = ConsoleReporter(stream=stream, lines=lines, alone=True, cut=self._cut)
            self._report = report_events(reporter, once=not every_warning)
            self._last_minute = _make_last_minute(folder) if folder else None

    def show(self, event: Event, *, at: float | None = None) -> None:
        """Prints what this event has to say, which may be nothing; `at` is when it was told."""
        whole = restore_text(event, self._folder) if self._folder else event
        if self._live:
            self._live.show(Record(number=0, at=at or 0.0, event=whole), timed=at is not None)
        else:
            self._report.show(whole)
            if at is not None:
                self._watch_time(Record(number=0, at=at, event=event))

    def skip(self, event: Event, at: float) -> None:
        """Takes an event in that is not to be shown: what follows is told with it in mind."""
        if self._live:
            self._live.skip(Record(number=0, at=at, event=event))
        elif self._last_minute:
            self._last_minute.add(Record(number=0, at=at, event=event))

    def tell_held(self) -> None:
        """There will be nothing more, also no end of the run: tells what was held for it."""
        if self._live:
            self._live.tell_held()
        else:
            self._report.tell_held()

    def show_answer(self, text: str) -> None:
        """Prints what an agent answered, of which nothing was shown yet."""
        if self._live:
            self.show(TextSaid(text=text))
        else:
            marked = mark_text(escape_controls(truncate(text, self._cut)), columns=find_width(self._stream))
            print(marked, file=self._stream, flush=True)

    @property
    def answer(self) -> str:
        """The answer of a run that has ended."""
        if self._live:
            return self._live.summary.answer
        return self._report.result.output if self._report.result else ""

    def tick(self) -> None:
        """There is nothing new: the clock goes on."""
        if self._live:
            self._live.tick()
        else:
            self._report.tick()
            self._watch_time()

    def _watch_time(self, record: Record | None = None) -> None:
        """Who has no status line is told when a minute is left."""
        if self._last_minute is None:
            return
        now = time.time()
        if record:
            self._last_minute.add(record)
            if now - record.at > _JUST_NOW_S:  # An old log is read: what became of the run comes next.
                return
        warning = self._last_minute.warn(now)
        if warning:
            self._report.tell(warning)

    def wait_s(self) -> float:
        """How long to wait for a record before the next `tick`."""
        return self._live.wait_s if self._live else _IDLE_S

    def hide(self) -> None:
        """Makes room for a question on the same terminal."""
        if self._live:
            self._live.hide()

    @contextmanager
    def hold_terminal(self) -> Generator[None]:
        """While it lasts, a job that is stopped leaves a clean terminal; after it, the status line is gone."""
        if self._live is None:
            yield
            return
        try:
            with held_terminal(self._live, self._stream):
                yield
        finally:
            self._live.close()


def cut_for(folder: RunFolder) -> Cut:
    """At most 50 KB of each text of a run, with the command that shows all of it."""
    return Cut(command=f"inspan logs --whole {choose_hint_name(folder)}")


def restore_text(event: Event, folder: RunFolder) -> Event:
    """What an agent said or a tool put out lies beside the log where it is large; here it is in its place."""
    large = {
        field: text
        for field in ("text", "output")
        if isinstance(text := getattr(event, field, ""), str) and text.startswith("[large: ")
    }
    if not large:
        return event
    from inspan.stores.large_text import restore_large_texts  # Start-up time: it loads the redaction, for few runs.

    return msgspec.structs.replace(event, **restore_large_texts(large, folder=folder.path))


def _make_live_console(stream: TextIO, options: "LiveOptions") -> "LiveConsole":
    # Start-up time: a pipe needs none of it.
    from inspan.reporters.live_console import LiveConsole
    from inspan.reporters.live_screen import LiveScreen, read_size

    screen = LiveScreen(stream, colour=wants_colour(stream), size=lambda: read_size(stream))
    return LiveConsole(screen, options)


def _make_last_minute(folder: RunFolder) -> "LastMinute":
    from inspan.reporters.run_clock import LastMinute  # Start-up time: a terminal has a status line.

    task = _read_task(folder)
    return LastMinute(_read_timeout(task), stays_open=bool(task.get("session")), prompted=bool(task.get("prompt")))


def _read_task(folder: RunFolder) -> dict[str, Any]:
    task: Any = read_json(folder.file("run.json")).get("task") or {}
    return task


def _read_timeout(task: Mapping[str, Any]) -> float | None:
    from inspan.protocol.limits import Limits  # Start-up time, as above.

    return msgspec.convert(task.get("limits") or {}, know_type(Limits)).timeout_s


def _collect_options(
    folder: RunFolder | None, *, lines: int | None, every_warning: bool, stoppable: bool
) -> "LiveOptions":
    from inspan.protocol.budget import Budget  # Start-up time, as above.
    from inspan.reporters.live_console import LiveOptions

    if folder is None:
        return LiveOptions(lines=lines, every_warning=every_warning, status=False)
    described = read_json(folder.file("run.json"))
    task: Any = described.get("task") or {}
    return LiveOptions(
        stays_open=bool(task.get("session")),
        prompted=bool(task.get("prompt")),
        timeout_s=_read_timeout(task),
        budget=msgspec.convert(task.get("budgets") or {}, know_type(dict[str, Budget])).get("run", Budget()),
        lines=lines,
        every_warning=every_warning,
        stoppable=stoppable,
        spins=os.environ.get("INSPAN_SPINNER") != "off",
        commands=partial(_list_commands, folder, agent=str(described.get("agent", "")), back=_choose_way_back(task))
        if stoppable
        else lambda ended: (),
    )


def _choose_way_back(task: Mapping[str, Any]) -> str:
    """Changes in the user's own folder can be undone; those in a worktree are still to be brought in."""
    from inspan.stores.paths import state_home  # Start-up time, as above.
    from inspan.stores.worktree import find_worktree

    return "apply" if find_worktree(state_home(), str(task.get("cwd", ""))) else "undo"


def _list_commands(folder: RunFolder, ended: RunEnded, *, agent: str, back: str) -> Sequence[str]:
    """What a person is likely to type after a run of this agent, of the commands that there are and that can work."""
    from inspan.planning.conversations import can_resume  # Start-up time: the run is over by now.
    from inspan.stores.snapshot import load_snapshot

    goes_back = ended.files_changed and load_snapshot(folder.path).after
    wanted = [
        ("diff", "inspan diff", ended.files_changed),
        (back, f"inspan {back}", goes_back),
        ("resume", 'inspan resume "…"', ended.session_id and ended.outcome == "completed" and can_resume(agent)),
    ]
    files = os.path.join(os.path.dirname(__file__), "commands")
    return [words for name, words, useful in wanted if useful and os.path.exists(os.path.join(files, f"{name}.py"))]
