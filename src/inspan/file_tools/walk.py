"""Opens a path beneath a folder name by name, as `openat2` does: for systems and containers that have no such call.

No name is opened through a link. A link is read, and what it says is walked from the folder that it lies in, so that
one that is put in the way meanwhile is not followed unseen.
"""

import errno
import os
import stat

_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)
_FOLDER = _O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# As many as the kernel follows.
_MOST_LINKS = 40


def open_by_names(folder: int, path: str, flags: int) -> int:
    """A descriptor; raises `OSError`, with EXDEV for what leads out of the folder, by a link, `..` or a mount."""
    if path.startswith("/"):
        raise _leaves(path)
    mount = find_mount(folder)
    names, links = path.split("/")[::-1], 0
    if path.endswith("/"):
        flags |= os.O_DIRECTORY
    opened = [os.dup(folder)]
    try:
        while names:
            name = names.pop()
            if name == "..":
                os.close(opened.pop())
                if not opened:
                    raise _leaves(path)
            elif name not in ("", "."):
                last = not any(names)
                target = "" if last and flags & os.O_NOFOLLOW else _read_link(name, opened[-1])
                if target:
                    links += 1
                    if links > _MOST_LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                    if target.startswith("/"):
                        raise _leaves(path)
                    names += target.split("/")[::-1]
                    continue
                opened.append(_open_name(name, opened[-1], flags if last else _FOLDER))
                if find_mount(opened[-1]) != mount:
                    raise _leaves(path)
                if last:
                    return opened.pop()
        return os.open(".", flags | os.O_CLOEXEC, dir_fd=opened[-1])
    finally:
        for fd in opened:
            os.close(fd)


def find_mount(fd: int) -> str:
    """What differs between two mounted file systems: Linux's number of the mount, elsewhere that of the device."""
    try:
        with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as file:
            found = next((line for line in file if line.startswith("mnt_id:")), "")
    except OSError:
        found = ""
    return found or str(os.fstat(fd).st_dev)


def _read_link(name: str, folder: int) -> str:
    """What a link says; nothing for whatever is none."""
    if not stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return ""
    return os.readlink(name, dir_fd=folder)


def _open_name(name: str, folder: int, flags: int) -> int:
    return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


def _leaves(path: str) -> OSError:
    return OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
