"""Listing folders, what they hold below included: in order, bounded, and never by a link."""

import os
import stat

from inspan.errors import BadInput

from .root import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .root import Root

MAX_ENTRIES = 10_000
DEFAULT_ENTRIES = 1_000
# What version control keeps is no text of the project's; a path that names it is entered all the same.
_LEFT_OUT = (".git", ".hg", ".svn")
_DEEPEST = 64
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}


def list_folder(
    root: "Root", *, path: str = ".", recursive: bool = False, limit: int = DEFAULT_ENTRIES
) -> "dict[str, object]":
    """The entries of a folder, sorted; with `recursive` those of its folders too."""
    check_limit(limit, MAX_ENTRIES)
    entries: list[dict[str, object]] = []
    notes: list[str] = []
    for folder, name, shown in walk(root, path, recursive=recursive):
        if len(entries) == limit:
            notes.append(f"Cut after {limit} entries: list a folder below, or give a larger --limit.")
            break
        if entry := _describe(folder, name, shown):
            entries.append(entry)
    if any(str(entry["path"]).count("/") >= _DEEPEST - 1 and entry["kind"] == "folder" for entry in entries):
        notes.append(f"Not listed: what is more than {_DEEPEST} folders deep.")
    notes += note_escapes(str(entry["path"]) for entry in entries)
    return {"path": path, "entries": entries, "notes": notes}


def stat_path(root: "Root", *, path: str) -> "dict[str, object]":
    """What is at a path: its kind, size, mode and time; of a link what it says, not what it leads to."""
    found, target = root.describe(path)
    return {"path": path, **_to_dict(found, target), "hard_links": found.st_nlink}


def walk(root: "Root", path: str, *, recursive: bool) -> "Iterator[tuple[int, str, str]]":
    """Each entry as an open folder, a name in it and the path to be shown; a folder comes before what it holds."""
    prefix = root.make_relative(path).rstrip("/")
    fd = root.open_folder(path)
    try:
        yield from _walk(root, fd, "" if prefix in ("", ".") else f"{prefix}/", depth=_DEEPEST if recursive else 1)
    finally:
        os.close(fd)


def check_limit(limit: int, most: int) -> None:
    """Raises `BadInput` for a number of entries or matches that nobody could read."""
    if not 1 <= limit <= most:
        raise BadInput("--limit", limit, f"it is not between 1 and {most}.", next_step="Give another.")


def note_escapes(paths: "Iterable[str]") -> "list[str]":
    """How names are to be given back that are not shown as they are, such as those that are not UTF-8."""
    if all(path.isprintable() for path in paths):
        return []
    return ['A name with \\u in it is written as in JSON. To use it, give it as JSON, too: --input \'{"path": "…"}\'.']


def find_kind(mode: int) -> str:
    """`file`, `folder`, `link`, or `other` for devices, sockets and pipes."""
    return _KINDS.get(stat.S_IFMT(mode), "other")


def _walk(root: "Root", folder: int, prefix: str, *, depth: int) -> "Iterator[tuple[int, str, str]]":
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise refuse(prefix or ".", error) from error
    for name in names:
        yield folder, name, f"{prefix}{name}"
        if depth > 1 and name not in _LEFT_OUT:
            fd = _enter(root, folder, name)
            if fd >= 0:
                try:
                    yield from _walk(root, fd, f"{prefix}{name}/", depth=depth - 1)
                finally:
                    os.close(fd)


def _enter(root: "Root", folder: int, name: str) -> int:
    """A folder to be walked, or -1 for what is none, is on another file system, or may not be read."""
    try:
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return -1
        return root.open_inner_folder(folder, name)
    except OSError:
        return -1


def _describe(folder: int, name: str, shown: str) -> "dict[str, object] | None":
    """An entry, or none where it went away meanwhile."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        target = os.readlink(name, dir_fd=folder) if stat.S_ISLNK(found.st_mode) else ""
    except OSError:
        return None
    return {"path": shown, **_to_dict(found, target)}


def _to_dict(found: os.stat_result, target: str) -> "dict[str, object]":
    kind = find_kind(found.st_mode)
    told: dict[str, object] = {
        "kind": kind,
        "size": found.st_size,
        "mode": f"{stat.S_IMODE(found.st_mode):04o}",
        "mtime": found.st_mtime,
    }
    return {**told, "target": target} if kind == "link" else told
