"""Writing a file whole or not at all, and changing one: whoever reads it sees what it held before, or after."""

import errno
import os
import stat

from inspan.errors import BadInput, FileChanged, FileRefused

from .reading import is_binary, read_open_file
from .root import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .root import Root

_DRAFT = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST_NAME_BYTES = 200
_LOCK_S = 10.0
_POLL_S = 0.005
_WATCHED = ("st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")


def write_file(root: "Root", *, path: str, content: str, append: bool = False) -> "dict[str, object]":
    """Puts `content` in the place of a file, or behind what it holds; missing folders are made."""
    data = _encode("--content", content)
    if append:
        return _change(root, path, lambda old: old + data, create=True)
    root.check_size(len(data), path)
    folder, name = root.open_target(path, create=True)
    try:
        known = _find_file(folder, name, path)
        _replace(folder, name, path, data=data, known=known)
    finally:
        os.close(folder)
    return {"path": path, "bytes": len(data), "created": known is None}


def edit_file(root: "Root", *, path: str, old: str, new: str, all: bool = False) -> "dict[str, object]":
    """Puts `new` in the place of `old`, which must be in the file once, or with `all` at least once."""
    before, after = _encode("--old", old), _encode("--new", new)
    if not before:
        raise BadInput("--old", old, "it is empty.", next_step="Use `write` for a new file.")
    if before == after:
        raise BadInput("--new", new, "it is the same as --old.", next_step="Give what is to be there instead.")
    count = 0

    def replace(data: bytes) -> bytes:
        nonlocal count
        count = data.count(before)
        _check_count(path, data, before, count, all=all)
        return data.replace(before, after)

    return {**_change(root, path, replace, create=False), "replacements": count}


def _encode(field: str, text: str) -> bytes:
    """Bytes that are no UTF-8 came as Python spells them on a command line, and go as they came."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError as error:
        raise BadInput(field, text, "it holds half of a character.", next_step="Write it in UTF-8.") from error


def _check_count(path: str, data: bytes, before: bytes, count: int, *, all: bool) -> None:
    if is_binary(data):
        raise FileRefused(f"path {path!r}: it is not text.", next_step="Use `write` to replace it.")
    if not count:
        step = "Read the file: --old must be there to the letter, with its spaces and line ends."
        if before.replace(b"\n", b"\r\n") in data:
            step = "The lines of this file end in CRLF: write \\r\\n, which --input can."
        raise FileRefused(f"path {path!r}: it does not contain --old.", next_step=step)
    if count > 1 and not all:
        step = "Give more of what stands around it, or change them all with --all."
        raise FileRefused(f"path {path!r}: it contains --old {count} times.", next_step=step)


def _change(root: "Root", path: str, change: "Callable[[bytes], bytes]", *, create: bool) -> "dict[str, object]":
    """Reads, changes and replaces a file; who else changes it by this program waits, who does by another is noticed."""
    folder, name = root.open_target(path, create=create)
    try:
        lock = _lock(folder, path)
        try:
            known = _find_file(folder, name, path)
            if known is None and not create:
                raise refuse(path, FileNotFoundError(errno.ENOENT, ""))
            data = change(_read(root, folder, name, path) if known else b"")
            root.check_size(len(data), path)
            _replace(folder, name, path, data=data, known=known, unchanged=True)
        finally:
            os.close(lock)
    finally:
        os.close(folder)
    return {"path": path, "bytes": len(data), "created": known is None}


def _read(root: "Root", folder: int, name: str, path: str) -> bytes:
    try:
        fd = root.open_entry(folder, name, path=path)
    except OSError as error:
        raise refuse(path, error) from error
    try:
        return read_open_file(root, fd, path)
    finally:
        os.close(fd)


def _lock(folder: int, path: str) -> int:
    """A lock on a folder, held until the descriptor is closed; raises `FileChanged` where another holds it for long."""
    import fcntl  # Start-up time: only changes need it.
    import time

    try:
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        raise refuse(path, error) from error
    deadline = time.monotonic() + _LOCK_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES) or time.monotonic() > deadline:
                os.close(fd)
                raise refuse(path, error) from error
        time.sleep(_POLL_S)


def _find_file(folder: int, name: str, path: str) -> "os.stat_result | None":
    """What is there now; raises `FileRefused` for what is no file, or may not be written."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refuse(path, error) from error
    if stat.S_ISDIR(found.st_mode):
        raise refuse(path, IsADirectoryError(errno.EISDIR, ""))
    if not stat.S_ISREG(found.st_mode):
        raise refuse(path, OSError(errno.ENXIO, ""))
    if not os.access(name, os.W_OK, dir_fd=folder):
        raise refuse(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    return found


def _replace(
    folder: int, name: str, path: str, *, data: bytes, known: "os.stat_result | None", unchanged: bool = False
) -> None:
    """Another name of the same file, a hard link, keeps what it has: the name leads to a new file afterwards."""
    short = os.fsdecode(os.fsencode(name)[:_LONGEST_NAME_BYTES])
    draft = f".{short}.{os.urandom(6).hex()}.draft"
    try:
        try:
            _write_draft(folder, draft, data, known)
            if unchanged:
                _check_unchanged(folder, name, path, known)
            os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            _discard(folder, draft)
            raise
        _sync_folder(folder)
    except OSError as error:
        raise refuse(path, error) from error


def _write_draft(folder: int, draft: str, data: bytes, known: "os.stat_result | None") -> None:
    fd = os.open(draft, _DRAFT, 0o666, dir_fd=folder)
    with open(fd, "wb") as file:
        if known:
            if os.geteuid() == 0 and (known.st_uid, known.st_gid) != (0, 0):
                os.fchown(fd, known.st_uid, known.st_gid)
            os.fchmod(fd, stat.S_IMODE(known.st_mode) & 0o777)
        file.write(data)
        file.flush()
        os.fsync(fd)


def _check_unchanged(folder: int, name: str, path: str, known: "os.stat_result | None") -> None:
    try:
        now = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        now = None
    if (now is None) != (known is None) or any(getattr(now, each) != getattr(known, each) for each in _WATCHED if now):
        raise FileChanged(
            f"path {path!r}: another program changed it meanwhile.", next_step="Read it again, then retry."
        )


def _sync_folder(folder: int) -> None:
    try:
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    except PermissionError:
        return  # A folder that may be written but not listed.
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _discard(folder: int, draft: str) -> None:
    try:
        os.unlink(draft, dir_fd=folder)
    except OSError:
        pass  # The first error says why.
