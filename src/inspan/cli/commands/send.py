"""Say something to an open session, and follow the answer."""

import sys

import click

from inspan.cli.run_names import RunName, pick_agent_run
from inspan.cli.send_message import follow_message, print_sent, send_message
from inspan.errors import BadInput
from inspan.protocol.commands import Delivery
from inspan.stores.paths import state_home


@click.command()
@click.argument("run", type=RunName("living"))
@click.argument("message")
@click.option("--steer", is_flag=True, help="Into the running turn, where the agent can hear it.")
@click.option("--refuse", is_flag=True, help="Refuse the message while a turn is running; else it waits.")
@click.option("--no-wait", is_flag=True, help="Print the message's id and do not wait for the answer.")
@click.option("--json", "as_json", is_flag=True, help="Print every event as a line of JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the answer.")
@click.option("-v", "--verbose", is_flag=True, help="Print all output of tools, and every warning.")
def command(
    run: str, message: str, steer: bool, refuse: bool, no_wait: bool, as_json: bool, quiet: bool, verbose: bool
) -> int:
    """Say something to an open session, and follow the answer. MESSAGE of - reads it from stdin.

    RUN is a name that `ps` shows, an id, its beginning, @last or @2 (of this folder's project), @last-anywhere.
    """
    if steer and refuse:
        raise BadInput("--refuse", True, "--steer is given too.", next_step="Use one of them.")
    when: Delivery = "steer" if steer else "refuse" if refuse else "queue"
    state = state_home()
    folder = pick_agent_run(state, run, as_json=as_json or quiet)
    text = sys.stdin.buffer.read().decode(errors="replace") if message == "-" else message
    identity, after = send_message(folder, text, when=when)
    if no_wait:
        print_sent(folder, identity, as_json=as_json)
        return 0
    return follow_message(state, folder, identity, after=after, as_json=as_json, quiet=quiet, verbose=verbose)
