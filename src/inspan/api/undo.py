"""Taking a run's changes back, and bringing them in again, without blocking the loop."""

import asyncio
from collections.abc import Sequence
from typing import cast

from inspan.errors import BadInput
from inspan.runs.undo import UndoResult, carry_out, plan_undo
from inspan.runs.undo_checks import Direction
from inspan.system.cancellation import run_to_end

from .options import Path
from .run import Run, find_run, locate_run


async def undo_run(run: Run | str, *, paths: Sequence[str] = (), dry_run: bool = False, cwd: Path = "") -> UndoResult:
    """Takes the changes of a run back in its work tree, all of them or none; nobody is asked.

    `run` is itself or a name that `find_run` takes; `paths` are git's patterns, relative to the current folder if it is
    in the work tree. With `dry_run` nothing is changed. Raises `UndoRefused`, and then no file was changed: a file is
    not as the run left it, something is in the way, or there are no two snapshots. `RunBusy` for a run that lives. A
    caller that is cancelled meanwhile gets its cancellation once all is done, or nothing.
    """
    return await _change(run, "undo", paths, dry_run=dry_run, cwd=cwd)


async def apply_run(run: Run | str, *, paths: Sequence[str] = (), dry_run: bool = False, cwd: Path = "") -> UndoResult:
    """Brings the changes of a run in again that `undo_run` took back; all else is as there."""
    return await _change(run, "apply", paths, dry_run=dry_run, cwd=cwd)


async def _change(
    run: Run | str, direction: Direction, paths: Sequence[str], *, dry_run: bool, cwd: Path
) -> UndoResult:
    if isinstance(cast(object, paths), str):
        raise BadInput("paths", paths, "it is one text, not a list of them.", next_step=f"Give [{paths!r}].")
    for path in cast(Sequence[object], paths):
        if not isinstance(path, str):
            raise BadInput("paths", path, "it is no text.", next_step="Give a list of git's patterns, as texts.")
    found = run if isinstance(run, Run) else find_run(run, cwd=cwd)
    folder, state = locate_run(found.run_id)

    def change() -> UndoResult:
        plan = plan_undo(state, folder, direction=direction, paths=paths)
        if plan.files and not dry_run:
            carry_out(state, folder, plan, paths=paths)
        return plan

    return await run_to_end(asyncio.to_thread(change))
