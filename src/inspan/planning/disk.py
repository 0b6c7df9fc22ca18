"""Whether runs can be kept in a folder: room on its disk, and a file system on which locks and renames hold."""

import fcntl
import os
from contextlib import suppress

import msgspec

_SCARCE_BYTES = 200 * 1024 * 1024
_NEEDED_BYTES = 4 * 1024 * 1024
_NEEDED_FILES = 100
# Locks on these are those of a server, and SQLite keeps its index on one machine only.
_REMOTE = ("nfs", "cifs", "smb", "fuse.sshfs", "ceph", "lustre", "glusterfs", "afs")


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """What was found: `problem` stops every run, `warning` may one day."""

    kind: str
    free_bytes: int
    problem: str = ""
    warning: str = ""


def inspect_disk(folder: str, *, mounts: str = "/proc/self/mountinfo") -> Disk:
    """Looks at the disk of a folder that exists; tries it out with a small file that is gone afterwards."""
    kind, room = _find_filesystem(folder, mounts), os.statvfs(folder)
    free_bytes = room.f_bavail * room.f_frsize
    problem = _try_file_operations(folder)
    if not problem and free_bytes < _NEEDED_BYTES:
        problem = "the disk is full"
    if not problem and room.f_files and room.f_favail < _NEEDED_FILES:
        problem = "the disk has no room for more files"
    warning = "there is little room" if free_bytes < _SCARCE_BYTES else ""
    if kind.startswith(_REMOTE):
        warning = f"{kind} is a network file system: locks and the index may not hold there"
    return Disk(kind=kind, free_bytes=free_bytes, problem=problem, warning="" if problem else warning)


def _try_file_operations(folder: str) -> str:
    """What does not work of all that a run does to its files; empty when everything does."""
    path, moved = (os.path.join(folder, f".doctor-{os.getpid()}{end}") for end in ("", ".moved"))
    doing, fds = "a file cannot be made", list[int]()
    try:
        fds.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        doing = "a file cannot be written"
        os.write(fds[0], b"inspan")
        os.fsync(fds[0])
        doing = "a file cannot be locked"
        fcntl.flock(fds[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        fds.append(os.open(path, os.O_RDWR | os.O_CLOEXEC))
        if not _is_held(fds[1]):
            return "a lock does not hold: two processes could write one run"
        doing = "a file cannot be renamed"
        os.rename(path, moved)
        doing = "no link can be made"
        os.symlink(moved, path)
    except OSError as error:
        return f"{doing}: {error.strerror}"
    finally:
        for fd in fds:
            os.close(fd)
        for each in (path, moved):
            with suppress(OSError):
                os.unlink(each)
    return ""


def _is_held(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _find_filesystem(folder: str, mounts: str) -> str:
    """The type of the file system that the folder is on, by the last mount of its device."""
    device = os.stat(folder).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    found = "unknown"
    with suppress(OSError), open(mounts, encoding="utf-8", errors="replace") as file:
        for line in file:
            mount, _, rest = line.partition(" - ")
            if mount.split()[2] == wanted:
                found = rest.split()[0]
    return found
