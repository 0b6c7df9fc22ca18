"""Show what is known of one run."""

import shlex
import sys
import time

import click
import msgspec

from inspan.cli.console import Console, cut_for, truncate
from inspan.cli.output import print_json, print_words
from inspan.cli.run_names import RunName, choose_hint_name, pick_run
from inspan.protocol.events import RunEnded
from inspan.protocol.ids import make_short_name
from inspan.reporters.call_summary import format_calls
from inspan.reporters.states import format_live_state
from inspan.reporters.text import escape_controls, one_line
from inspan.runs.find import refresh_run
from inspan.runs.names import read_own_name
from inspan.runs.relations import read_continuing
from inspan.runs.undo import UndoRecord, read_undo_records
from inspan.stores.paths import state_home
from inspan.stores.run_folder import RunFolder, read_json


@click.command()
@click.argument("run", default="@last", type=RunName())
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(run: str, as_json: bool) -> None:
    """Show what is known of one run.

    RUN is a name that `ps` shows, an id, its beginning, @last or @2 (of this folder's project), @last-anywhere.
    """
    state = state_home()
    folder = pick_run(state, run, as_json=as_json)
    if as_json:
        from inspan.client.runs import describe_run  # Start-up time: it brings all that a client can do with a run.

        print_json(**msgspec.structs.asdict(describe_run(state, folder)))
        return
    summary, live = refresh_run(state, folder)
    described = read_json(folder.file("run.json"))
    undone = read_undo_records(folder)
    console = Console(sys.stdout, cut=cut_for(folder))
    if summary.started:
        console.show(summary.started)
    print_words(f"  prompt: {escape_controls(truncate(described['task']['prompt']))}")
    print_words(f"  cwd: {one_line(described['task']['cwd'])}")
    own = read_own_name(folder)
    print_words(f"  name: {f'{own} or ' if own else ''}{make_short_name(folder.run_id)}")
    print_words(f"  session: {one_line(summary.session_id) or '-'}\n  folder: {one_line(folder.path)}")
    for line in format_calls(summary):
        print_words(f"  {escape_controls(line)}")
    if summary.answer:
        from inspan.stores.large_text import restore_large_texts  # Start-up time: it loads the redaction.

        print_words("")
        console.show_answer(restore_large_texts(summary.answer, folder=folder.path))
        print_words("")
    if summary.ended:
        console.show(msgspec.structs.replace(summary.ended, next=_choose_next_step(state, folder, summary.ended)))
        if undone:
            print_words(f"  {_format_undo(undone[-1])}")
    elif live:
        print_words(f"{format_live_state(live)}\n  still running: inspan logs -f {choose_hint_name(folder)}")
        for question in live.questions:
            name = escape_controls(shlex.quote(question))
            print_words(f"  → `inspan approve {name}` or `inspan deny {name}`")


def _choose_next_step(state: str, folder: RunFolder, ended: RunEnded) -> str:
    """What its own log could not know: somebody goes on with it, or it is not for everybody to go on with."""
    if known := read_continuing(folder):
        return f"{known} goes on with it: `inspan show {known}`."
    if ended.outcome != "lost":
        return ended.next
    from inspan.cli.lost_work import describe_owner  # Start-up time: few runs are lost.

    return describe_owner(state, folder) or ended.next


def _format_undo(record: UndoRecord) -> str:
    what = "changes undone" if record.direction == "undo" else "changes brought in again"
    files = "1 file" if record.files == 1 else f"{record.files} files"
    return f"{what} at {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(record.at))} ({files})"
