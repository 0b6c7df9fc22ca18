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

from .paths import make_private_folder, state_error

_PRIVATE = 0o700
_COPIES = 5
_PAUSE_S = 0.05
_Patterns = Sequence[Sequence[str]]


def keep_session_files(folder: str, patterns: Sequence[str]) -> None:
    """Removes everything from a folder but the plain files and folders that these patterns name, and what lies in such
    a folder; raises `StateUnusable`. Nobody else may be writing there.
    """
    try:
        _clear(folder, (), _split(patterns))
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


def _clear(folder: str, parts: Sequence[str], patterns: _Patterns) -> None:
    os.chmod(folder, _PRIVATE)  # Caches of some tools are folders that even their owner may not write to.
    with os.scandir(folder) as found:
        entries = list(found)
    for entry in entries:
        here = (*parts, entry.name)
        kept = _is_kept(here, patterns)
        if entry.is_dir(follow_symlinks=False):
            _clear(entry.path, here, patterns)
            if not kept and not _leads_on(here, patterns):
                os.rmdir(entry.path)
        elif not kept or not entry.is_file(follow_symlinks=False):
            os.unlink(entry.path)


def _list_files(source: str, patterns: Sequence[str]) -> dict[str, tuple[int, int]]:
    """The size and the last change of each file."""
    stats = {"/".join(parts): os.fstat(file) for parts, file in _open_files(source, patterns)}
    return {path: (found.st_size, found.st_mtime_ns) for path, found in stats.items()}


def _copy(source: str, target: str, patterns: Sequence[str]) -> None:
    import shutil  # Start-up time: it loads what it can unpack, and few sessions are copied.

    for parts, file in _open_files(source, patterns):
        path = os.path.join(target, *parts)
        make_private_folder(os.path.dirname(path))
        with open(file, "rb", closefd=False) as old, open(path, "wb", opener=_open_private) as new:
            shutil.copyfileobj(old, new)


def _open_files(source: str, patterns: Sequence[str]) -> Iterator[tuple[Sequence[str], int]]:
    """The plain files that are named, each open for as long as it is looked at: an agent may be at work there, and put
    a link in the place of a folder.
    """
    split = _split(patterns)
    for root, _, names, folder in os.fwalk(source, follow_symlinks=False):
        above = [part for part in os.path.relpath(root, source).split("/") if part != "."]
        for name in names:
            if _is_kept((*above, name), split) and (file := _open_plain(name, folder)) is not None:
                try:
                    yield (*above, name), file
                finally:
                    os.close(file)


def _open_plain(name: str, folder: int) -> int | None:
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None  # It is a link, or has just been deleted.
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
