"""Arguments that name runs and agents: what they accept, what they stand for, and what a shell offers meanwhile."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import click

from inspan.runs.projects import LAST, LAST_ANYWHERE

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from inspan.runs.projects import Scope
    from inspan.stores.run_folder import RunFolder

RunFilter = Literal["living", "ended", "any"]

_LIMIT = 50
_HELP_CHARACTERS = 60
Suggestion = tuple[str, str]


class RunName(click.ParamType[str]):
    """A run by its name, its short name, its id or the beginning of one, `@last`, `@2` or `@last-anywhere`. A shell
    proposes the runs of `run_filter`."""

    name = "run"

    def __init__(self, run_filter: RunFilter = "any") -> None:
        self._run_filter: RunFilter = run_filter

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem[str]]":
        # Of a single name only the default is there; of several, those that stand on the line already.
        given: Any = ctx.params.get(param.name or "") if param.nargs == -1 else ()
        return _collect_items(lambda: _suggest_runs(self._run_filter, incomplete), without=given or ())


def pick_run(state: str, name: str, *, as_json: bool) -> "RunFolder":
    """The run of this name; raises `RunNotFound`. Which one it is when the name does not say so is told on stderr,
    unless the command prints JSON, which names it."""
    from inspan.runs.find import find_run_folder  # Start-up time: `run` needs none of this.

    folder = find_run_folder(state, name)
    if name.startswith("@") and not as_json:
        print_run(folder)
    return folder


def pick_agent_run(state: str, name: str, *, as_json: bool) -> "RunFolder":
    """The same for what only a run of an agent has, as changes and a session; raises `BadInput` for a loop or a
    blueprint, and names its runs."""
    from inspan.errors import BadInput  # Start-up time, as above.
    from inspan.stores.run_folder import read_json

    folder = pick_run(state, name, as_json=as_json)
    work = read_json(folder.file("run.json")).get("work")
    if not work:
        return folder
    runs = ", ".join(_list_runs_of_work(folder))
    step = f"Name one of its runs: {runs}." if runs else f"It has no run yet: `inspan logs -f {folder.run_id}`."
    raise BadInput("RUN", folder.run_id, f"it is a {work}, which has none of that itself.", next_step=step)


def _list_runs_of_work(folder: "RunFolder") -> list[str]:
    from inspan.protocol.events import AttemptStarted, NodeEnded  # Start-up time, as above.
    from inspan.stores.event_log import iter_log

    found: list[str] = []
    for record in iter_log(folder.log):
        if isinstance(record.event, AttemptStarted):
            found.append(record.event.run_id)
        elif isinstance(record.event, NodeEnded):
            found += record.event.runs
    return found


def is_of_this_project(folder: "RunFolder") -> bool:
    """Whether a run is one of this folder's project; in a folder that was deleted, every run is another's."""
    from inspan.runs.find import is_in_scope  # Start-up time: every command loads this file, few name a run.

    scope = _find_scope()
    return scope is not None and is_in_scope(folder, scope)


def choose_hint_name(folder: "RunFolder") -> str:
    """What a person types for a run: its own name, else the short one."""
    from inspan.protocol.ids import make_short_name  # Start-up time: every command loads this file, few name a run.
    from inspan.runs.names import read_own_name

    return read_own_name(folder) or make_short_name(folder.run_id)


def choose_shown_name(folder: "RunFolder") -> str:
    """What a run is called in a sentence: its name for a person at a terminal, its whole id elsewhere."""
    return choose_hint_name(folder) if _is_read_by_person() else folder.run_id


def choose_printed_name(folder: "RunFolder") -> str:
    """What a run is called on stdout: the same, for whoever reads that."""
    return choose_hint_name(folder) if sys.stdout.isatty() else folder.run_id


def shorten_shown_path(path: str) -> str:
    """A path in a sentence: with `~` for a person at a terminal, whole elsewhere."""
    from inspan.reporters.text import shorten_home  # Start-up time: every command loads this file, few name a path.

    return shorten_home(path) if _is_read_by_person() else path


def _is_read_by_person() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def print_run(folder: "RunFolder") -> None:
    """Says on stderr which run was taken, its agent, its folder, and how long ago it began."""
    from inspan.cli.output import print_words  # Start-up time: every command loads this file, few name a run.
    from inspan.errors import StateUnusable
    from inspan.reporters.text import format_duration, one_line
    from inspan.stores.run_folder import read_json

    try:
        described: Any = read_json(folder.file("run.json"))
        ago = format_duration(time.time() - described["created_at"])
        about = f": {described['agent']} in {shorten_shown_path(described['task']['cwd'])}, {ago} ago"
    except (StateUnusable, KeyError, TypeError):
        about = ""  # What is wrong with it is told by the command itself, which may only want to delete it.
    print_words(one_line(f"inspan: run {choose_shown_name(folder)}{about}"), err=True)


class AgentName(click.ParamType[str]):
    """An agent by its name. An empty one, as an unset variable gives it, does not mean the default agent."""

    name = "text"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == "":
            # Start-up time: every command loads this file, few name a run.
            from inspan.agents.registry import all_agent_names, unknown_agent_error

            raise unknown_agent_error("", all_agent_names())
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem[str]]":
        return _collect_items(lambda: _suggest_agents(incomplete))


def _collect_items(
    find: Callable[[], Iterator[Suggestion]], *, without: tuple[str, ...] = ()
) -> "list[CompletionItem[str]]":
    from click.shell_completion import CompletionItem  # Start-up time: only a shell that asks needs it.

    found: list[CompletionItem[str]] = []
    try:
        for name, text in find():
            if name not in without and len(found) < _LIMIT:
                found.append(CompletionItem(name, help=_shorten(text)))
    except Exception:  # A broken state folder, whatever is wrong with it, is told by a command, not amid a prompt.
        pass
    return found


def _suggest_runs(run_filter: RunFilter, incomplete: str) -> Iterator[Suggestion]:
    """This project's runs, and after them those of the others."""
    from inspan.runs.find import is_in_scope  # Start-up time: every command loads this file, few name a run.
    from inspan.stores.paths import state_home
    from inspan.stores.run_folder import active_runs, is_locked

    state, scope = state_home(), _find_scope()
    living = [folder for folder in reversed(active_runs(state)) if is_locked(folder)] if run_filter != "ended" else []
    here = [folder for folder in living if scope and is_in_scope(folder, scope)]
    yield from _suggest_active(here, incomplete)
    if LAST.startswith(incomplete):
        yield LAST, "the newest run of this folder's project"
    if scope and run_filter != "living":
        yield from _suggest_ended(state, incomplete, scope.matches)

    def is_elsewhere(project: str, cwd: str) -> bool:
        return not (scope and scope.matches(project, cwd))

    others = [folder for folder in living if folder not in here]
    ended = _suggest_ended(state, incomplete, is_elsewhere) if run_filter != "living" else iter(())
    if LAST_ANYWHERE.startswith(incomplete) and (others or any(_suggest_ended(state, "", is_elsewhere))):
        yield LAST_ANYWHERE, "the newest run of any project"
    yield from _suggest_active(others, incomplete)
    yield from ended


