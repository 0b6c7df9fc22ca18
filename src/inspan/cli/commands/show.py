"""Show what is known of one run."""

import shlex
import sys
import time

import click
import msgspec

from inspan.cli.console import Console, truncate
from inspan.cli.output import print_json
from inspan.cli.run_names import RunName, choose_hint_name, pick_run
from inspan.folds.costs import read_run_cost
from inspan.protocol.ids import make_short_name
from inspan.reporters.call_summary import calls_to_dict, format_calls
from inspan.reporters.left_edge import mark_text
from inspan.reporters.states import format_live_state
from inspan.reporters.text import escape_controls, one_line
from inspan.reporters.width import find_width
from inspan.runs.find import refresh_run
from inspan.runs.names import read_own_name
from inspan.runs.undo import UndoRecord, read_undo_records
from inspan.stores.paths import state_home
from inspan.stores.run_folder import read_json


@click.command()
@click.argument("run", default="@last", type=RunName())
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(run: str, as_json: bool) -> None:
    """Show what is known of one run.

    RUN is a name that `ps` shows, an id, its beginning, @last or @2 (of this folder's project), @last-anywhere.
    """
    state = state_home()
    folder = pick_run(state, run, as_json=as_json)
    summary, live = refresh_run(state, folder)
    described = read_json(folder.file("run.json"))
    undone = read_undo_records(folder)
    if as_json:
        print_json(
            run=described,
            name=read_own_name(folder),
            short=make_short_name(folder.run_id),
            folder=folder.path,
            started=msgspec.to_builtins(summary.started),
            ended=msgspec.to_builtins(summary.ended),
            output=summary.answer,
            calls=calls_to_dict(summary),
            **read_run_cost(summary).to_fields(),
            state=live,
            undo=undone,
        )
        return
    console = Console(sys.stdout)
    if summary.started:
        console.show(summary.started)
    click.echo(f"  prompt: {escape_controls(truncate(described['task']['prompt']))}")
    click.echo(f"  cwd: {one_line(described['task']['cwd'])}")
    own = read_own_name(folder)
    click.echo(f"  name: {f'{own} or ' if own else ''}{make_short_name(folder.run_id)}")
    click.echo(f"  session: {one_line(summary.session_id) or '-'}\n  folder: {one_line(folder.path)}")
    for line in format_calls(summary):
        click.echo(f"  {escape_controls(line)}")
    if summary.answer:
        answer = escape_controls(truncate(summary.answer))
        click.echo(f"\n{mark_text(answer, columns=find_width(sys.stdout))}\n")
    if summary.ended:
        console.show(summary.ended)
        if undone:
            click.echo(f"  {_format_undo(undone[-1])}")
    elif live:
        click.echo(f"{format_live_state(live)}\n  still running: inspan logs -f {choose_hint_name(folder)}")
        for question in live.questions:
            name = escape_controls(shlex.quote(question))
            click.echo(f"  → `inspan approve {name}` or `inspan deny {name}`")


def _format_undo(record: UndoRecord) -> str:
    what = "changes undone" if record.direction == "undo" else "changes brought in again"
    files = "1 file" if record.files == 1 else f"{record.files} files"
    return f"{what} at {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(record.at))} ({files})"
