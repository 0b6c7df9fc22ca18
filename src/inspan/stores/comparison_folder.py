"""Which comparisons have not come to their end: a note in the folder of each, which is there when its process died."""

import os

import msgspec

from inspan.errors import InspanError
from inspan.protocol.wire import DECODE_ERRORS
from inspan.system import file_locks

from .run_folder import read_json, remove_file, write_json

ASKED = "comparison.json"
LOCK = "lock"
_NOTE = "unfinished.json"


class Unfinished(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison of which not every cell was judged, and a folder that one of its tasks was for. `died` says that its
    process did not end it in order, `told` that somebody has heard of that."""

    id: str
    path: str
    cwd: str
    lives: bool
    died: bool
    told: bool


def list_comparisons(state: str) -> list[str]:
    """The folders of all comparisons, the oldest first."""
    folder = os.path.join(state, "comparisons")
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [path for name in names if os.path.exists(os.path.join(path := os.path.join(folder, name), ASKED))]


def list_unfinished(state: str) -> list[Unfinished]:
    """Those that live, died or were ended before every cell was judged, the oldest first; what cannot be read is left
    out."""
    found = (_read(path) for path in list_comparisons(state))
    return [each for each in found if each]


def note_begin(path: str) -> None:
    """A process works on it from now on; raises `StateUnusable`."""
    write_json(os.path.join(path, _NOTE), {"left": False, "told": False})


def note_left(path: str) -> None:
    """It was ended in order, and somebody may go on with it; raises `StateUnusable`."""
    write_json(os.path.join(path, _NOTE), {"left": True, "told": False})


def note_told(path: str) -> None:
    """Somebody has heard that its process died; raises `StateUnusable`."""
    write_json(os.path.join(path, _NOTE), {"left": False, "told": True})


def note_end(path: str) -> None:
    """Every cell was judged; raises `OSError`."""
    remove_file(os.path.join(path, _NOTE))


def _read(path: str) -> Unfinished | None:
    note = os.path.join(path, _NOTE)
    if not os.path.exists(note):
        return None
    try:
        lives = file_locks.is_held(os.path.join(path, LOCK))
        said = read_json(note)
        cwd = str(read_json(os.path.join(path, ASKED))["tasks"][0]["cwd"])
        return Unfinished(
            id=os.path.basename(path),
            path=path,
            cwd=cwd,
            lives=lives,
            died=not (lives or said["left"]),
            told=bool(said["told"]),
        )
    except (InspanError, LookupError, TypeError, OSError, *DECODE_ERRORS):
        return None
