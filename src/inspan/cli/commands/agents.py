"""List the agents; install, update, remove or run one's program."""

import sys
from collections.abc import Iterator
from typing import cast

import click
import msgspec

from inspan.agents.install import install
from inspan.agents.installed import uninstall
from inspan.agents.select import select_channel
from inspan.cli.agent_program import find_own_program, replace_process
from inspan.cli.folders import current_folder
from inspan.cli.installs import confirm_uninstall, find_removable, find_updates
from inspan.cli.output import Column, find_width, format_size, format_table, print_json
from inspan.cli.progress import Progress
from inspan.cli.run_names import AgentName
from inspan.client.machine import describe_agent
from inspan.contracts.driver import Driver
from inspan.planning.known_agents import AgentEntry, find_agent_driver, list_agents
from inspan.protocol.reasons import FAILED
from inspan.reporters.ending import wrap_segments

_COLUMNS = (
    Column("AGENT", lead=True),
    Column("VERSION", lead=True),
    Column("MODES", drop=5),
    Column("SESSIONS", drop=4),
    Column("SCHEMA", drop=3, named=True),
    Column("SERVERS", drop=2, named=True),
    Column("CHANNELS", drop=1, named=True),
    Column("TITLE", cut="end", least=12),
)


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """List the agents; install, update, remove or run one's program."""
    if context.invoked_subcommand:
        return
    found = list_agents(current_folder())
    if as_json:
        print_json(agents=[describe_agent(each) for each in found])
        return
    default = next(each.name for each in found if each.driver and each.driver.default)
    click.echo(listing([_row(each) for each in found], default=default, width=find_width(sys.stdout)))


@command.command("show")
@click.argument("name", type=AgentName())
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def show_command(name: str, as_json: bool) -> None:
    """What an agent can do, what it reads, and what it cannot do, with the reasons."""
    found = find_agent_driver(name, cwd=current_folder())
    told = describe_agent(AgentEntry(name=name, driver=found))
    if as_json:
        print_json(**msgspec.structs.asdict(told))
        return
    click.echo(f"{found.title} ({found.name}) {told.version} · {told.program}")
    for label, value in _details(found):
        click.echo(f"  {label}: {value}")


