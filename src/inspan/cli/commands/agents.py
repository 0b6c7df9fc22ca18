"""List the agents, or install one."""

from typing import Any

import click
import msgspec

from inspan.cli.output import columns, print_json
from inspan.contracts.driver import Driver
from inspan.engine.install import install
from inspan.engine.program import locate
from inspan.engine.registry import driver, drivers
from inspan.errors import AgentUnusable


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """List the agents, or install one."""
    if context.invoked_subcommand:
        return
    listed = [_described(each) for each in drivers()]
    if as_json:
        print_json(agents=listed)
        return
    heads = ("AGENT", "VERSION", "DEFAULT", "PROGRAM")
    click.echo(columns(heads, [tuple(str(each[head.lower()]) for head in heads) for each in listed]))


@command.command("install")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def install_command(name: str, as_json: bool) -> None:
    """Install an agent's program, pinned, into inspan's own folder."""
    found = install(driver(name))
    if as_json:
        print_json(agent=name, version=found.version, program=found.path)
    else:
        click.echo(f"{name} {found.version} at {found.path}")


def _described(each: Driver) -> dict[str, Any]:
    try:
        program = locate(each)
        version, path = program.version, program.path
    except AgentUnusable as error:
        version, path = "-", error.next_step
    return {
        "agent": each.name,
        "title": each.title,
        "version": version,
        "default": "yes" if each.default else "",
        "program": path,
        "capabilities": msgspec.structs.asdict(each.capabilities),
    }
