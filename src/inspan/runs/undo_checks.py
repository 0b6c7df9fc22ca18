"""Whether a run's changes can be taken back or brought in: file by file, before anything is written.

Whether a file is as the run found it, as it left it, or neither is told by the file and the snapshots, never by a note
of what was done before: so a part can be done, a killed process can be repeated, and hands can have done it.
"""

import os
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from inspan.errors import BadInput, UndoRefused
from inspan.stores import file_versions
from inspan.stores.file_versions import ABSENT, GITLINK_MODE, Found, Version, list_parents, lstat_inside
from inspan.stores.git import Git, SnapshotError, Steps, run_steps
from inspan.stores.paths import state_error
from inspan.stores.run_folder import RunFolder
from inspan.stores.snapshot import Snapshot, VersionPair, build_git, list_pairs
from inspan.stores.snapshot_steps import verify_steps
from inspan.system.tree_walk import walk_tree

from .same_tree import find_later_runs

Direction = Literal["undo", "apply"]

# A run waits for its snapshots, and they are given up in time; here a person waits.
LIMIT_S = 600.0
_NAMED_FILES = 20
_LEFT_OUT_FILES = 3
_CHANGED = "changed since the run"
_IN_THE_WAY = "in the way"
_READ_ONLY = "its folder is read-only"
_MOUNTED = "on a file system of its own"
_SUBMODULE = "a submodule, of which only the commit is known"
_NOT_KEPT = "its content was not kept: too large, not readable, or a repository of its own"
_FILTERED = "stored by a filter of git's, such as LFS"
_IGNORED = "ignored by git before the run, so it may have been there already"


class FileState(msgspec.Struct, frozen=True, kw_only=True):
    """A file that the run changed: how it should be now, how it shall be, how it is."""

    path: str
    left: Version
    wanted: Version
    found: Found

    @property
    def is_done(self) -> bool:
        return self.found.version == self.wanted


def check_files(
    state: str, folder: RunFolder, snapshot: Snapshot, *, direction: Direction, paths: Sequence[str], work: str
) -> list[FileState]:
    """The files that the run changed and `paths` select, each with what is there now; raises `UndoRefused` with all
    those that cannot be, `BadInput` for paths that select none, and `SnapshotError`.

    `work` is made for what git needs; the caller removes it.
    """
    chosen = _choose_pairs(folder, paths)
    pairs = list_pairs(folder.path) if paths else chosen
    if not chosen:
        return []
    try:
        git = build_git(folder.path, top=snapshot.top, scratch=os.path.join(work, "scratch"))
        for path in (git.file(""), os.path.join(work, "files")):
            os.makedirs(path, mode=0o700)
    except OSError as error:
        raise state_error(work, error) from error
    run_steps(verify_steps(git, snapshot), limit_s=LIMIT_S)
    steps = _check_steps(git, os.path.join(work, "files"), pairs, {pair.path for pair in chosen}, direction)
    files, problems = run_steps(steps, limit_s=LIMIT_S)
    if problems:
        raise _refuse(state, folder, snapshot, problems, direction=direction)
    return files


def describe_refusal(direction: Direction) -> str:
    """How a sentence begins that says why nothing happened."""
    return f"Nothing was {'undone' if direction == 'undo' else 'applied'}"


def format_path(path: str) -> str:
    """A file's name for a sentence, whatever it is made of."""
    text = os.fsencode(path).decode(errors="backslashreplace")
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def _choose_pairs(folder: RunFolder, paths: Sequence[str]) -> list[VersionPair]:
    if not paths:
        return list_pairs(folder.path)
    given = " ".join(paths)
    try:
        chosen = list_pairs(folder.path, paths=paths)
    except SnapshotError as error:
        raise BadInput("PATHS", given, str(error), next_step="Name files of the work tree.") from error
    if not chosen:
        step = f"`inspan diff {folder.run_id} --name-only` lists those that it changed."
        raise BadInput("PATHS", given, f"run {folder.run_id} changed no such file.", next_step=step)
    return chosen


def _check_steps(
    git: Git, stage: str, pairs: Sequence[VersionPair], chosen: set[str], direction: Direction
) -> Steps[tuple[list[FileState], dict[str, str]]]:
    """The chosen files, and path → why it cannot be; lays the rules of the wanted versions into `stage`."""
    versions = {pair.path: _split_pair(pair, direction) for pair in pairs}
    known = {path: wanted if left.is_absent else left for path, (left, wanted) in versions.items() if path in chosen}
    found = yield from file_versions.current_version_steps(git, git.top, known)
    files = [
        FileState(path=path, left=versions[path][0], wanted=versions[path][1], found=found[path]) for path in known
    ]
    todo = [each for each in files if not each.is_done]
    staged = msgspec.structs.replace(git, top=stage)
    yield from file_versions.lay_rules_steps(staged, git.top, {path: pair[1] for path, pair in versions.items()})
    obstacles = yield from _obstacle_steps(staged, versions, files, direction)
    return files, {**_find_conflicts(git.top, todo), **obstacles}


def _split_pair(pair: VersionPair, direction: Direction) -> tuple[Version, Version]:
    before, after = (
        ABSENT if mode == ABSENT.mode else Version(mode, name)
        for mode, name in zip(pair.modes, pair.objects, strict=True)
    )
    return (after, before) if direction == "undo" else (before, after)


