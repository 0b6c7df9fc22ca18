"""The last conversation of a project: the newest run whose session its agent can resume."""

from collections.abc import Iterator

from inspan.agents import modules, registry
from inspan.errors import RunNotFound, SessionNotFound, StateUnusable
from inspan.runs.find import find_run_folder
from inspan.runs.list_all import read_index
from inspan.runs.names import build_index_scope, build_row_path, is_in_scope, list_active_folders
from inspan.runs.projects import LAST, Scope, scope_of
from inspan.stores import index
from inspan.stores.paths import state_home
from inspan.stores.run_folder import RunFolder, open_folder, read_json


def find_last_conversation(*, cwd: str, project: str = "") -> RunFolder:
    """The newest run of a folder's project that has a session to resume; raises `RunNotFound` where the project has no
    run, `SessionNotFound` where none of them has one."""
    state, scope = state_home(), Scope(project=project) if project else scope_of(cwd)
    last = find_run_folder(state, LAST, scope=scope)
    for folder in _list_newest(state, scope):
        return folder
    raise SessionNotFound(
        f"No run of this project has a session that could be continued; run {last.run_id} is the last.",
        next_step='Start one: inspan run "…" or inspan chat.',
    )


def _list_newest(state: str, scope: Scope) -> Iterator[RunFolder]:
    """The runs with a session, newest first: those that live, and the ended ones of the index."""
    living = {folder.run_id: folder for folder in list_active_folders(state) if is_in_scope(folder, scope)}
    talking = {run_id: folder for run_id, folder in living.items() if can_resume(_read_agent(folder))}
    rows = read_index(state, lambda: index.list_newest(state, in_scope=build_index_scope(scope), with_session=True))
    paths = {row.run_id: build_row_path(state, row) for row in rows if can_resume(row.agent)}
    paths |= {run_id: folder.path for run_id, folder in talking.items()}
    for run_id in sorted(paths, reverse=True):
        try:
            yield open_folder(paths[run_id])
        except RunNotFound:
            continue  # Deleted by hand: the one before it is the last.


def _read_agent(folder: RunFolder) -> str:
    try:
        return str(read_json(folder.file("run.json")).get("agent", ""))
    except StateUnusable:
        return ""


def can_resume(agent: str) -> bool:
    """Whether an agent can resume; one of the user's own is asked when it comes to that."""
    if agent not in modules.agent_names():
        return bool(agent)
    return registry.find_driver(agent).capabilities.resume != "no"
