"""Set up a project: choose its agent, budget and sandbox."""

import os
import shlex
import sys
import tomllib
from collections.abc import Sequence

import click

from inspan.agents.modules import split_sandbox
from inspan.agents.registry import all_agent_names
from inspan.cli.folders import current_folder, require_current_folder
from inspan.cli.output import Column, find_width, format_table, print_json, print_words
from inspan.cli.progress import Progress
from inspan.cli.run_names import AgentName
from inspan.config import locations
from inspan.config.editor import ConfigEditor, FileName, create, exists_error, is_trusted, open_editor, set_trust
from inspan.config.new_project import ProjectChoices, build_project_file
from inspan.errors import BadConfig, BadInput
from inspan.planning.doctor import AgentState, find_missing, inspect_agents, is_sandbox_usable
from inspan.planning.known_agents import find_agent_driver
from inspan.planning.settings import load_config, read_config
from inspan.planning.trust import remember_change, remember_trust
from inspan.protocol.budget import parse_budget
from inspan.protocol.reasons import FAILED
from inspan.reporters.prose import fit_words

_COLUMNS = (
    Column("AGENT", lead=True),
    Column("VERSION", lead=True),
    Column("KEY OR LOGIN", cut="end", least=16),
    Column("TITLE", cut="end", least=10, drop=1),
)
_NONE = "none"
_AUTO = "auto"


@click.command()
@click.option("--agent", type=AgentName(), metavar="NAME", help="The agent, where a run names none.")
@click.option("--budget", metavar="LIMIT", help="What each run may spend: 2usd, 200ktok, 50calls, 30min; or none.")
@click.option("--sandbox", metavar="NAME", help="auto (what the agent needs), bwrap, none, worktree, worktree+bwrap.")
@click.option("-y", "--yes", is_flag=True, help="Ask nothing: take what is suggested where an option is left out.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object; asks nothing.")
def command(agent: str | None, budget: str | None, sandbox: str | None, yes: bool, as_json: bool) -> int:
    """Set up this project: writes inspan.toml with its agent, budget and sandbox.

    Asks at a terminal, and shows what is installed and which key or login there is. A file that is there already is
    not overwritten. A budget or sandbox counts only in a project that you trust, so that this project then is.
    """
    editor = _open_editor("project")
    path = editor.layer.path
    if locations.exists(path):
        raise exists_error(path)
    asks = not (yes or as_json) and sys.stdin.isatty() and sys.stderr.isatty()
    if not asks and not yes and (agent, budget, sandbox) == (None, None, None):
        raise click.UsageError("Cannot ask here: use --agent, --budget or --sandbox, or --yes for what is suggested.")
    choices = _collect_choices({"agent": agent, "budget": budget, "sandbox": sandbox}, asks=asks, suggests=asks or yes)
    text = build_project_file(choices)
    if asks and not _confirm(path, text, trusts=choices.needs_trust):
        click.echo("nothing written", err=True)
        return FAILED
    trusted = _write(editor, text, needs_trust=choices.needs_trust)
    if as_json:
        print_json(file=path, agent=choices.agent, budget=choices.budget, sandbox=choices.sandbox, trusted=trusted)
        return 0
    click.echo(f"wrote {path}")
    if trusted:
        folder = os.path.dirname(path)
        click.echo(f"trusted: {folder} (a budget or sandbox counts only in a project that you trust)")
    missing = find_missing(choices.agent).rstrip(".")
    first = f"{missing}; then: " if missing else ""
    print_words(f'next: {first}inspan "what does this project do?" --mode review')
    return 0


def _collect_choices(given: dict[str, str | None], *, asks: bool, suggests: bool) -> ProjectChoices:
    """What the options say, checked, and for the rest what the user answers, or what is suggested."""
    for option, value in given.items():
        if value is not None:
            _CHECKS[option](value)
    agent, budget, sandbox = given["agent"], given["budget"], given["sandbox"]
    if agent is None and suggests:
        agent = _choose_agent(asks=asks)
    if asks:
        budget = _ask_budget() if budget is None else budget
        sandbox = _ask_sandbox() if sandbox is None else sandbox
    return ProjectChoices(
        agent=agent or "",
        budget="" if budget in (None, _NONE) else str(budget),
        sandbox="" if sandbox in (None, _AUTO) else str(sandbox),
    )


