"""Print what an agent itself has kept of a run's session."""

import sys

import click

from inspan.cli.console import Console
from inspan.cli.output import print_words
from inspan.cli.run_names import RunName, pick_agent_run
from inspan.folds.summary import summarize
from inspan.planning.transcripts import load_transcript
from inspan.protocol.wire import SCHEMA, encode
from inspan.stores.paths import state_home


@click.command()
@click.argument("run", default="@last", type=RunName("ended"))
@click.option("--json", "as_json", is_flag=True, help="Lines of JSON as `inspan events` prints them.")
def command(run: str, as_json: bool) -> None:
    """Print what an agent itself has kept of a run's session: all its turns, with their tokens.

    RUN is a name that `ps` shows, an id, its beginning, @last or @2 (of this folder's project), @last-anywhere.
    """
    state = state_home()
    folder = pick_agent_run(state, run, as_json=as_json)
    kept = load_transcript(state, folder)
    if as_json:
        for number, event in enumerate(kept.events, 1):
            line = b'{"schema":%d,"transcript":true,"run_id":"%b","n":%d,"t":0.000,"event":%b}\n'
            sys.stdout.buffer.write(line % (SCHEMA, folder.run_id.encode(), number, encode(event)))
        return
    console = Console(sys.stdout, lines=None, every_warning=True)
    print_words(f"▶ {kept.agent} session {kept.session_id} · {kept.source}")
    for event in kept.events:
        console.show(event)
    usage = summarize(kept.events).usage
    if usage:
        print_words(f"  tokens: {usage.input} in, {usage.cache_read} cache read, {usage.output} out")
