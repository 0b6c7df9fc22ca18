"""Play a recording back without the agent's program."""

import sys
from collections.abc import Callable

import click

from inspan.cli.console import Console
from inspan.cli.output import apply_style, wants_colour
from inspan.protocol.events import Event, RunEnded
from inspan.protocol.reasons import FAILED, REASONS
from inspan.protocol.wire import SCHEMA, encode
from inspan.reporters.text import escape_controls
from inspan.runs.recordings import play
from inspan.stores.recording import Recording, read


@click.command()
@click.argument("file", type=click.Path())
@click.option(
    "--json", "as_json", is_flag=True, help="Lines of JSON as `inspan events` prints them, with `recording` true."
)
def command(file: str, as_json: bool) -> int:
    """Play a recording back without the agent's program: its events, then the verdict, and its exit code."""
    recorded = read(file)
    events = play(recorded)
    show = _show_json() if as_json else _show_text(file, recorded)
    code = FAILED
    for event in events:
        show(event)
        if isinstance(event, RunEnded):
            code = REASONS[event.reason].exit_code
    return code


def _show_json() -> Callable[[Event], None]:
    number = 0

    def show(event: Event) -> None:
        nonlocal number
        number += 1
        # A recording holds no times.
        line = b'{"schema":%d,"recording":true,"n":%d,"t":0.000,"event":%b}\n' % (SCHEMA, number, encode(event))
        sys.stdout.buffer.write(line)

    return show


def _show_text(file: str, recorded: Recording) -> Callable[[Event], None]:
    header, console = recorded.header, Console(sys.stdout, lines=None, every_warning=True)
    title = f"▶ recording {file} · {header.agent} {header.agent_version} · no program is started"
    sys.stdout.write(apply_style(escape_controls(title), "bold", colour=wants_colour(sys.stdout)) + "\n")
    return console.show