def _open_editor(name: FileName) -> ConfigEditor:
    return open_editor(name, cwd=require_current_folder(), env=os.environ, known_agents=all_agent_names())


def _write(editor: ConfigEditor, text: str, *, needs_trust: bool) -> bool:
    """Writes the file, after the trust that it needs; gives whether that was new. Both or none of them is written."""
    user, folder = _open_editor("user"), os.path.dirname(editor.layer.path)
    if not needs_trust or is_trusted(user, folder):
        create(editor, text)
        for table in tomllib.loads(text) if needs_trust else ():
            remember_change(read_config(folder, os.environ), editor.layer.path, table, env=os.environ)
        return False
    local = os.path.join(folder, locations.LOCAL_FILE)
    if locations.exists(local):
        # Whoever trusts the folder trusts this file, too, and it may be a stranger's.
        problem = "would be trusted with the project, and you have not said that you do."
        step = f"Read it, then: `inspan config set projects.trusted {shlex.quote(folder)}`, and try again."
        raise BadConfig("file", local, problem, next_step=step)
    set_trust(user, folder, trusted=True)
    try:
        create(editor, text)
    except BaseException:
        set_trust(user, folder, trusted=False)
        raise
    remember_trust(read_config(folder, os.environ), folder, env=os.environ)
    return True


def _check_agent(value: str) -> None:
    find_agent_driver(value, cwd=current_folder())
    if any(sign in value for sign in ":@"):
        problem = "the default agent has neither a version nor a command."
        raise BadInput("agent", value, problem, next_step="Use its name alone; a run can have -a NAME@VERSION.")


def _check_budget(value: str) -> None:
    try:
        if value != _NONE:
            parse_budget(value)
    except ValueError as error:
        raise BadInput(
            "budget", value, str(error), next_step="For example 2usd, 200ktok, 50calls or 30min; or none."
        ) from error


def _check_sandbox(value: str) -> None:
    if value != _AUTO:
        split_sandbox(value)


_CHECKS = {"agent": _check_agent, "budget": _check_budget, "sandbox": _check_sandbox}


def _choose_agent(*, asks: bool) -> str:
    """The agent that is suggested, or the one that the user says instead."""
    with Progress("looking for agents") as progress:
        states = inspect_agents(report=progress.show)
    suggested = _suggest_agent(states)
    if not asks:
        return suggested
    rows = [(each.name, each.version or "not installed", each.access, each.title) for each in states]
    click.echo(format_table(_COLUMNS, rows, width=find_width(sys.stderr)), err=True)
    return _ask("Agent", suggested, "agent")


def _suggest_agent(states: Sequence[AgentState]) -> str:
    """The user's own default, else the first that could work now, else the first that is here, else inspan's."""
    if own := load_config(current_folder(), os.environ).settings.runtime.default:
        return own
    here = [each for each in states if each.version and each.version != "API"]
    ready = [each.name for each in here if each.has_access]
    default = find_agent_driver("", cwd=current_folder()).name
    names = ready or [each.name for each in here]
    return default if default in names or not names else names[0]


def _ask_budget() -> str:
    return _ask("Budget of each run (2usd, 200ktok, 50calls, 30min, or none)", _NONE, "budget")


def _ask_sandbox() -> str:
    works = "" if is_sandbox_usable() else "; bwrap does not work here: inspan doctor"
    print_words(
        "Sandbox: auto is what the agent needs; with bwrap it writes only to this folder and its own; "
        f"none sets no limits{works}",
        err=True,
    )
    return _ask("Sandbox (auto, bwrap, none)", _AUTO, "sandbox")


def _ask(question: str, suggested: str, option: str) -> str:
    """Asks until there is an answer that can be used."""
    words = fit_words(f"{question} [{suggested}]:", sys.stderr)
    while True:
        answer = click.prompt(words, default=suggested, show_default=False, prompt_suffix=" ", err=True)
        answer = str(answer).strip()
        try:
            _CHECKS[option](answer)
        except BadInput as error:
            print_words(f"{error.message}\n  → {error.next_step}", err=True)
        else:
            return answer


def _confirm(path: str, text: str, *, trusts: bool) -> bool:
    print_words(f"\n{text}", err=True)
    trust = " and trust this project, without which its budget and sandbox do not count" if trusts else ""
    question = fit_words(f"Write this to {path}{trust}? [Y/n]:", sys.stderr)
    return click.confirm(question, default=True, show_default=False, prompt_suffix=" ", err=True)
