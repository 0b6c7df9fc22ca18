"""Files that an agent has read and written by inspan: inside its folders alone, whatever lies at a path by then.

A path is resolved first, and must then lie in one of the folders; it is opened from there one name at a time, and a
link that was put in its way since is not followed.
"""

import errno
import os
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from inspan.contracts.file_requests import FileRequest, FileResult, ReadText, WriteText
from inspan.protocol.events import Change
from inspan.system.inner_folders import open_inner_folder, open_plain_folder
from inspan.system.paths import is_below

LARGEST_BYTES = 10_000_000
# Without the bits by which a program runs as its owner: an agent says what is in the file.
_PERMISSIONS = 0o777
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class _PathRefused(Exception):
    """Not allowed, and why."""


class Workspace:
    """Does the file work of one run. `writable` folders may be read as well.

    What lies in a `hidden` folder is left alone, unless the folder that grants it lies there too.
    """

    def __init__(
        self,
        cwd: str,
        *,
        readable: Sequence[str] = (),
        writable: Sequence[str] = (),
        hidden: Sequence[str] = (),
    ) -> None:
        self._cwd = cwd
        self._writable = tuple(map(os.path.realpath, writable))
        self._readable = (*self._writable, *map(os.path.realpath, readable))
        self._hidden = tuple(map(os.path.realpath, hidden))

    def handle(self, request: FileRequest) -> FileResult:
        """Does it, or says why not; never raises for what an agent may ask."""
        return self._attempt(request.id, request.path, lambda path: self._serve(path, request))

    def put(self, path: str, data: bytes) -> str:
        """Writes a file, with the folders that it lies in, whole or not at all; gives why not."""
        put = self._attempt("", path, lambda full: FileResult(id="", path=full, change=self._replace(full, data)))
        return put.problem

    def _serve(self, path: str, request: FileRequest) -> FileResult:
        if isinstance(request, ReadText):
            return FileResult(id=request.id, path=path, text=self._read(path, request))
        return FileResult(id=request.id, path=path, change=self._write(path, request))

    def _attempt(self, request_id: str, asked: str, act: Callable[[str], FileResult]) -> FileResult:
        path = os.path.join(self._cwd, asked)
        try:
            if "\0" in path:
                raise _PathRefused("a path has no NUL in it")
            return act(path)
        except _PathRefused as refusal:
            return FileResult(id=request_id, path=path, problem=f"{asked}: {refusal}", denied=True)
        except FileNotFoundError:
            return FileResult(id=request_id, path=path, problem=f"Resource not found: {asked}", missing=True)
        except OSError as error:
            linked = error.errno == errno.ELOOP  # A link that was not there when the path was resolved.
            words = "there is a link on its way" if linked else error.strerror or str(error)
            return FileResult(id=request_id, path=path, problem=f"{asked}: {words}", denied=linked)
        except ValueError as error:
            return FileResult(id=request_id, path=path, problem=f"{asked}: {error}")

    def _read(self, path: str, request: ReadText) -> str:
        with self._open_parent(path, self._readable, make=False) as (folder, name):
            _check_file(os.stat(name, dir_fd=folder, follow_symlinks=False))
            fd = os.open(name, _FILE, dir_fd=folder)
        with os.fdopen(fd, "rb") as file:
            _check_file(os.fstat(fd))
            small = os.fstat(fd).st_size <= LARGEST_BYTES
            data = file.read(LARGEST_BYTES + 1) if small else b""
        if not small or len(data) > LARGEST_BYTES:
            raise ValueError(f"it has more than {LARGEST_BYTES // 10**6} MB")
        return _select_lines(_decode_text(data), request.line, request.limit)

    def _write(self, path: str, request: WriteText) -> Change:
        data = request.text.encode()
        if len(data) > LARGEST_BYTES:
            raise ValueError(f"{len(data) / 1e6:.1f} MB are too much for one file")
        return self._replace(path, data)

    def _replace(self, path: str, data: bytes) -> Change:
        with self._open_parent(path, self._writable, make=True) as (folder, name):
            known = _stat_or_none(name, folder)
            if known:
                _check_file(known)
                if not os.access(name, os.W_OK, dir_fd=folder):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            # Put in place whole: nobody reads half of it, and another name of the same file keeps what it has.
            draft = f".{name[:200]}.{os.urandom(6).hex()}"
            try:
                _write_draft(draft, folder, data, known)
                os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                _discard(draft, folder)
                raise
        return "modified" if known else "added"

    @contextmanager
    def _open_parent(self, path: str, roots: Sequence[str], *, make: bool) -> Generator[tuple[int, str]]:
        """The folder that a file lies in, open, and the file's name in it."""
        real = os.path.realpath(path)
        root = max((root for root in roots if is_below(real, root)), key=len, default=None)
        if root is None or any(is_below(real, each) and not is_below(root, each) for each in self._hidden):
            raise _PathRefused("it lies outside of the folders of this run" if roots else "this run changes no files")
        *folders, name = os.path.relpath(real, root).split(os.sep)
        top = open_plain_folder(root)
        try:
            fd = open_inner_folder(top, "/".join(folders), make=make)
        except NotADirectoryError as error:
            raise _PathRefused("there is a link or a file on its way") from error
        finally:
            os.close(top)
        try:
            yield fd, name
        finally:
            os.close(fd)


def _stat_or_none(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _check_file(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _PathRefused("it is not an ordinary file")


def _write_draft(name: str, folder: int, data: bytes, known: os.stat_result | None) -> None:
    fd = os.open(name, _NEW, 0o666, dir_fd=folder)
    with os.fdopen(fd, "wb") as file:
        if known:
            if os.geteuid() == 0:
                os.fchown(fd, known.st_uid, known.st_gid)
            os.fchmod(fd, known.st_mode & _PERMISSIONS)
        file.write(data)


def _discard(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        pass


def _decode_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError("it is not text in UTF-8") from error


def _select_lines(text: str, line: int, limit: int | None) -> str:
    """So many lines from one on; only a line feed ends a line."""
    if line <= 1 and limit is None:
        return text
    lines = text.split("\n")
    whole = [f"{each}\n" for each in lines[:-1]] + lines[-1:]
    first = max(0, line - 1)
    return "".join(whole[first:] if limit is None else whole[first : first + max(0, limit)])
