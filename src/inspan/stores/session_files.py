"""What an agent keeps of a session in a config folder of its own, apart from all else that lies there.

A confined agent can write the whole folder: settings, hooks and plugins that its program would obey at the next start,
outside. Only what continues a session is kept, and no link of it is followed.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from inspan.system.inner_folders import open_inner_folder, open_plain_folder
from inspan.system.tree_walk import raise_error, walk_tree

from .paths import make_private_folder, state_error

_COPIES = 5
# No agent keeps a session in folders that are nested deeper.
_DEEPEST = 100
_PAUSE_S = 0.05
_Patterns = Sequence[Sequence[str]]


def keep_session_files(folder: str, patterns: Sequence[str]) -> None:
    """Removes everything from a folder but the plain files and folders that these patterns name, and what lies in such
    a folder; raises `StateUnusable`. Nobody else may be writing there.
    """
    try:
        _clear(folder, _split(patterns))
    except OSError as error:
        raise state_error(folder, error) from error


def copy_session_files(source: str, target: str, patterns: Sequence[str]) -> None:
    """Copies the plain files that these patterns name; raises `StateUnusable`.

    Whoever is writing them is waited for a moment: a database that is copied between two of its writes is whole.
    """
    try:
        for attempt in range(_COPIES):
            before = _list_files(source, patterns)
            _copy(source, target, patterns)
            if attempt + 1 == _COPIES or _list_files(source, patterns) == before:
                return
            time.sleep(_PAUSE_S)
    except OSError as error:
        raise state_error(source, error) from error


def open_plain(path: str, flags: int) -> int:
    """An opener for what an agent may have written: neither a link nor a pipe in the place of a file is opened."""
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise OSError(errno.EINVAL, "it is not a plain file", path)


def _split(patterns: Sequence[str]) -> _Patterns:
    return [pattern.split("/") for pattern in patterns]


def _is_kept(parts: Sequence[str], patterns: _Patterns) -> bool:
    """Whether a pattern names this path, or a folder that it lies in."""
    return any(len(pattern) <= len(parts) and _fits(parts, pattern) for pattern in patterns)


def _leads_on(parts: Sequence[str], patterns: _Patterns) -> bool:
    """Whether a pattern names something below this path."""
    return any(len(pattern) > len(parts) and _fits(parts, pattern) for pattern in patterns)


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    return all(fnmatchcase(part, each) for part, each in zip(parts, pattern, strict=False))


def _clear(folder: str, patterns: _Patterns) -> None:
    enough = max(map(len, patterns), default=0)  # So many names tell whether a pattern names what is below, too.
    for each in walk_tree(folder, inner_first=True, unlocks=True, on_error=raise_error):
        above = each.names[:enough]
        for name in each.others:
            if not _is_kept((*above, name), patterns) or not _is_file(name, each.fd):
                os.unlink(name, dir_fd=each.fd)
        for name in each.folders:
            here = (*above, name)
            if not _is_kept(here, patterns) and not _leads_on(here, patterns):
                os.rmdir(name, dir_fd=each.fd)


def _is_file(name: str, folder: int) -> bool:
    return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _list_files(source: str, patterns: Sequence[str]) -> dict[str, tuple[int, int]]:
    """The size and the last change of each file."""
    stats = {"/".join(parts): os.fstat(file) for parts, file in _open_files(source, patterns)}
    return {path: (found.st_size, found.st_mtime_ns) for path, found in stats.items()}


def _copy(source: str, target: str, patterns: Sequence[str]) -> None:
    import shutil  # Start-up time: it loads what it can unpack, and few sessions are copied.

    make_private_folder(target)
    top = open_plain_folder(os.path.realpath(target))
    try:
        for parts, file in _open_files(source, patterns):
            with open(file, "rb", closefd=False) as old, open(_create_private(top, parts), "wb") as new:
                shutil.copyfileobj(old, new)
    finally:
        os.close(top)


def _open_files(source: str, patterns: Sequence[str]) -> Iterator[tuple[Sequence[str], int]]:
    """The plain files that are named, each open for as long as it is looked at: an agent may be at work there, and put
    a link in the place of a folder.
    """
    split = _split(patterns)
    for each in walk_tree(source):
        for name in each.others:
            here = (*each.names, name)
            if _is_kept(here, split) and (file := _open_plain(name, each.fd)) is not None:
                try:
                    yield here, file
                finally:
                    os.close(file)
        if len(each.names) >= _DEEPEST:
            each.folders.clear()


def _open_plain(name: str, folder: int) -> int | None:
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None  # It is a link, or has just been deleted.
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None


def _create_private(top: int, parts: Sequence[str]) -> int:
    """A file in an open folder, and the folders around it; there may be no path that is long enough."""
    folder = open_inner_folder(top, "/".join(parts[:-1]), make=True)
    try:
        return os.open(
            parts[-1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder
        )
    finally:
        os.close(folder)