def _find_scope() -> "Scope | None":
    from inspan.errors import RunNotFound  # Start-up time: every command loads this file, few name a run.
    from inspan.runs.projects import current_scope

    try:
        return current_scope()
    except RunNotFound:
        return None  # In a folder that was deleted, every run is another project's.


def _suggest_active(folders: "list[RunFolder]", incomplete: str) -> Iterator[Suggestion]:
    from inspan.stores.run_folder import read_json  # Start-up time: every command loads this file, few name a run.

    for folder in folders:
        described = read_json(folder.file("run.json"))
        if name := _choose_name(folder.run_id, described["task"].get("name", ""), incomplete):
            yield name, f"{described['agent']} running: {described['task']['prompt']}"


def _suggest_ended(state: str, incomplete: str, is_meant: Callable[[str, str], bool]) -> Iterator[Suggestion]:
    from inspan.stores.index import list_newest  # Start-up time: every command loads this file, few name a run.

    for row in list_newest(state, limit=_LIMIT, prefix=incomplete, in_scope=is_meant):
        if name := _choose_name(row.run_id, row.name, incomplete):
            yield name, f"{row.agent} {row.outcome}: {row.prompt}"


def _choose_name(run_id: str, own: str, incomplete: str) -> str:
    """The name of a run that goes on as was begun: its own before its id, and the short one only where it was begun."""
    from inspan.protocol.ids import make_short_name  # Start-up time: every command loads this file, few name a run.

    return next((name for name in (own, run_id, make_short_name(run_id)) if name and name.startswith(incomplete)), "")


def _suggest_agents(incomplete: str) -> Iterator[Suggestion]:
    # Start-up time: every command loads this file, few name a run.
    from inspan.planning.known_agents import list_agent_names

    for name in list_agent_names(os.getcwd()):
        if name.startswith(incomplete):
            yield name, ""


def _shorten(text: str) -> str:
    """One line that cannot move the cursor."""
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(line.split())[:_HELP_CHARACTERS]
