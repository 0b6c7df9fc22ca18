"""ROOT, opened once: each path is opened beneath it, and no link, race, mount or device on the way leads out."""

import errno
import os
import stat

from inspan.errors import BadInput, FileChanged, FileRefused

from .openat2 import find_kernel_opener
from .own_program import list_own_folders
from .walk import open_by_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    # The folder, a path beneath it, flags; it raises `OSError` with EXDEV for what leads out.
    Opener = Callable[[int, str, int], int]

MAX_FILE_BYTES = 10_000_000
PORTABLE_VARIABLE = "INSPAN_PORTABLE"
_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)
_ANCHOR = _O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_LOOK = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_UNREAL = ("/proc", "/sys")
_MOST_LINKS = 40
_DEEPEST = 1000
_LONGEST_BYTES = 4000
_PROBLEMS = {
    errno.EXDEV: "it leads out of ROOT: by `..`, by a link, or onto another mounted file system.",
    errno.ELOOP: "there are too many links on its way, or one of the kernel's own.",
    errno.ENOENT: "there is no such file or folder.",
    errno.ENOTDIR: "a name on its way is no folder.",
    errno.EISDIR: "it is a folder.",
    errno.ENXIO: "it is not an ordinary file.",
    errno.ENAMETOOLONG: "the name is too long.",
    errno.ENOSPC: "the disk is full.",
    errno.EDQUOT: "the quota of the disk is used up.",
}


