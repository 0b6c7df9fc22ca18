"""Runs by the names that people use: what they called them, the short names of ids, and `@1`, `@2` in a project."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from inspan.errors import RunNotFound, StateUnusable
from inspan.protocol.ids import make_short_name
from inspan.stores import index
from inspan.stores.run_folder import RunFolder, active_runs, open_folder, read_json, run_path

from .projects import LAST, LAST_ANYWHERE, Scope, current_scope

# SQLite takes a thousand values in one question, and two are for each of these.
_MAX_TOPS = 400
# `@1` is the newest run, `@2` the one before it.
_PLACE = re.compile(r"@([1-9][0-9]{0,8})")


class _Candidate(NamedTuple):
    """A run that has the name in question: its own, or else its short one; and whether it is of the project meant."""

    run_id: str
    path: str
    is_own: bool
    is_here: bool


def find_by_place(state: str, name: str, scope: Scope | None) -> RunFolder | None:
    """The run that `@last`, `@last-anywhere`, `@1` or `@2` means; nothing for another name. Raises `RunNotFound`."""
    if name == LAST_ANYWHERE:
        return _find_newest(state, None, 1)
    place = "1" if name == LAST else (found := _PLACE.fullmatch(name)) and found[1]
    return _find_newest(state, scope or current_scope(), int(place)) if place else None


def find_named(state: str, name: str, scope: Scope | None) -> RunFolder | None:
    """The run with this own or short name: here before anywhere, and at each place an own name before a short one."""
    if scope is None:
        try:
            scope = current_scope()
        except RunNotFound:
            pass  # In a folder that was deleted, every run is another project's.
    found = list(_list_named(state, name, scope))
    for is_here, is_own in ((True, True), (True, False), (False, True), (False, False)):
        meant = {each.run_id: each.path for each in found if (each.is_here, each.is_own) == (is_here, is_own)}
        if len(meant) > 1:
            step = f"Use one of their ids: {', '.join(sorted(meant))}."
            raise RunNotFound(f"{name!r} is the name of more than one run.", next_step=step)
        for path in meant.values():
            return open_folder(path)
    return None


def find_by_own_name(state: str, name: str, scope: Scope) -> str:
    """The id of the run in `scope` that a person has given this name; empty where there is none."""
    here = (each.run_id for each in _list_named(state, name, scope) if each.is_own and each.is_here)
    return next(here, "")


def is_in_scope(folder: RunFolder, scope: Scope) -> bool:
    """Whether a run is one of those that are meant; what of it cannot be read is told by its path."""
    *_, project, _task, _runs, _run_id = folder.path.split(os.sep)
    try:
        task: Any = read_json(folder.file("run.json")).get("task")
        cwd = str(task["cwd"])
    except (StateUnusable, KeyError, TypeError):
        cwd = ""
    return scope.matches(project, cwd)


def read_own_name(folder: RunFolder) -> str:
    """The name that a person gave a run; empty where there is none, or it cannot be read."""
    try:
        task: Any = read_json(folder.file("run.json")).get("task")
        return str(task.get("name") or "")
    except (StateUnusable, AttributeError):
        return ""


def name_runs(state: str, run_ids: Sequence[str]) -> dict[str, str]:
    """What people type for each of these runs: the name that it was given, else its short one, which also tells two of
    the same name apart. Runs that were deleted have none of their own any more."""
    own: dict[str, str] = {folder.run_id: read_own_name(folder) for folder in list_active_folders(state)}
    with suppress(StateUnusable):  # A list of costs is worth more than names in it: what is wrong is told by `ps`.
        own |= {row.run_id: row.name for row in index.list_named(state)}
    ids = list(dict.fromkeys(run_ids))
    return dict(zip(ids, tell_apart([(each, own.get(each, ""), make_short_name(each)) for each in ids]), strict=True))


def tell_apart(named: Sequence[tuple[str, str, str]]) -> list[str]:
    """What people type for each run, given by its id, its own name, if it has one, and its short one: the first of them
    that means no other of these runs."""
    shown = Counter(own or short for _, own, short in named)
    owns, shorts = {own for _, own, _ in named}, Counter(short for _, _, short in named)
    told: list[str] = []
    for run_id, own, short in named:
        names = {own: shown[own] == 1, short: short not in owns and shorts[short] == 1}
        told.append(next((name for name, is_free in names.items() if name and is_free), run_id))
    return told


def list_active_folders(state: str) -> list[RunFolder]:
    """The active list without what is being prepared just now, or never came further."""
    return [folder for folder in active_runs(state) if os.path.exists(folder.file("run.json"))]


def build_row_path(state: str, row: index.Row) -> str:
    """Where the folder of a run of the index lies."""
    return run_path(state, project=row.project, task=row.task, run_id=row.run_id)


def build_index_scope(scope: Scope) -> index.IndexScope | Callable[[str, str], bool]:
    """The scope as the index takes it; a path that is no text is none that it could compare."""
    try:
        "".join((scope.project, *scope.tops)).encode()
    except UnicodeEncodeError:
        return scope.matches
    return index.IndexScope(project=scope.project, tops=scope.tops[:_MAX_TOPS], is_meant=scope.matches)


def _find_newest(state: str, scope: Scope | None, place: int) -> RunFolder:
    """The run at this place, counted from the newest, by start."""
    started = list_active_folders(state)
    active = [folder for folder in started if scope is None or is_in_scope(folder, scope)]
    ended = index.list_newest(state, limit=place, in_scope=scope and build_index_scope(scope))
    paths = {row.run_id: build_row_path(state, row) for row in ended} | {each.run_id: each.path for each in active}
    newest = sorted(paths, reverse=True)
    if len(newest) >= place:
        return open_folder(paths[newest[place - 1]])
    if newest and scope:
        message = f"There is no run '@{place}' of {_describe_scope(scope)}: it has {_count_runs(len(newest))}."
        raise RunNotFound(message, next_step="`inspan ps -a` lists them.")
    elsewhere = {folder.run_id for folder in started} | {row.run_id for row in index.list_newest(state)}
    if not elsewhere or scope is None:
        raise RunNotFound("There is no run yet.", next_step='Start one: inspan run "say hello".')
    raise _no_run_error(scope, len(elsewhere))


def _list_named(state: str, name: str, scope: Scope | None) -> Iterator[_Candidate]:
    """Every run with this own or short name; those that live first, which need no index."""
    seen: set[str] = set()
    for folder in list_active_folders(state):
        is_own = read_own_name(folder) == name
        if is_own or make_short_name(folder.run_id) == name:
            seen.add(folder.run_id)
            yield _Candidate(folder.run_id, folder.path, is_own, scope is not None and is_in_scope(folder, scope))
    for is_own, find in ((True, index.find_by_name), (False, index.find_by_short_name)):
        for row in find(state, name):
            if row.run_id not in seen:
                seen.add(row.run_id)
                is_here = scope is not None and scope.matches(row.project, row.cwd)
                yield _Candidate(row.run_id, build_row_path(state, row), is_own, is_here)


def _no_run_error(scope: Scope, elsewhere: int) -> RunNotFound:
    there = "1 run is in another project" if elsewhere == 1 else f"{elsewhere} runs are in other projects"
    step = f"{there}: `inspan ps -a --all` lists them, @last-anywhere is the last of all."
    return RunNotFound(f"There is no run of {_describe_scope(scope)}.", next_step=step)


def _describe_scope(scope: Scope) -> str:
    return f"this folder's project, {scope.top}" if scope.top else f"the project {scope.project!r}"


def _count_runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"
