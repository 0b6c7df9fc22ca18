"""Whether git has read the files of a work tree, and not what a link led it to.

Git looks at a path and then opens it, by name. Who puts a link there in between has it read a file that only the owner
of this process may read; and a snapshot that is put back would show it.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from functools import partial

from inspan.system.inner_folders import open_inner_folder, open_plain_folder

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK_BYTES = 1024 * 1024
_SHA1_DIGITS = 40


def find_misread(top: str, read: Mapping[bytes, str]) -> Iterable[bytes | None]:
    """Of files by their names and what git calls their contents, those that have another now; `None` after each file.

    Each is opened name by name, and no link is followed.
    """
    folder = open_plain_folder(os.path.realpath(top))
    try:
        for name, content in read.items():
            if _name_content(folder, os.fsdecode(name), len(content)) != content:
                yield name
            yield None
    finally:
        os.close(folder)


def _name_content(top: int, path: str, digits: int) -> str:
    """What git calls the content of a file or link; empty where there is none."""
    parent, name = os.path.split(path)
    try:
        folder = open_inner_folder(top, parent)
        try:
            if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                link = os.fsencode(os.readlink(name, dir_fd=folder))
                return _hash_blob([link], len(link), digits)
            return _hash_file(os.open(name, _FILE, dir_fd=folder), digits)
        finally:
            os.close(folder)
    except OSError:
        return ""


def _hash_file(fd: int, digits: int) -> str:
    with open(fd, "rb", buffering=0) as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return ""
        return _hash_blob(iter(partial(file.read, _CHUNK_BYTES), b""), found.st_size, digits)


def _hash_blob(chunks: Iterable[bytes], size_bytes: int, digits: int) -> str:
    hashed = hashlib.new("sha1" if digits == _SHA1_DIGITS else "sha256", usedforsecurity=False)
    hashed.update(b"blob %d\0" % size_bytes)
    for chunk in chunks:
        hashed.update(chunk)
    return hashed.hexdigest()
