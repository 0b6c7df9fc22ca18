"""What lies in the state folder and belongs to no run any more: sessions, sockets, drafts. Finding deletes nothing."""

import os
import re
import socket
import stat
import time
from collections.abc import Iterator, Set
from contextlib import suppress

import msgspec

from inspan.errors import StateUnusable
from inspan.protocol.ids import RUN_ID
from inspan.system.file_locks import is_held
from inspan.system.tree_walk import walk_tree

from .paths import is_private, runtime_home, socket_path, state_error
from .run_folder import RunFolder, all_runs
from .sessions import read_session, session_key_of

# A file of this age is not being written just now, and a socket is not being opened.
_MIN_AGE_S = 60.0
_SOCKET = re.compile(rf"[0-9a-f]{{8}}-({RUN_ID.pattern})\.sock")


class Orphan(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder that can go, and the room it takes."""

    path: str
    size_bytes: int

    @property
    def name(self) -> str:
        return os.path.basename(self.path)


class _Session(msgspec.Struct, frozen=True, kw_only=True):
    """What matters here of a session: the runs in it, and the session whose folder holds its config."""

    name: str
    path: str
    runs: tuple[str, ...]


def list_run_folders(state: str, *, project: str = "") -> Iterator[os.DirEntry[str]]:
    """Every folder that a run has claimed, whatever became of it; with a project, those in its folder."""
    for runs in _list_runs_folders(state, project):
        yield from _list_folders(runs)


def find_orphan_sessions(state: str, *, deleted: Set[str] = frozenset()) -> list[Orphan]:
    """Sessions none of whose runs is there any more, counting the runs in `deleted` as gone.

    A session that a process has locked stays.
    """
    # Sessions before runs: a run claims its folder first, so that whatever session is seen here has its run below.
    found = [
        each
        for each in (_load_session(state, folder) for folder in _list_folders(os.path.join(state, "sessions")))
        if each
    ]
    living = {folder.name for folder in list_run_folders(state)} - deleted
    return [
        _build_orphan(each.path)
        for each in found
        if living.isdisjoint(each.runs) and not is_held(os.path.join(each.path, "lock"))
    ]


def find_orphan_sockets(state: str, *, project: str = "") -> list[Orphan]:
    """Control sockets of this state folder's runs, or of one project's, that nobody listens on."""
    sockets = runtime_home()
    try:
        entries = list(os.scandir(sockets)) if is_private(sockets) else []
    except OSError:
        return []
    homes = list(_list_runs_folders(state, project))
    return [_build_orphan(entry.path) for entry in entries if _is_socket_of(entry, homes) and _is_unused(entry)]


def find_orphan_drafts(state: str, *, project: str = "") -> list[Orphan]:
    """Files that were being written when their writer died; with a project, those of its runs."""
    sessions = [] if project else _list_folders(os.path.join(state, "sessions"))
    folders = [*list_run_folders(state, project=project), *sessions]
    return [
        _build_orphan(entry.path)
        for folder in folders
        for entry in _list_readable(folder.path)
        if entry.name.endswith(".draft") and entry.is_file(follow_symlinks=False) and is_old(entry)
    ]


def disk_bytes(path: str) -> int:
    """The room that a file or a folder with all that is in it takes on the disk."""
    size = _count_block_bytes(path)
    with suppress(OSError):  # It is a file, or is gone: a size that cannot be had must not end a listing.
        for each in walk_tree(path):
            size += sum(_count_block_bytes(name, each.fd) for name in (*each.folders, *each.others))
    return size


def is_old(entry: os.DirEntry[str]) -> bool:
    """Whether nobody has written it in the last minute."""
    try:
        return entry.stat(follow_symlinks=False).st_mtime < time.time() - _MIN_AGE_S
    except OSError:
        return False


def _list_runs_folders(state: str, project: str) -> Iterator[str]:
    for folder in _list_folders(os.path.join(state, "projects")):
        if project in ("", folder.name):
            for task in _list_folders(folder.path):
                yield os.path.join(task.path, "runs")


def _build_orphan(path: str) -> Orphan:
    return Orphan(path=path, size_bytes=disk_bytes(path))


def _load_session(state: str, folder: os.DirEntry[str]) -> _Session | None:
    """A session; one without a record is that of the run it is named after. Nothing for a folder that is none."""
    try:
        record = read_session(state, folder.name)
    except StateUnusable:
        named = [run.run_id for run in all_runs(state) if _belongs_to(run, folder.name)]
        return _Session(name=folder.name, path=folder.path, runs=(folder.name, *named))
    if record:
        return _Session(name=folder.name, path=folder.path, runs=record.runs)
    if RUN_ID.fullmatch(folder.name):
        return _Session(name=folder.name, path=folder.path, runs=(folder.name,))
    return None


def _belongs_to(run: RunFolder, session: str) -> bool:
    try:
        return session_key_of(run) == session
    except StateUnusable:
        return False


def _is_socket_of(entry: os.DirEntry[str], homes: list[str]) -> bool:
    """Whether a socket has the name that a run in one of these folders gives it."""
    match = _SOCKET.fullmatch(entry.name)
    return match is not None and any(
        socket_path(os.path.join(runs, match[1]), match[1]) == entry.path for runs in homes
    )


def _is_unused(entry: os.DirEntry[str]) -> bool:
    try:
        if not stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode) or not is_old(entry):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.setblocking(False)
            client.connect(entry.path)
    except ConnectionRefusedError:
        return True
    except OSError:
        return False  # Busy, gone or not ours.
    return False


def _list_folders(path: str) -> list[os.DirEntry[str]]:
    return [entry for entry in _list_entries(path) if entry.is_dir(follow_symlinks=False)]


def _list_readable(path: str) -> list[os.DirEntry[str]]:
    """What is in a folder; nothing, where it is closed to us: it is a stray, and no draft of ours is in it."""
    try:
        return _list_entries(path)
    except StateUnusable:
        return []


def _list_entries(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise state_error(path, error) from error


def _count_block_bytes(path: str, folder: int | None = None) -> int:
    try:
        return os.stat(path, dir_fd=folder, follow_symlinks=False).st_blocks * 512
    except OSError:
        return 0  # Gone in the meantime.
