"""What every start says of those whose process died: that there are some, and what goes on with them."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from inspan.errors import RunNotFound, StateUnusable
from inspan.runs.dead import declare_dead
from inspan.runs.find import find_run_folder
from inspan.runs.names import is_in_scope
from inspan.runs.projects import Scope, current_scope, project_of
from inspan.runs.relations import read_relation, read_work
from inspan.stores.comparison_folder import Unfinished, list_comparisons, list_unfinished, note_told
from inspan.stores.run_folder import RunFolder


def report_lost(state: str) -> None:
    """Declares the dead lost, and says so in a line on stderr: once, since the next look finds them declared.

    Nothing goes on by itself: that would cost money.
    """
    try:
        found, comparisons = declare_dead(state), list_dead_comparisons(state, scope=None)
        scope = current_scope() if found or comparisons else None
    except (StateUnusable, RunNotFound):
        return  # What is wrong is told by the command itself.
    if scope is None:
        return
    _report_comparisons([each for each in comparisons if not each.told], scope)
    here = sum(is_in_scope(folder, scope) for folder in found)
    if here:
        _say(here, "here", "inspan recover")
    if len(found) > here:
        _say(len(found) - here, "in other projects", "inspan recover --all")


def list_dead_comparisons(state: str, *, scope: Scope | None) -> list[Unfinished]:
    """Those of a project, or of any, whose process died, the oldest first; `compare --resume` goes on with them."""
    died = [each for each in list_unfinished(state) if each.died]
    return [each for each in died if scope is None or scope.matches(project_of(each.cwd), each.cwd)]


def describe_owner(state: str, folder: RunFolder) -> str:
    """Whose a run is to go on with, and how; empty where it is nobody else's."""
    name, told = read_relation(folder, "parent"), ""
    while name:
        try:
            owner = find_run_folder(state, name)
        except RunNotFound:  # Comparisons are no runs.
            known = any(os.path.basename(path) == name for path in list_comparisons(state))
            return f"It is part of a comparison: `inspan compare --resume {name}` goes on with it." if known else told
        work = read_work(owner) or "run"
        told = f"It is part of the {work} {name}, which goes on with it: `inspan show {name}` tells how."
        name = read_relation(owner, "parent")
    return told


def _report_comparisons(died: Sequence[Unfinished], scope: Scope) -> None:
    for each in died:
        where = "here" if scope.matches(project_of(each.cwd), each.cwd) else "in another project"
        command = f"inspan compare --resume {each.id}"
        print(f"inspan: a comparison died {where}: `{command}` goes on with it", file=sys.stderr)
        with suppress(StateUnusable):  # Without room for that note it is told again.
            note_told(each.path)


def _say(count: int, where: str, command: str) -> None:
    what, it = ("1 process", "its work") if count == 1 else (f"{count} processes", "their work")
    print(f"inspan: {what} died {where}: `{command}` goes on with {it}", file=sys.stderr)