def _obstacle_steps(
    staged: Git, versions: Mapping[str, tuple[Version, Version]], files: Sequence[FileState], direction: Direction
) -> Steps[dict[str, str]]:
    """Path → why the snapshots do not tell enough of it."""
    every = {version for pair in versions.values() for version in pair}
    not_kept = yield from file_versions.stand_in_steps(staged, every)
    whole = {path: reason for path, pair in versions.items() if (reason := _explain_version(pair, not_kept))}
    # Of a folder that is a repository only a text is known: that no file is in its place does not say that it is gone.
    todo = [each for each in files if not each.is_done or (each.path in whole and each.found.place)]
    obstacles = {
        each.path: whole[above]
        for each in todo
        for above in (*list_parents(each.path)[1:], each.path)
        if above in whole
    }
    if direction == "apply":
        return obstacles
    # A filter is not run when a snapshot is taken: the first one may have what the filter keeps in a file's place.
    filtered = yield from file_versions.filter_steps(staged, [each.path for each in todo if not each.wanted.is_absent])
    obstacles |= dict.fromkeys(filtered, _FILTERED)
    # One that was not in the first snapshot and would have been ignored then may have been there all the same.
    if added := [each.path for each in todo if each.wanted.is_absent]:
        obstacles |= dict.fromkeys((yield from file_versions.find_ignored_steps(staged, added)), _IGNORED)
    return obstacles


def _explain_version(pair: tuple[Version, Version], not_kept: set[Version]) -> str:
    if any(version.mode == GITLINK_MODE for version in pair):
        return _SUBMODULE
    return _NOT_KEPT if not_kept.intersection(pair) else ""


def _find_conflicts(top: str, todo: Sequence[FileState]) -> dict[str, str]:
    """Path → why it cannot be as the files are now."""
    going = {each.path for each in todo if each.wanted.is_absent}
    conflicts: dict[str, str] = {}
    for each in todo:
        if each.found.version != each.left:
            conflicts[each.path] = _IN_THE_WAY if each.left.is_absent else _CHANGED
        elif not each.wanted.is_absent:
            conflicts |= dict.fromkeys(_find_in_the_way(top, each, going), _IN_THE_WAY)
        if obstacle := _inspect_folder(top, each.path):
            conflicts[each.path] = obstacle
    return conflicts


def _find_in_the_way(top: str, file: FileState, going: set[str]) -> Iterator[str]:
    """What is in the place of a file, or of a folder above it, and does not go."""
    for parent in list_parents(file.path)[1:]:
        place = lstat_inside(top, parent)
        if place and not stat.S_ISDIR(place.st_mode) and parent not in going:
            yield parent
    if file.found.place is None or not stat.S_ISDIR(file.found.place.st_mode):
        return
    emptied = {parent for path in going for parent in list_parents(path)}
    for each in walk_tree(os.path.join(top, file.path)):
        inside = os.path.join(file.path, *each.names)
        yield from (path for name in each.others if (path := os.path.join(inside, name)) not in going)
        staying = [name for name in each.folders if os.path.join(inside, name) not in emptied | going]
        yield from (os.path.join(inside, name) for name in staying)
        each.folders[:] = [name for name in each.folders if name not in staying]  # What is in them needs no name.


def _inspect_folder(top: str, path: str) -> str:
    """Why no name can be changed in the folder of a file, or in the nearest one that is there."""
    nearest = next(
        parent
        for parent in reversed(list_parents(path))
        if not parent or ((place := lstat_inside(top, parent)) and stat.S_ISDIR(place.st_mode))
    )
    folder = os.path.join(top, nearest)
    if not all(os.access(each, os.W_OK | os.X_OK) for each in (top, folder)):
        return _READ_ONLY
    # A file can be moved away, and back, within one file system only.
    return "" if os.stat(folder).st_dev == os.stat(top).st_dev else _MOUNTED


def _refuse(
    state: str, folder: RunFolder, snapshot: Snapshot, problems: Mapping[str, str], *, direction: Direction
) -> UndoRefused:
    changed = [path for path, reason in problems.items() if reason in (_CHANGED, _IN_THE_WAY)]
    later = find_later_runs(state, folder, snapshot, changed) if changed else {}
    lines = [
        f"  {format_path(path)}: {reason}{f', by run {later[path]}' if path in later else ''}"
        for path, reason in sorted(problems.items())
    ]
    hidden = len(lines) - _NAMED_FILES
    more = [f"  and {hidden} more"] if hidden > 0 else []
    message = f"{describe_refusal(direction)}, because of {_count(lines)} in {snapshot.top}:\n"
    steps = [f"`inspan undo {run}` first." for run in sorted(set(later.values()), reverse=True)[:1]]
    return UndoRefused(
        message + "\n".join([*lines[:_NAMED_FILES], *more]),
        next_step=" ".join([*steps, _suggest_leaving_out(folder, sorted(problems), direction)]),
        files=sorted(problems),
    )


def _count(lines: Sequence[str]) -> str:
    return "1 file" if len(lines) == 1 else f"{len(lines)} files"


def _suggest_leaving_out(folder: RunFolder, paths: Sequence[str], direction: Direction) -> str:
    command = f"inspan {direction} {folder.run_id}"
    if len(paths) > _LEFT_OUT_FILES or any(format_path(path) != path for path in paths):
        return f"Or name the files that can be: `{command} PATHS…`."
    left_out = " ".join(shlex.quote(f":(top,exclude){path}") for path in paths)
    return f"To leave {'it' if len(paths) == 1 else 'them'} out: `{command} {left_out}`."
