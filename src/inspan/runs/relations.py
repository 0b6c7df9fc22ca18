"""What runs are to each other: what goes on in what, what belongs to what."""

import os

from inspan.errors import InspanError, StateUnusable
from inspan.stores import index
from inspan.stores.run_folder import RunFolder, is_locked, read_json, write_json

from .names import list_active_folders

_CONTINUED = "continued.json"


def map_continued(state: str) -> dict[str, str]:
    """Every run, loop and blueprint that another one says it continues, with that one; it may live or have ended."""
    active = {read_relation(folder, "continues"): str(folder.run_id) for folder in list_active_folders(state)}
    return active | {row.continues: row.run_id for row in index.list_continuing(state)}


def mark_continued(folder: RunFolder, *, by: str) -> None:
    """Says so where it stands, too: what goes on with it may be deleted before it. Raises `StateUnusable`."""
    write_json(folder.file(_CONTINUED), {"by": by})


def find_continuing(state: str, folder: RunFolder) -> str:
    """What goes on with a run, a loop or a blueprint; empty where nothing does."""
    return read_continuing(folder) or map_continued(state).get(folder.run_id, "")


def read_continuing(folder: RunFolder) -> str:
    """The same by what stands in its own folder alone; empty where that says nothing."""
    try:
        return str(read_json(folder.file(_CONTINUED))["by"]) if is_marked_continued(folder) else ""
    except (InspanError, KeyError):
        return ""


def is_marked_continued(folder: RunFolder) -> bool:
    return os.path.exists(folder.file(_CONTINUED))


def read_relation(folder: RunFolder, name: str) -> str:
    """What a run's task says that it `continues`, or what is its `parent`; empty where that is nothing."""
    try:
        return str(read_json(folder.file("run.json"))["task"].get(name, ""))
    except (InspanError, KeyError, AttributeError):
        return ""


def list_living(state: str) -> set[str]:
    """The loops, and whatever else has runs of its own, whose process lives."""
    return {folder.run_id for folder in list_active_folders(state) if is_locked(folder) and read_work(folder)}


def read_work(folder: RunFolder) -> str:
    """What it is beside a run: a loop, a blueprint; empty where it is one run of an agent."""
    try:
        return str(read_json(folder.file("run.json")).get("work", ""))
    except StateUnusable:
        return ""