@command.command("install")
@click.argument("name", type=AgentName())
@click.option("--channel", default="", metavar="NAME", help="Which channel. [default: the first]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def install_command(name: str, channel: str, as_json: bool) -> None:
    """Install an agent's program, pinned, into inspan's own folder."""
    driver = select_channel(find_agent_driver(name, cwd=current_folder()), channel)
    with Progress(f"installing {name}") as progress:
        found = install(driver, report=progress.show_install)
    if as_json:
        print_json(agent=name, version=found.version, program=found.path)
    else:
        click.echo(f"{name} {found.version} at {found.path}")


@command.command("uninstall")
@click.argument("name", type=AgentName())
@click.option("--channel", default="", metavar="NAME", help="Only the program that this channel has for itself.")
@click.option("--dry-run", is_flag=True, help="Delete nothing, only say what would be.")
@click.option("-y", "--yes", is_flag=True, help="Delete without asking.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object; with --yes or --dry-run.")
def uninstall_command(name: str, channel: str, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Delete what inspan has installed of an agent: every version, or that of NAME@VERSION.

    Its settings and logins stay where its program keeps them, and so does a program that came by another way.
    """
    found = find_removable(name, channel)
    if not (dry_run or yes) and not confirm_uninstall(name, found, as_json=as_json):
        click.echo("nothing deleted", err=True)
        return FAILED
    freed = sum(each.size_bytes for each in found)
    for each in () if dry_run else found:
        uninstall(each)
    would = "would be " if dry_run else ""
    if as_json:
        listed = [{"version": each.version, "folder": each.folder} for each in found]
        print_json(agent=name, dry_run=dry_run, programs=listed, freed_bytes=freed)
    else:
        for each in found:
            click.echo(f"{each.command} {each.version} {would}deleted from {each.folder}")
        click.echo(f"{format_size(freed)} {would}freed")
    return 0


@command.command("update")
@click.argument("names", nargs=-1, metavar="[NAME]...", type=AgentName())
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def update_command(names: tuple[str, ...], as_json: bool) -> None:
    """Bring what inspan has installed to the newest version that was tested; of these agents, or of all.

    What does not arrive whole changes nothing. Other versions stay, for NAME@VERSION.
    """
    updated = list[dict[str, str]]()
    for each in find_updates(names):
        if each.is_due:
            with Progress(f"updating {each.driver.name} {each.before} → {each.after}") as progress:
                install(each.driver, report=progress.show_install)
            text = f"{each.label} {each.before} → {each.after}; {each.before} stays, for -a {each.pinned_before}"
        else:
            text = f"{each.label} {each.after} is the newest that was tested"
        updated.append({"agent": each.driver.name, "program": each.label, "from": each.before, "to": each.after})
        if not as_json:
            click.echo(text)
    if as_json:
        print_json(programs=updated)
    elif not updated:
        click.echo("inspan has installed no agent: `inspan agents install NAME` does.")


@command.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("name", type=AgentName())
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def exec_command(name: str, arguments: tuple[str, ...]) -> None:
    """Run an agent's own program as it is: `agents exec NAME -- ARGUMENTS`.

    It gets this terminal, your environment and your home, and its exit code is the command's. inspan is gone by then:
    nothing is recorded, limited or redacted.
    """
    _, program = find_own_program(name)
    replace_process(program, arguments[1:] if arguments[:1] == ("--",) else arguments)


def listing(rows: list[tuple[str, ...]], *, default: str, width: int | None = None) -> str:
    """The table as it is printed; the first page of the documents shows it."""
    more = f"default: {default} · more: inspan agents show NAME · get one: inspan agents install NAME"
    words = more if width is None else wrap_segments(more.split(" · "), columns=width)
    return f"{format_table(_COLUMNS, rows, width=width)}\n{words}"


def _row(each: AgentEntry) -> tuple[str, ...]:
    if each.driver is None:
        return each.name, "-", "-", "-", "-", "-", "-", each.problem.message if each.problem else ""
    version = "API" if each.driver.program.hosted else describe_agent(each).version
    return cells(each.driver, name=each.name, version=version)


def cells(driver: Driver, *, name: str, version: str) -> tuple[str, ...]:
    """The row of an agent."""
    can = driver.capabilities
    modes = [mode for mode in ("exec", "review", "complete") if getattr(can, mode) != "no"]
    sessions = [name for name in ("resume", "fork") if getattr(can, name) != "no"]
    return (
        f"{name}:COMMAND" if driver.family else name,
        version,
        " ".join(modes),
        " ".join(sessions) or "-",
        can.output_schema,
        " ".join(can.mcp) or "-",
        " ".join(channel.name for channel in driver.channels),
        driver.title,
    )


def _details(driver: Driver) -> Iterator[tuple[str, str]]:
    """What its driver says of it, in words; what is empty is left out."""
    keys = dict.fromkeys([name for way in driver.providers for name in way.credentials] or driver.provider.credentials)
    plain = {
        "keys": ", ".join(keys),
        "login": driver.access.login_hint,
        "providers": ", ".join(way.name for way in driver.providers),
        "instructions": driver.instructions,
        "skills": ", ".join(driver.skills),
        "aliases": ", ".join(f"{name} = {model}" for name, model in driver.models.items()),
    }
    yield from ((label, value) for label, value in plain.items() if value)
    notes = driver.capabilities.notes
    for name, value in msgspec.structs.asdict(driver.capabilities).items():
        if name != "notes" and value not in ("", (), None):
            yield name.replace("_", " "), f"{_format_value(value)}{'. ' + notes[name] if name in notes else ''}"
    yield from (
        (f"cannot {name.replace('_', ' ')}", reason) for name, reason in driver.trials.unsupported_scenarios.items()
    )


def _format_value(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, cast(tuple[object, ...], value)))
    return {"True": "yes", "False": "no"}.get(str(value), str(value))