class Root:
    """A folder and what may be done beneath it; `close` gives its descriptor back.

    `hard_links` lets files be read that have another name too, which may lie elsewhere. `read_only` refuses to write.
    """

    def __init__(
        self, path: str, *, max_bytes: int = MAX_FILE_BYTES, hard_links: bool = False, read_only: bool = False
    ) -> None:
        self.path = os.path.normpath(path)
        self.max_bytes = max_bytes
        self.hard_links = hard_links
        self.read_only = read_only
        self.fd = _open_root(path)
        kernel = None if os.environ.get(PORTABLE_VARIABLE) else find_kernel_opener(self.fd)
        self._open: Opener = kernel or open_by_names

    @property
    def by_kernel(self) -> bool:
        """Whether the kernel keeps paths beneath ROOT; else their names are walked one by one."""
        return self._open is not open_by_names

    def close(self) -> None:
        os.close(self.fd)

    def open_folder(self, path: str, *, flags: int = os.O_RDONLY) -> int:
        """An open folder, which the caller closes; raises `FileRefused`."""
        try:
            return self._open(self.fd, self.make_relative(path), flags | os.O_DIRECTORY)
        except OSError as error:
            if error.errno == errno.ENOTDIR:
                raise FileRefused(f"path {path!r}: it is not a folder.", next_step=_LIST_HINT) from error
            raise refuse(path, error) from error

    def open_file(self, path: str) -> int:
        """An ordinary file, open for reading, which the caller closes; raises `FileRefused`, and never waits."""
        try:
            return self.open_entry(self.fd, self.make_relative(path), path=path, follow=True)
        except OSError as error:
            raise refuse(path, error) from error

    def open_entry(self, folder: int, name: str, *, path: str, follow: bool = False) -> int:
        """The same for a name in an open folder; raises `OSError` too. It is looked at before it is opened: to open a
        device can do something."""
        stay = 0 if follow else os.O_NOFOLLOW
        fd = self._open(folder, name, _LOOK | stay)
        try:
            self.check_file(os.fstat(fd), path)
        finally:
            os.close(fd)
        fd = self._open(folder, name, _READ | stay)
        try:
            self.check_file(os.fstat(fd), path)
        except FileRefused:
            os.close(fd)
            raise
        return fd

    def open_inner_folder(self, folder: int, name: str) -> int:
        """A folder in an open one, never by a link; raises `OSError`."""
        return self._open(folder, name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)

    def describe(self, path: str) -> "tuple[os.stat_result, str]":
        """What is at a path, and where it leads if it is a link; raises `FileRefused`."""
        folder, name = self.open_parent(path)
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            return found, os.readlink(name, dir_fd=folder) if stat.S_ISLNK(found.st_mode) else ""
        except OSError as error:
            raise refuse(path, error) from error
        finally:
            os.close(folder)

    def open_parent(self, path: str) -> tuple[int, str]:
        """The folder that a path ends in, open, and the last name; raises `FileRefused`."""
        folders, _, name = self.make_relative(path).rstrip("/").rpartition("/")
        if name in ("", ".", ".."):
            return self.open_folder(path, flags=_O_PATH), "."
        try:
            return self._open(self.fd, folders or ".", _O_PATH | os.O_DIRECTORY), name
        except OSError as error:
            raise refuse(path, error) from error

    def open_target(self, path: str, *, create: bool) -> tuple[int, str]:
        """Where a file is to be written: its folder, and its name, which is no link's any more. With `create`, missing
        folders are made.

        Raises `FileRefused`: also for a folder from which this program itself is loaded.
        """
        if self.read_only:
            raise FileRefused(f"path {path!r}: ROOT is read-only here.", next_step="Read, list or search instead.")
        target = self.make_relative(path)
        if target.endswith("/") or os.path.basename(target) in ("", ".", ".."):
            raise FileRefused(f"path {path!r}: it is a folder.", next_step="Name a file.")
        for _ in range(_MOST_LINKS):
            folders, _, name = target.rpartition("/")
            folder = self._open_folders(folders, path, create=create)
            try:
                link = _read_link(name, folder)
                if not link:
                    self._check_place(folder, path)
                    return folder, name
            except BaseException:
                os.close(folder)
                raise
            os.close(folder)
            if link.startswith("/"):
                raise refuse(path, OSError(errno.EXDEV, ""))
            target = f"{folders}/{link}" if folders else link
        raise refuse(path, OSError(errno.ELOOP, ""))

    def check_file(self, found: os.stat_result, path: str) -> None:
        """Raises `FileRefused` for what is no ordinary file, or might be one from elsewhere, or is too large."""
        if stat.S_ISDIR(found.st_mode):
            raise FileRefused(f"path {path!r}: it is a folder.", next_step=_LIST_HINT)
        if not stat.S_ISREG(found.st_mode):
            raise FileRefused(f"path {path!r}: it is not an ordinary file.", next_step="Name another.")
        if found.st_nlink > 1 and not self.hard_links:
            names = f"it has {found.st_nlink} names (hard links), and one of them may lie outside of ROOT."
            step = "Name another file; who starts this program can allow it: `inspan file-tools --hard-links ROOT`."
            raise FileRefused(f"path {path!r}: {names}", next_step=step)
        self.check_size(found.st_size, path)

    def check_size(self, size_bytes: int, path: str) -> None:
        """Raises `FileRefused` for more than may be read or written."""
        if size_bytes > self.max_bytes:
            problem = f"it has {size_bytes} bytes; at most {self.max_bytes} can be read or written."
            step = "Name another file; who starts this program can allow more: `--max-bytes N` before ROOT."
            raise FileRefused(f"path {path!r}: {problem}", next_step=step)

    def make_relative(self, path: str) -> str:
        """A path as it is opened: a whole one may begin with ROOT, as it was given. Raises `FileRefused`, also where
        ROOT itself was deleted: another folder of its name is not the one that was opened.
        """
        if not os.fstat(self.fd).st_nlink:
            step = "Start this program again once it is there."
            raise FileRefused(f"ROOT {self.path!r}: it was deleted.", next_step=step)
        if not path or "\0" in path or not _is_name(path):
            problem = "it is empty, has a NUL in it, or half of a character."
            raise BadInput("path", path, problem, next_step="Name a file beneath ROOT.")
        if len(os.fsencode(path)) > _LONGEST_BYTES:
            raise refuse(path[:80], OSError(errno.ENAMETOOLONG, ""))
        if not path.startswith("/"):
            return path
        rest = path.removeprefix(self.path)
        if rest != path and rest[:1] in ("", "/"):
            return rest.lstrip("/") or "."
        raise FileRefused(f"path {path!r}: it is outside of ROOT.", next_step="Write it relative to ROOT.")

    def _open_folders(self, folders: str, path: str, *, create: bool) -> int:
        """The folder of a file; with `create`, those that are missing are made."""
        names, missing = folders.split("/"), list[str]()
        while True:  # From the end: usually all of them are there.
            try:
                fd = self._open(self.fd, "/".join(names) or ".", _O_PATH | os.O_DIRECTORY)
                break
            except OSError as error:
                if not (create and names and error.errno == errno.ENOENT):
                    raise refuse(path, error) from error
                missing.append(names.pop())
        for name in reversed(missing):
            fd = self._make_folder(fd, name, path)
        return fd

    def _make_folder(self, folder: int, name: str, path: str) -> int:
        """A folder in an open one, which is closed."""
        try:
            self._check_place(folder, path)
            if name in ("", ".", ".."):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            try:
                os.mkdir(name, dir_fd=folder)
            except FileExistsError:
                pass  # Somebody else was quicker, or a link leads nowhere, which cannot be opened.
            return self._open(folder, name, _O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as error:
            raise refuse(path, error) from error
        finally:
            os.close(folder)

    def _check_place(self, folder: int, path: str) -> None:
        """Raises `FileRefused` where a folder is no more beneath ROOT, or holds what this program is made of."""
        above = _list_folders_above(folder)
        if _identify(os.fstat(self.fd)) not in above:
            raise refuse(path, OSError(errno.EXDEV, ""))
        own = [where for where in list_own_folders() if _find_identity(where) in above]
        if own:
            problem = f"this program is loaded from {own[0]!r}, and who writes there could change what it does."
            step = "Write elsewhere; who starts this program can install it outside of ROOT, and clear PYTHONPATH."
            raise FileRefused(f"path {path!r}: {problem}", next_step=step)


_LIST_HINT = "List it: `list PATH`."


def refuse(path: str, error: OSError) -> FileRefused:
    """What the system said about a path, as a sentence."""
    number = error.errno or 0
    problem = _PROBLEMS.get(number) or f"{error.strerror or error}."
    kind = FileChanged if number == errno.EAGAIN else FileRefused
    return kind(f"path {path!r}: {problem}", next_step=_NEXT_STEPS.get(number, "Look at it: `stat PATH`."))


_NEXT_STEPS = {
    errno.EXDEV: "Name a path beneath ROOT that no link takes elsewhere.",
    errno.ENOENT: "See what is there: `list`.",
    errno.EISDIR: "Name a file.",
    errno.ENOSPC: "Free some space; nothing was changed.",
    errno.EDQUOT: "Free some space; nothing was changed.",
    errno.EAGAIN: "Try again.",
}


def _open_root(path: str) -> int:
    if not path.startswith("/") or "\0" in path:
        raise BadInput("ROOT", path, "it is not a whole path.", next_step="Begin it with /.")
    try:
        fd = os.open(path, _ANCHOR)
    except OSError as error:
        problem = {errno.ENOENT: "no such folder.", errno.ENOTDIR: "it is not a folder."}.get(error.errno or 0)
        step = "Create it, or name another."
        raise BadInput("ROOT", path, problem or f"{error.strerror}.", next_step=step) from error
    real = os.path.realpath(path)
    if os.path.samestat(os.fstat(fd), os.stat("/")) or any(f"{real}/".startswith(f"{each}/") for each in _UNREAL):
        os.close(fd)
        problem = "it holds the whole machine." if real == "/" else "its files are the kernel's own."
        raise BadInput("ROOT", path, problem, next_step="Name the folder of a project.")
    return fd


def _is_name(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _read_link(name: str, folder: int) -> str:
    """What a link says; nothing for what is none, or is not there."""
    try:
        return os.readlink(name, dir_fd=folder)
    except FileNotFoundError:
        return ""
    except OSError as error:
        if error.errno == errno.EINVAL:
            return ""
        raise refuse(name, error) from error


def _list_folders_above(folder: int) -> "set[tuple[int, int]]":
    """A folder and all that it lies in, up to the top."""
    found: set[tuple[int, int]] = set()
    fd = os.dup(folder)
    try:
        for _ in range(_DEEPEST):
            identity = _identify(os.fstat(fd))
            if identity in found:
                break  # The top is its own parent.
            found.add(identity)
            above = os.open("..", _ANCHOR, dir_fd=fd)
            os.close(fd)
            fd = above
    finally:
        os.close(fd)
    return found


def _identify(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _find_identity(path: str) -> "tuple[int, int] | None":
    try:
        return _identify(os.stat(path))
    except OSError:
        return None
