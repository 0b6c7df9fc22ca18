"""Print the JSON Schema of what inspan writes."""

import click
import msgspec

from inspan.protocol.wire import json_schema


@click.command()
@click.argument("what", type=click.Choice(["events"]), default="events")
@click.option("--json", "as_json", is_flag=True, help="Has no effect: the output is always JSON.")
def command(what: str, as_json: bool) -> None:
    """Print the JSON Schema of what inspan writes."""
    click.echo(msgspec.json.format(msgspec.json.encode(json_schema()), indent=2))
