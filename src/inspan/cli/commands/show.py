"""Show what is known of one run."""

import sys

import click
import msgspec

from inspan.cli.console import Console, cut
from inspan.cli.output import print_json
from inspan.cli.run_names import RunName
from inspan.engine.runs import find, settle
from inspan.reporters.calls import call_lines, described_calls
from inspan.reporters.text import visible
from inspan.stores.folder import read_json
from inspan.stores.paths import state_home


@click.command()
@click.argument("run", default="@last", type=RunName())
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(run: str, as_json: bool) -> None:
    """Show what is known of one run. RUN is an id, the beginning of one, or @last."""
    state = state_home()
    folder = find(state, run)
    summary = settle(state, folder)
    described = read_json(folder.file("run.json"))
    if as_json:
        print_json(
            run=described,
            folder=folder.path,
            started=msgspec.to_builtins(summary.started),
            ended=msgspec.to_builtins(summary.ended),
            output=summary.answer,
            calls=described_calls(summary),
        )
        return
    console = Console(sys.stdout)
    if summary.started:
        console.show(summary.started)
    click.echo(f"  prompt: {visible(cut(described['task']['prompt']))}\n  cwd: {described['task']['cwd']}")
    click.echo(f"  session: {summary.session_id or '-'}\n  folder: {folder.path}")
    for line in call_lines(summary):
        click.echo(f"  {visible(line)}")
    if summary.answer:
        click.echo(f"\n{visible(cut(summary.answer))}\n")
    if summary.ended:
        console.show(summary.ended)
    else:
        click.echo(f"  still running: inspan logs -f {folder.run_id}")
