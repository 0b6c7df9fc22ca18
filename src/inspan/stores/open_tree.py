"""A work tree that is held open: files are looked at, moved and removed by descriptors, never by way of a link.

Whoever works in a tree can put a link in the place of a folder at any moment: between the look at a path and its use, a
path by name would lead elsewhere.
"""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress

from inspan.system.inner_folders import open_inner_folder, open_plain_folder
from inspan.system.tree_walk import delete_folder, ignore_error, walk_tree

_DRAFT = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OpenTree:
    """The folder that `hold` lies in, and `hold` itself, which is for files that come and go. All paths are whole, and
    below it; each method raises `OSError` with the path. `close` gives the descriptors back.
    """

    def __init__(self, hold: str) -> None:
        self.top = os.path.dirname(hold)
        self._hold = hold
        self._top_fd = self._hold_fd = -1

    def open(self, *, make: bool) -> None:
        """Opens both; with `make`, `hold` is made, and must not be there."""
        self._top_fd = open_plain_folder(self.top)
        if make:
            self.make_folder(self._hold, mode=0o700)
        self._hold_fd = open_inner_folder(self._top_fd, os.path.basename(self._hold))

    def close(self) -> None:
        """Gives the descriptors back; what was opened in part, too."""
        for fd in (self._top_fd, self._hold_fd):
            if fd >= 0:
                os.close(fd)
        self._top_fd = self._hold_fd = -1

    def look(self, path: str) -> os.stat_result | None:
        """What is there, be it a link; nothing where a folder above it is missing, or none."""
        with suppress(FileNotFoundError, NotADirectoryError), self._open_parent(path) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)
        return None

    def rename(self, source: str, target: str) -> None:
        """Moves a file; what is in its new place is replaced."""
        with self._open_parent(source) as (old, name), self._open_parent(target) as (new, new_name):
            os.rename(name, new_name, src_dir_fd=old, dst_dir_fd=new)

    def make_folder(self, path: str, *, mode: int = 0o777) -> None:
        """A new folder in one that is there."""
        with self._open_parent(path) as (folder, name):
            os.mkdir(name, mode, dir_fd=folder)

    def remake_folder(self, path: str, mode: int) -> None:
        """The same with these permissions, whatever the umask says."""
        with self._open_parent(path) as (folder, name):
            os.mkdir(name, dir_fd=folder)
            made = os.open(name, _FOLDER, dir_fd=folder)
            try:
                os.fchmod(made, mode)
            finally:
                os.close(made)

    def remove_folder(self, path: str) -> None:
        """Removes an empty one."""
        with self._open_parent(path) as (folder, name):
            os.rmdir(name, dir_fd=folder)

    def remove_empty_folders(self, path: str) -> None:
        """The folder at a path, and those in it, as far as nothing is in them."""
        with suppress(OSError), self._open_parent(path) as (folder, name):
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                for inside in walk_tree(name, dir_fd=folder, inner_first=True):
                    for each in inside.folders:
                        with suppress(OSError):  # Something is in it.
                            os.rmdir(each, dir_fd=inside.fd)
                os.rmdir(name, dir_fd=folder)

    def remove_hold(self) -> None:
        """Removes `hold` with all that is in it, as far as that can be."""
        if self._top_fd >= 0:
            delete_folder(os.path.basename(self._hold), dir_fd=self._top_fd, on_error=ignore_error)

    def create_file(self, path: str) -> int:
        """A new file, open for writing, which the caller closes; none is there, nor a link."""
        with self._open_parent(path) as (folder, name):
            return os.open(name, _DRAFT, 0o600, dir_fd=folder)

    def create_link(self, path: str, target: str) -> None:
        """A new symbolic link."""
        with self._open_parent(path) as (folder, name):
            os.symlink(target, name, dir_fd=folder)

    @contextmanager
    def _open_parent(self, path: str) -> Generator[tuple[int, str]]:
        parent, name = os.path.split(path)
        folder = -1
        try:
            folder = self._open_folder(parent)
            yield folder, name
        except OSError as error:
            if os.path.isabs(error.filename or ""):
                raise
            raise OSError(error.errno, error.strerror, path) from error  # It names what lies in an open folder.
        finally:
            if folder >= 0:
                os.close(folder)

    def _open_folder(self, path: str) -> int:
        if path == self._hold and self._hold_fd >= 0:
            return os.dup(self._hold_fd)  # Wherever somebody has moved it.
        return open_inner_folder(self._top_fd, os.path.relpath(path, self.top))
