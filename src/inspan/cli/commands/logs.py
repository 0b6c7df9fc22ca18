"""Print a run's events as text."""

import codecs
import os
import sys
from collections.abc import Callable, Mapping
from typing import TextIO

import click

from inspan.cli.console import Console, cut_for, restore_text
from inspan.cli.follow import follow_run, print_record
from inspan.cli.run_names import RunName, pick_agent_run, pick_run
from inspan.protocol.events import RunEnded
from inspan.protocol.reasons import REASONS
from inspan.protocol.wire import Record
from inspan.reporters.text import WHOLE, escape_controls
from inspan.runs.find import refresh_summary
from inspan.stores.event_log import iter_log
from inspan.stores.paths import open_nonblocking, state_error, state_home
from inspan.stores.run_folder import RunFolder

# The agent's own outputs, and where they go; by functions, for whoever has put another stream in place.
_RAW: Mapping[str, Callable[[], TextIO]] = {"stdout": lambda: sys.stdout, "stderr": lambda: sys.stderr}


@click.command()
@click.argument("run", default="@last", type=RunName())
@click.option("-f", "--follow", is_flag=True, help="Follow until the run ends; exit with its exit code.")
@click.option("--raw", is_flag=True, help="The agent's own stdout and stderr, redacted.")
@click.option("--whole", is_flag=True, help="Texts and outputs of any size; without it, 50 KB of each.")
@click.option("--json", "as_json", is_flag=True, help="As `inspan events` prints it.")
def command(run: str, follow: bool, raw: bool, whole: bool, as_json: bool) -> int:
    """Print a run's events as text.

    RUN is a name that `ps` shows, an id, its beginning, @last or @2 (of this folder's project), @last-anywhere.
    """
    state = state_home()
    pick = pick_agent_run if raw else pick_run
    folder = pick(state, run, as_json=as_json or raw)  # Raw, stderr is the agent's own.
    if raw:
        return _follow_raw(state, folder) if follow else _print_raw(folder)
    if follow:
        ended = follow_run(state, folder, show=print_record) if as_json else _follow_text(state, folder, whole=whole)
        return REASONS[ended.reason].exit_code
    refresh_summary(state, folder)
    if as_json:
        for record in iter_log(folder.log):
            print_record(record)
    else:
        _print_text(folder, whole=whole)
    return 0


def _print_text(folder: RunFolder, *, whole: bool) -> None:
    console = Console(sys.stdout, lines=None, cut=WHOLE if whole else cut_for(folder))
    show = _make_printer(console, folder)
    for record in iter_log(folder.log):
        show(record)
    console.tell_held()


def _follow_text(state: str, folder: RunFolder, *, whole: bool) -> RunEnded:
    console = Console(sys.stdout, lines=None, folder=folder, cut=WHOLE if whole else None)
    with console.hold_terminal():
        show = _make_printer(console, folder)
        return follow_run(state, folder, show=show, on_idle=console.tick, wait_s=console.wait_s)


def _make_printer(console: Console, folder: RunFolder) -> Callable[[Record], None]:
    return lambda record: console.show(restore_text(record.event, folder), at=record.at)


def _print_raw(folder: RunFolder) -> int:
    for name, stream in _RAW.items():
        _copy_from(folder.file(name), stream(), offset=0)
    return 0


def _follow_raw(state: str, folder: RunFolder) -> int:
    """Copies both files as they grow, until the run has ended; then all of them is there."""
    offsets = dict.fromkeys(_RAW, 0)

    def copy(record: Record | None = None) -> None:
        for name, stream in _RAW.items():
            if os.path.exists(folder.file(name)):  # Those of a run that is still starting come later.
                offsets[name] = _copy_from(folder.file(name), stream(), offset=offsets[name])

    ended = follow_run(state, folder, show=copy, on_idle=copy)
    copy()
    return REASONS[ended.reason].exit_code


def _copy_from(path: str, stream: TextIO, *, offset: int) -> int:
    """Prints a file from there on; gives how far that was. A terminal gets marks for what it would obey."""
    clean = codecs.getincrementaldecoder("utf-8")("replace").decode if stream.isatty() else None
    try:
        with open(path, "rb", opener=open_nonblocking) as file:
            file.seek(offset)
            while piece := file.read(1 << 20):
                stream.buffer.write(escape_controls(clean(piece)).encode() if clean else piece)
                offset += len(piece)
    except OSError as error:
        raise state_error(path, error) from error
    stream.flush()
    return offset
