"""What lies in the state folder and belongs to no run any more: sessions, sockets, drafts. Finding deletes nothing."""

import os
import re
import socket
import stat
import time
from collections.abc import Iterator, Set

import msgspec

from inspan.errors import StateUnusable
from inspan.protocol.ids import RUN_ID

from .folder import RunFolder, all_runs, is_held
from .paths import runtime_home, socket_path, unusable
from .sessions import read_session, session_of

# A file of this age is not being written just now, and a socket is not being opened.
_SETTLED_S = 60.0
_SOCKET = re.compile(rf"[0-9a-f]{{8}}-({RUN_ID.pattern})\.sock")


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
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
    home: str
    runs: tuple[str, ...]


def run_folders(state: str) -> Iterator[os.DirEntry[str]]:
    """Every folder that a run has claimed, whatever became of it."""
    for runs in _homes_of_runs(state):
        yield from _folders(runs)


def left_sessions(state: str, *, gone: Set[str] = frozenset()) -> list[Leftover]:
    """Sessions none of whose runs is there any more, taking the runs in `gone` for deleted.

    A session that a process has locked stays, and so does one whose config another session uses.
    """
    # Sessions before runs: a run claims its folder first, so that whatever session is seen here has its run below.
    found = [each for each in (_session(state, folder) for folder in _folders(os.path.join(state, "sessions"))) if each]
    living = {folder.name for folder in run_folders(state)} - gone
    kept = [each for each in found if not living.isdisjoint(each.runs) or is_held(os.path.join(each.path, "lock"))]
    needed = {each.name for each in kept} | {each.home for each in kept}
    return [_leftover(each.path) for each in found if each.name not in needed]


def left_sockets(state: str) -> list[Leftover]:
    """Control sockets of this state folder's runs that nobody listens on."""
    try:
        entries = list(os.scandir(runtime_home()))
    except OSError:
        return []  # Not there, or not ours.
    homes = list(_homes_of_runs(state))
    return [_leftover(entry.path) for entry in entries if _is_of(entry, homes) and _is_deaf(entry)]


def left_drafts(state: str) -> list[Leftover]:
    """Files that were being written when their writer died."""
    folders = [*run_folders(state), *_folders(os.path.join(state, "sessions"))]
    return [
        _leftover(entry.path)
        for folder in folders
        for entry in _listed(folder.path)
        if entry.name.endswith(".draft") and entry.is_file(follow_symlinks=False) and _is_settled(entry)
    ]


def disk_bytes(path: str) -> int:
    """The room that a file or a folder with all that is in it takes on the disk."""
    size = _blocks(path)
    for folder, folders, files in os.walk(path):
        size += sum(_blocks(os.path.join(folder, name)) for name in (*folders, *files))
    return size


def _homes_of_runs(state: str) -> Iterator[str]:
    for project in _folders(os.path.join(state, "projects")):
        for task in _folders(project.path):
            yield os.path.join(task.path, "runs")


def _leftover(path: str) -> Leftover:
    return Leftover(path=path, size_bytes=disk_bytes(path))


def _session(state: str, folder: os.DirEntry[str]) -> _Session | None:
    """A session; one without a record is that of the run it is named after. Nothing for a folder that is none."""
    try:
        record = read_session(state, folder.name)
    except StateUnusable:
        named = [run.run_id for run in all_runs(state) if _names(run, folder.name)]
        return _Session(name=folder.name, path=folder.path, home="", runs=(folder.name, *named))
    if record:
        return _Session(name=folder.name, path=folder.path, home=record.home, runs=record.runs)
    if RUN_ID.fullmatch(folder.name):
        return _Session(name=folder.name, path=folder.path, home="", runs=(folder.name,))
    return None


def _names(run: RunFolder, session: str) -> bool:
    try:
        return session_of(run) == session
    except StateUnusable:
        return False


def _is_of(entry: os.DirEntry[str], homes: list[str]) -> bool:
    """Whether a socket has the name that a run in one of these folders gives it."""
    match = _SOCKET.fullmatch(entry.name)
    return match is not None and any(
        socket_path(os.path.join(runs, match[1]), match[1]) == entry.path for runs in homes
    )


def _is_deaf(entry: os.DirEntry[str]) -> bool:
    try:
        if not stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode) or not _is_settled(entry):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.setblocking(False)
            client.connect(entry.path)
    except ConnectionRefusedError:
        return True
    except OSError:
        return False  # Busy, gone or not ours.
    return False


def _is_settled(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.stat(follow_symlinks=False).st_mtime < time.time() - _SETTLED_S
    except OSError:
        return False


def _folders(path: str) -> list[os.DirEntry[str]]:
    return [entry for entry in _listed(path) if entry.is_dir(follow_symlinks=False)]


def _listed(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise unusable(path, error) from error


def _blocks(path: str) -> int:
    try:
        return os.lstat(path).st_blocks * 512
    except OSError:
        return 0  # Gone in the meantime.
