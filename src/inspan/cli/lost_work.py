"""What every start says of runs and loops whose process died: that there are some, and what goes on with them."""

import sys

from inspan.errors import RunNotFound, StateUnusable
from inspan.runs.dead import declare_dead
from inspan.runs.names import is_in_scope
from inspan.runs.projects import current_scope


def report_lost(state: str) -> None:
    """Declares the dead lost, and says so in a line on stderr: once, since the next look finds them declared.

    Nothing goes on by itself: that would cost money.
    """
    try:
        found = declare_dead(state)
        scope = current_scope() if found else None
    except (StateUnusable, RunNotFound):
        return  # What is wrong is told by the command itself.
    if scope is None:
        return
    here = sum(is_in_scope(folder, scope) for folder in found)
    if here:
        _say(here, "here", "inspan recover")
    if len(found) > here:
        _say(len(found) - here, "in other projects", "inspan recover --all")


def _say(count: int, where: str, command: str) -> None:
    what, it = ("1 process", "its work") if count == 1 else (f"{count} processes", "their work")
    print(f"inspan: {what} died {where}: `{command}` goes on with {it}", file=sys.stderr)
