"""Print what an agent itself has kept of a run's session."""

import sys

import click

from inspan.cli.console import Console
from inspan.cli.run_names import RunName
from inspan.engine.runs import find
from inspan.engine.transcripts import saved
from inspan.folds.summary import summarize
from inspan.protocol.wire import SCHEMA, encode
from inspan.stores.paths import state_home


@click.command()
@click.argument("run", default="@last", type=RunName("ended"))
@click.option("--json", "as_json", is_flag=True, help="Lines of JSON as `inspan events` prints them.")
def command(run: str, as_json: bool) -> None:
    """Print what an agent itself has kept of a run's session: all its turns, with their tokens.

    RUN is an id, the beginning of one, or @last.
    """
    state = state_home()
    kept = saved(state, find(state, run))
    if as_json:
        for number, event in enumerate(kept.events, 1):
            line = b'{"schema":%d,"transcript":true,"n":%d,"t":0.000,"event":%b}\n'
            sys.stdout.buffer.write(line % (SCHEMA, number, encode(event)))
        return
    console = Console(sys.stdout, lines=None)
    click.echo(f"▶ {kept.agent} session {kept.session_id} · {kept.place}")
    for event in kept.events:
        console.show(event)
    usage = summarize(kept.events).usage
    if usage:
        click.echo(f"  tokens: {usage.input} in, {usage.cache_read} cache read, {usage.output} out")
