"""Log in with an agent's own program."""

import sys

import click

from inspan.cli.agent_program import find_own_program, replace_process
from inspan.cli.output import print_json
from inspan.cli.run_names import AgentName
from inspan.contracts.driver import Driver
from inspan.errors import Unsupported


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--print", "prints", is_flag=True, help="Only print the command that would be started.")
@click.option("--json", "as_json", is_flag=True, help="With --print: one JSON object.")
@click.argument("agent", type=AgentName())
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(agent: str, arguments: tuple[str, ...], prints: bool, as_json: bool) -> None:
    """Log in with an agent's own program, wherever it is installed; ARGUMENTS are passed on to it.

    inspan reads nothing of it: the login is made by that program, and stays where that program keeps it.
    """
    driver, program = find_own_program(agent)
    login = driver.access.login
    if login is None:
        keys = ", ".join(driver.provider.credentials)
        step = f"Set {keys}, or name a key with --key-from." if keys else "Set it up as its own documents say."
        raise Unsupported("agent", agent, f"{driver.title} has no login that inspan knows of.", next_step=step)
    words = (*login.arguments, *(arguments[1:] if arguments[:1] == ("--",) else arguments))
    if prints:
        _print_command(driver, (program.path, *words), as_json=as_json)
        return
    if login.note:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise click.UsageError(f"{driver.title} logs in at a terminal, and there is none here.")
        click.echo(f"inspan: {driver.title} comes up: {login.note}.", err=True)
    replace_process(program, words)


def _print_command(driver: Driver, argv: tuple[str, ...], *, as_json: bool) -> None:
    import shlex  # Start-up time: only who looks needs it.

    note = driver.access.login.note if driver.access.login else ""
    if as_json:
        print_json(agent=driver.name, command=argv, note=note)
    else:
        click.echo(shlex.join(argv) + (f"    # {note}" if note else ""))
