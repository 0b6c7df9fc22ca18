"""Single files of a run's snapshots: whether a file is still as one of them has it, and its content in a folder.

As when the snapshots were taken, git runs no filter, no hook and none of the repository's configuration, and converts
nothing. Snapshots of an early version have what git had converted: theirs is the git directory that says so, and the
rules (`.gitattributes`) of the version that is asked for.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from .git import Git, SnapshotError, Steps, check_step, failure_message, read_file, write_file
from .git_tree import LARGE_BYTES, STAND_IN_START

ABSENT_MODE, GITLINK_MODE = "000000", "160000"
IGNORES = ".gitignore"
_ATTRIBUTES = ".gitattributes"
_STAND_IN_BYTES = 1000
# How many times larger a file can be than its content in git: line endings double it, an encoding quadruples it.
_GROWTH = 8
_NO_FILTER = ("unspecified", "unset", "set")
_PLACE = ("update-index", "--add", "-z", "--index-info")


class Version(NamedTuple):
    """A file as a tree has it: its mode and the id of its content."""

    mode: str
    object: str = ""

    @property
    def is_absent(self) -> bool:
        return self.mode == ABSENT_MODE


ABSENT = Version(ABSENT_MODE)
# What no tree has: a pipe, a socket, a file that cannot be read.
UNKNOWN = Version("")


class Found(NamedTuple):
    """What is at a path now; `place` tells whether it is still the same one when it is replaced."""

    version: Version
    place: os.stat_result | None = None


def lstat_inside(top: str, path: str) -> os.stat_result | None:
    """What is at a path below `top`; nothing is behind a link, which may lead anywhere."""
    parts = path.split("/")
    found = None
    for end in range(1, len(parts) + 1):
        try:
            found = os.lstat(os.path.join(top, *parts[:end]))
        except (FileNotFoundError, NotADirectoryError):
            return None
        if end < len(parts) and not stat.S_ISDIR(found.st_mode):
            return None
    return found


def current_version_steps(git: Git, top: str, known: Mapping[str, Version]) -> Steps[dict[str, Found]]:
    """What is at these paths now, as a snapshot would tell it. `known` is what may be there: by it git decides on line
    endings. A folder counts as no file."""
    places = {path: lstat_inside(top, path) for path in known}
    found = {path: Found(_guess_version(place), place) for path, place in places.items()}
    readable = [path for path, each in found.items() if each.version is UNKNOWN and _is_readable(top, path, each.place)]
    readable = yield from _leave_out_large(git, readable, found, known)
    yield from place_steps(git, {path: known[path] for path in readable}, index="current")
    write_file(git.file("names"), b"".join(os.fsencode(path) + b"\0" for path in readable))
    update = ("update-index", "--add", "--replace", "--info-only", "-z", "--stdin")
    yield from check_step(git.step(*update, stdin="names", index="current"))
    yield from check_step(git.step("ls-files", "--stage", "-z", stdout="staged", index="current"))
    for line in filter(None, os.fsdecode(read_file(git.file("staged"))).split("\0")):
        head, _, path = line.partition("\t")
        mode, name, _ = head.split(" ")
        found[path] = Found(Version(mode, name), places[path])
    return found


def _leave_out_large(
    git: Git, paths: Iterable[str], found: Mapping[str, Found], known: Mapping[str, Version]
) -> Steps[list[str]]:
    """Those of the paths that are worth reading: a file that is far larger than the one that may be there is another,
    and reading it could take hours."""
    sizes = {path: place.st_size for path in paths if (place := found[path].place)}
    large = {path: known[path].object for path, size in sizes.items() if size > LARGE_BYTES}
    if not large:
        return list(sizes)
    write_file(git.file("names"), "".join(f"{name}\n" for name in large.values()).encode())
    yield from check_step(git.step("cat-file", "--batch-check", stdin="names", stdout="sizes"))
    rows = [line.split() for line in read_file(git.file("sizes")).decode().splitlines()]
    limits = {row[0]: int(row[2]) * _GROWTH for row in rows if len(row) == 3}
    return [path for path in sizes if path not in large or sizes[path] <= limits.get(large[path], 0)]


def place_steps(git: Git, versions: Mapping[str, Version], *, index: str) -> Steps[None]:
    """Makes an index that has these versions and nothing else."""
    lines = [f"{each.mode} {each.object}\t{path}\0" for path, each in versions.items() if not each.is_absent]
    write_file(git.file("placed"), os.fsencode("".join(lines)))
    yield from check_step(git.step(*_PLACE, stdin="placed", index=index))


def lay_rules_steps(git: Git, top: str, versions: Mapping[str, Version]) -> Steps[None]:
    """Puts the `.gitattributes` and `.gitignore` files that hold for these paths below `git.top`, in these versions;
    those that are not among them as they are below `top`."""
    folders = {folder for path in versions for folder in list_parents(path)}
    rules = {os.path.join(folder, name) for folder in folders for name in (_ATTRIBUTES, IGNORES)}
    yield from checkout_steps(git, {path: versions[path] for path in rules & versions.keys()})
    for path in rules - versions.keys():
        place = lstat_inside(top, path)
        if place and stat.S_ISREG(place.st_mode):
            with suppress(FileExistsError, NotADirectoryError):  # There is no such folder in these versions.
                os.makedirs(os.path.dirname(os.path.join(git.top, path)), exist_ok=True)
                write_file(os.path.join(git.top, path), read_file(os.path.join(top, path)))


def checkout_steps(git: Git, versions: Mapping[str, Version]) -> Steps[None]:
    """Writes these versions below `git.top`, by the rules that lie there."""
    wanted = {path: each for path, each in versions.items() if not each.is_absent}
    if wanted:
        yield from place_steps(git, wanted, index="wanted")
        write_file(git.file("names"), b"".join(os.fsencode(path) + b"\0" for path in wanted))
        yield from check_step(
            git.step("checkout-index", "--force", "--quiet", "-z", "--stdin", stdin="names", index="wanted")
        )


def filter_steps(git: Git, paths: Iterable[str]) -> Steps[set[str]]:
    """Those of the paths whose content goes through a filter, such as Git LFS, by the rules below `git.top`."""
    write_file(git.file("names"), b"".join(os.fsencode(path) + b"\0" for path in paths))
    yield from check_step(git.step("check-attr", "-z", "--stdin", "filter", stdin="names", stdout="told"))
    words = os.fsdecode(read_file(git.file("told"))).split("\0")
    return {path for path, value in zip(words[::3], words[2::3], strict=False) if value not in _NO_FILTER}


def find_ignored_steps(git: Git, paths: Iterable[str]) -> Steps[set[str]]:
    """Those of the paths that git ignores by the rules below `git.top`."""
    write_file(git.file("names"), b"".join(os.fsencode(path) + b"\0" for path in paths))
    step = git.step("check-ignore", "--no-index", "-z", "--stdin", stdin="names", stdout="told")
    code = yield step
    if code > 1:  # 1 says that it ignores none of them.
        raise SnapshotError(failure_message(step.argv, read_file(step.stderr)))
    return set(filter(None, os.fsdecode(read_file(git.file("told"))).split("\0")))


def stand_in_steps(git: Git, versions: Iterable[Version]) -> Steps[set[Version]]:
    """Those of the versions whose content was not kept: too large, not readable, a repository of its own."""
    names = {each.object: each for each in versions if each.mode == "100644"}
    write_file(git.file("names"), "".join(f"{name}\n" for name in names).encode())
    yield from check_step(git.step("cat-file", "--batch-check", stdin="names", stdout="sizes"))
    rows = [line.split() for line in read_file(git.file("sizes")).decode().splitlines()]
    if any(row[1:] == ["missing"] for row in rows):
        raise SnapshotError(
            "The snapshots do not have all contents any more: the repository that they were in is gone."
        )
    small = [name for name, _, size in rows if int(size) <= _STAND_IN_BYTES]
    write_file(git.file("names"), "".join(f"{name}\n" for name in small).encode())
    yield from check_step(git.step("cat-file", "--batch", stdin="names", stdout="contents"))
    return {names[name] for name, content in _split_batch(read_file(git.file("contents"))) if _is_stand_in(content)}


def list_parents(path: str) -> list[str]:
    """The folders above a file, from the top, which is empty, down."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(len(parts))]


def _is_stand_in(content: bytes) -> bool:
    return content.startswith(STAND_IN_START) and content.count(b"\n") == 1


def _split_batch(told: bytes) -> Iterable[tuple[str, bytes]]:
    """Each object that `cat-file --batch` printed: a line with its name, type and size, its content, a line feed."""
    start = 0
    while start < len(told):
        end = told.index(b"\n", start)
        name, _, size = told[start:end].decode().split()
        yield name, told[end + 1 : end + 1 + int(size)]
        start = end + 2 + int(size)


def _guess_version(place: os.stat_result | None) -> Version:
    return ABSENT if place is None or stat.S_ISDIR(place.st_mode) else UNKNOWN


def _is_readable(top: str, path: str, place: os.stat_result | None) -> bool:
    if place is None or not (stat.S_ISREG(place.st_mode) or stat.S_ISLNK(place.st_mode)):
        return False
    return stat.S_ISLNK(place.st_mode) or os.access(os.path.join(top, path), os.R_OK)
