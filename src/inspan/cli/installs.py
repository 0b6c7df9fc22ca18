"""What `agents uninstall` and `agents update` have to work on, and what they refuse."""

import sys
from collections.abc import Iterator, Sequence

import click
import msgspec

from inspan.agents.installed import InstalledProgram, list_installed
from inspan.agents.program import Program, locate_program
from inspan.agents.registry import load_drivers
from inspan.agents.select import select_channel
from inspan.cli.folders import current_folder
from inspan.cli.output import format_size
from inspan.contracts.driver import Driver
from inspan.errors import AgentMissing, AgentUnusable, BadInput, RunBusy, StateUnusable
from inspan.planning.known_agents import find_agent_driver
from inspan.stores.paths import state_home
from inspan.stores.run_folder import active_runs, is_locked, read_json
from inspan.system.programs import list_exposed_folders


class Update(msgspec.Struct, frozen=True, kw_only=True):
    """A program that inspan has installed, and the version that it should have."""

    driver: Driver
    before: str

    @property
    def after(self) -> str:
        """The newest version that was tested."""
        return self.driver.program.install.version

    @property
    def is_due(self) -> bool:
        """Whether that one is not there yet."""
        return self.before != self.after

    @property
    def label(self) -> str:
        """The agent, or the program that one of its channels has for itself."""
        channel = self.driver.channels[0]
        return f"{self.driver.name} ({channel.name})" if channel.program else self.driver.name

    @property
    def pinned_before(self) -> str:
        """The version before, as a run can ask for it."""
        return f"{self.driver.name}@{self.before}"


def find_removable(name: str, channel: str) -> list[InstalledProgram]:
    """What inspan has installed of that name; raises `AgentMissing` for nothing, `RunBusy` while it is at work."""
    driver = find_agent_driver(name, cwd=current_folder())
    narrow = select_channel(driver, channel) if channel else driver
    found = list_installed(narrow)
    if not found:
        raise _refuse(narrow, "uninstalled", step="Remove it the way it came.")
    if busy := _list_runs(driver):
        step = f"Wait for them, or stop them: `inspan stop {' '.join(busy)}`."
        raise RunBusy(f"{driver.title} is at work: {', '.join(busy)}.", next_step=step)
    return found


def confirm_uninstall(name: str, found: Sequence[InstalledProgram], *, as_json: bool) -> bool:
    """Asks; raises `UsageError` where nobody can be asked."""
    versions = ", ".join(f"{each.command} {each.version}" for each in found)
    question = f"Delete {versions} ({format_size(sum(each.size_bytes for each in found))})?"
    if as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(f"{question} Cannot ask here: use --yes to delete, --dry-run to look.")
    return click.confirm(question, err=True)


def find_updates(names: Sequence[str]) -> list[Update]:
    """What inspan has installed of these agents, or of all; raises `AgentMissing` before anything is changed."""
    if not names:
        return [each for driver in load_drivers() for each in _find_updates(driver)]
    found = list[Update]()
    for name in dict.fromkeys(names):
        driver = find_agent_driver(name, cwd=current_folder())
        if driver.program.pinned:
            step = f"Use `inspan agents install {name}` for one version, or `inspan agents update {driver.name}`."
            raise BadInput("agent", name, "an update goes to the newest version that was tested.", next_step=step)
        own = list(_find_updates(driver))
        if not own:
            step = f"Update it the way it came, or `inspan agents install {name}`."
            raise _refuse(driver, "updated", step=step)
        found += own
    return found


def _find_updates(driver: Driver) -> Iterator[Update]:
    for number, channel in enumerate(driver.channels):
        if number and not channel.program:
            continue  # It goes by the agent's own program.
        narrow = select_channel(driver, channel.name)
        versions = [each.version for each in list_installed(narrow)]
        if versions and narrow.program.install.package:
            wanted = narrow.program.install.version
            yield Update(driver=narrow, before=wanted if wanted in versions else versions[-1])


def _refuse(driver: Driver, done: str, *, step: str) -> AgentMissing:
    """The words for a program that is not inspan's: where it came from, or that there is none."""
    try:
        found = locate_program(driver, avoid=list_exposed_folders(current_folder()))
    except AgentUnusable as error:
        message = f"{driver.title} cannot be {done}: inspan has not installed it."
        return AgentMissing(message, next_step=error.next_step if done == "updated" else "`inspan agents` lists all.")
    if driver.built_in or driver.program.hosted:
        what = "is a part of inspan" if driver.built_in else "is an API without a program"
        return AgentMissing(f"{driver.title} cannot be {done}: it {what}.", next_step="`inspan agents` lists all.")
    message = f"{driver.title} {found.version} cannot be {done}: {found.path} is not inspan's ({_describe(found)})."
    return AgentMissing(message, next_step=step)


def _describe(found: Program) -> str:
    return {"PATH": "found on PATH", "this Python environment": "installed with pip"}.get(
        found.source, f"named by {found.source}"
    )


def _list_runs(driver: Driver) -> list[str]:
    """The living runs of this agent."""
    found = list[str]()
    for folder in active_runs(state_home()):
        try:
            agent = str(read_json(folder.file("run.json")).get("agent", ""))
        except StateUnusable:
            continue  # What is wrong with it is told by `inspan show`.
        if agent.partition("@")[0] == driver.name and is_locked(folder):
            found.append(folder.run_id)
    return found
