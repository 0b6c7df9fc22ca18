"""What died without a word, found by whoever starts something or lists runs: declared lost, and never gone on with."""

from collections.abc import Container

from inspan.containment.sweep import list_runs_with_processes
from inspan.errors import InspanError
from inspan.protocol.wire import is_last
from inspan.stores.event_log import iter_log
from inspan.stores.run_folder import RunFolder, is_locked, read_json

from .find import refresh_summary
from .names import list_active_folders


def declare_dead(state: str) -> list[RunFolder]:
    """Declares lost what nobody owns any more, and gives it, oldest first; what is not to be read is left alone.

    The runs of a loop are left out: they are the loop's to go on with.
    """
    dead = [folder for folder in list_active_folders(state) if not is_locked(folder)]
    living = list_runs_with_processes() if len(dead) > 1 else None
    return [folder for folder in dead if _declare(state, folder, living)]


def _declare(state: str, folder: RunFolder, living: Container[str] | None) -> bool:
    """Whether it is this call that found it lost, and somebody should hear of it."""
    try:
        if any(is_last(record.event) for record in iter_log(folder.log)):
            return False  # It ended, and could not be closed.
        ended = refresh_summary(state, folder, living=living).ended
        belongs_to_other = bool(read_json(folder.file("run.json"))["task"].get("parent"))
    except (InspanError, KeyError, TypeError, AttributeError):
        return False
    return ended is not None and ended.outcome == "lost" and not belongs_to_other
