"""Test files that stand in a worktree only for as long as they are run.

What stood in their places lies in `RUN.aside` meanwhile: it is moved there, and nothing is copied. Where a process was
killed in between, whoever takes the worktree up, saves or removes it puts that back first.
"""

import os
import stat
from collections.abc import Iterable, Mapping

import msgspec

from inspan.errors import WorktreeUnusable
from inspan.protocol.known_types import know_type

from .deletion import delete_tree
from .file_versions import list_parents, lstat_inside
from .git import SnapshotError
from .patched_files import write_patched_files
from .paths import make_private_folder, state_error
from .run_folder import read_json, remove_file, write_json
from .worktree import Worktree, build_aside_path

_RECORD, _KEPT = "record.json", "kept"


class _Place(msgspec.Struct, frozen=True, kw_only=True):
    """What has to give way, if anything is there: a path of the worktree, its bytes as Latin-1."""

    name: str
    is_taken: bool

    @property
    def path(self) -> str:
        return os.fsdecode(self.name.encode("latin-1"))


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """Written before anything moves: it tells what to put back, and what else to remove."""

    places: list[_Place]


def lay_patch(worktree: Worktree, patch: str) -> None:
    """Makes the files that a patch changes what it makes of them in the worktree's first commit, whatever stands there;
    the caller holds its lock, and calls `put_back` afterwards.

    Raises `WorktreeUnusable` or `StateUnusable`, and then all is as it was.
    """
    put_back(worktree.path)
    try:
        make_private_folder(worktree.aside)
        files = write_patched_files(worktree.common, worktree.base, patch, folder=worktree.aside)
        _lay_files(worktree.path, worktree.aside, files)
    except (SnapshotError, OSError) as error:
        put_back(worktree.path)
        why = error if isinstance(error, SnapshotError) else f"{error.filename}: {error.strerror}."
        message = f"The tests of the patch cannot be put into the worktree {worktree.path}: {why}"
        raise WorktreeUnusable(message, next_step="Correct that, and try again.") from error
    except BaseException:
        put_back(worktree.path)
        raise


def put_back(path: str) -> None:
    """Takes such files out of the worktree with this path, and puts back what stood in their places; where there are
    none, nothing happens. The caller holds its lock. Raises `StateUnusable`, and can be repeated."""
    aside = build_aside_path(path)
    if not os.path.lexists(aside):
        return
    try:
        for number, place in enumerate(_read_places(aside) if os.path.isdir(path) else ()):
            _clear_place(path, place, kept=_build_kept_path(aside, number))
        remove_file(os.path.join(aside, _RECORD))  # From now on, what comes to stand there is somebody else's.
    except OSError as error:
        raise state_error(error.filename or path, error) from error
    delete_tree(aside)


def _lay_files(top: str, aside: str, files: Mapping[str, str]) -> None:
    places = _find_places(top, files)
    os.mkdir(os.path.join(aside, _KEPT))
    write_json(os.path.join(aside, _RECORD), msgspec.to_builtins(_Record(places=places)))
    for number, place in enumerate(places):
        if place.is_taken:
            os.rename(os.path.join(top, place.path), _build_kept_path(aside, number))
    for path, source in files.items():
        if source:
            target = os.path.join(top, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.rename(source, target)


def _find_places(top: str, paths: Iterable[str]) -> list[_Place]:
    """The outermost ones, so that none of them lies in another."""
    found = dict(_find_place(top, path) for path in paths)
    outermost = [path for path in sorted(found) if not found.keys() & {*list_parents(path)}]
    return [_Place(name=os.fsencode(path).decode("latin-1"), is_taken=found[path]) for path in outermost]


def _find_place(top: str, path: str) -> tuple[str, bool]:
    """The first part of a path that is missing, or is in its way as no folder, or else the path; and whether anything
    is there. No link is followed: it may lead anywhere."""
    for part in (*list_parents(path)[1:], path):
        place = lstat_inside(top, part)
        if place is None or not stat.S_ISDIR(place.st_mode):
            return part, place is not None
    return path, True


def _clear_place(top: str, place: _Place, *, kept: str) -> None:
    """Removes what stands there, and puts back what is kept of it."""
    if place.is_taken and not os.path.lexists(kept):
        return  # It was never moved, or is back.
    if lstat_inside(top, place.path):
        _remove(os.path.join(top, place.path))
    if place.is_taken:
        _make_parents(top, place.path)
        os.rename(kept, os.path.join(top, place.path))


def _make_parents(top: str, path: str) -> None:
    """The folders above a path, which a check may have removed, or put something in the place of."""
    for parent in list_parents(path)[1:]:
        folder = os.path.join(top, parent)
        if os.path.islink(folder) or not os.path.isdir(folder):
            remove_file(folder)
            os.mkdir(folder)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        delete_tree(path)
    else:
        remove_file(path)


def _read_places(aside: str) -> list[_Place]:
    path = os.path.join(aside, _RECORD)
    return msgspec.convert(read_json(path), know_type(_Record)).places if os.path.lexists(path) else []


def _build_kept_path(aside: str, number: int) -> str:
    return os.path.join(aside, _KEPT, str(number))
