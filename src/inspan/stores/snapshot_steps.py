"""The steps that take a run's snapshots and keep what differs.

The user's repository is read and never written: index, objects and configuration are the run folder's own.
"""

import os
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from .conversions import keep_bytes_steps
from .file_versions import lstat_inside
from .git import Git, SnapshotError, Steps, check_step, read_file, write_file
from .git_tree import STAND_INS, FileNotKept, tree_steps
from .repository import (
    COPIED_SETTINGS,
    Repository,
    copy_file,
    copy_index,
    fill_git_dir,
    make_git_folders,
    read_inode,
    read_plain_file,
    read_work_tree,
)
from .run_folder import remove_file
from .snapshot import RAW_DIFF, Snapshot, VersionPair, build_git, parse_pairs

LIMIT_S = 20.0
_READ_HEAD = ("rev-parse", "-q", "--verify", "HEAD^{commit}")
_MOST_ARGUMENTS = 1000
_THEIRS, _REF_BYTES = "their-index", 4096
# File systems note times by a clock that is a little behind.
_CLOCK_S = 2.0
# What `git ls-files -v` puts before a file; others are those in which git was told to ignore changes.
_COMPARED = "H"
_SETTINGS = rf"^(core\.({'|'.join(COPIED_SETTINGS)})|extensions\.objectformat)$"
_ABSENT, _GITLINK = "000000", "160000"
_ALTERNATES = "objects/info/alternates"
_FORGED = (
    "An object of the repository is not what its name says: somebody wrote over it, and what was there is not known."
)


class ForgedSnapshot(SnapshotError):
    """A snapshot that has been made to say something else: nothing in it can be believed."""


def first_snapshot_steps(
    folder: str,
    repository: Repository,
    *,
    hidden: Sequence[str] = (),
    take_steps: Callable[[Git], Steps[str]] = tree_steps,
) -> Steps[Snapshot]:
    """Takes the first snapshot of a run. `hidden` are folders that are left out, such as our own state. `take_steps`
    decides which files are kept."""
    git = build_git(folder, top=repository.top)
    make_git_folders(git)
    settings = yield from read_settings_steps(git, repository.git_dir)
    fill_git_dir(git, repository, settings=settings, hidden=hidden)
    yield from keep_bytes_steps(git, settings)
    try:
        tree = yield from take_steps(git)
    except FileNotKept:
        raise
    except SnapshotError:  # The index may be broken. Without it, every file is read once.
        remove_file(git.file("index"))
        tree = yield from take_steps(git)
    yield git.config_step(repository.git_dir, *_READ_HEAD, stdout="head")  # Without a commit it is empty.
    head = read_file(git.file("head")).decode().strip()
    inode = read_inode(repository.common)
    return Snapshot(top=repository.top, git_inode=inode, head=head, before=tree, before_at=time.time())


def is_other_repository_steps(folder: str, snapshot: Snapshot, found: Repository) -> Steps[bool]:
    """Whether this is not the repository of the run, nor a copy or a clone that has the commit it began at."""
    if not snapshot.git_inode or snapshot.git_inode == read_inode(found.common):
        return False
    if not snapshot.head:
        return True
    git = build_git(folder, top=found.top, scratch=f"other-{os.getpid()}")
    make_git_folders(git)
    try:
        return bool((yield git.config_step(found.git_dir, "cat-file", "-e", f"{snapshot.head}^{{commit}}", stdout="")))
    finally:
        git.clear_scratch()


def read_settings_steps(git: Git, git_dir: str) -> Steps[dict[str, str]]:
    """What the repository's own git would use of the settings that decide how a file becomes an object."""
    # Exit code 1 says that nothing is set, and a configuration that cannot be read sets nothing either.
    yield git.config_step(git_dir, "config", "-z", "--get-regexp", _SETTINGS, stdout="settings")
    return _parse_settings(read_file(git.file("settings")))


def second_snapshot_steps(folder: str, first: Snapshot) -> Steps[tuple[Snapshot, list[VersionPair]]]:
    """Takes the second snapshot; gives what is known of both and where they differ."""
    git = build_git(folder, top=first.top)
    tree = yield from tree_steps(git, known=(yield from _find_taken_in_steps(git, first)))
    both = msgspec.structs.replace(first, after=tree, after_at=time.time())
    return both, (yield from _pair_steps(git, both))


def find_held_steps(folder: str, both: Snapshot, paths: Sequence[str]) -> Steps[list[str]]:
    """Which of these paths are compared, before the second snapshot is packed: of others it says nothing."""
    top = os.path.realpath(both.top)
    inside = {os.path.relpath(path, top): path for path in paths if path.startswith(f"{top}/")}
    if not inside:
        return []
    git = build_git(folder, top=both.top)
    few = list(inside)[:_MOST_ARGUMENTS]
    yield from check_step(git.step("--literal-pathspecs", "ls-files", "-z", "-v", "--", *few, stdout="held"))
    held = [entry.partition(" ") for entry in os.fsdecode(read_file(git.file("held"))).split("\0")]
    return [inside[name] for mark, _, name in held if mark == _COMPARED and name in inside]


def current_tree_steps(folder: str, first: Snapshot) -> Steps[str]:
    """The work tree as it is now, as a tree beside the first snapshot's; the owner's index is left alone."""
    git = build_git(folder, top=first.top, scratch=f"now-{os.getpid()}")
    make_git_folders(git)
    try:
        for name in ("index", STAND_INS):
            copy_file(build_git(folder, top=first.top).file(name), git.file(name))
        return (yield from tree_steps(git, known=(yield from _find_taken_in_steps(git, first))))
    finally:
        git.clear_scratch()


def _find_taken_in_steps(git: Git, first: Snapshot) -> Steps[list[bytes]]:
    """The files that the repository's index or its last commit has by now, and our index has not: git lists them no
    more than others that it ignores, though it ignores none that it knows."""
    repository = read_work_tree(first.top)
    if not repository or not _was_used_since(repository, _read_start(git)):
        return []
    yield from check_step(git.step("ls-files", "-z", stdout="listed"))
    ours = set(read_file(git.file("listed")).split(b"\0"))
    copy_index(git, repository, name=_THEIRS)
    found = set[bytes]()
    if not (yield git.step("ls-files", "--stage", "-z", stdout="staged", index=_THEIRS)):
        lines = read_file(git.file("staged")).split(b"\0")
        found |= {line.partition(b"\t")[2] for line in lines if not line.startswith(_GITLINK.encode())}
    if not (yield git.config_step(repository.git_dir, "rev-parse", "-q", "--verify", "HEAD^{tree}", stdout="head")):
        tree = read_file(git.file("head")).decode().strip()
        if not (yield git.step("ls-tree", "-r", "-z", "--name-only", tree, stdout="committed")):
            found |= set(read_file(git.file("committed")).split(b"\0"))
    return [name for name in sorted(found - ours) if _is_file(first.top, name)]


def _read_start(git: Git) -> float:
    """When the index was copied: later than the time of a file that was written just before."""
    try:
        return os.stat(os.path.join(git.git_dir, "config")).st_mtime
    except OSError:
        return 0.0


def _was_used_since(repository: Repository, moment: float) -> bool:
    """Whether anybody has written to the index or to what names the last commit: most runs do not."""
    git_dir, common = repository.git_dir, repository.common
    head = os.fsdecode(read_plain_file(os.path.join(git_dir, "HEAD"), limit_bytes=_REF_BYTES)).strip()
    places = [os.path.join(git_dir, name) for name in ("index", "HEAD", "logs/HEAD")]
    places += [os.path.join(common, name) for name in ("packed-refs", head.removeprefix("ref: "))]
    for place in places:
        with suppress(OSError, ValueError):
            if os.stat(place).st_ctime >= moment - _CLOCK_S:
                return True
    return False


def _is_file(top: str, name: bytes) -> bool:
    """Whether a file or a link is there that git would take in; an index can be written to name anything."""
    parts = name.lower().split(b"/")
    if not {b"", b".", b"..", b".git"}.isdisjoint(parts):
        return False
    place = lstat_inside(top, os.fsdecode(name))
    return place is not None and (stat.S_ISREG(place.st_mode) or stat.S_ISLNK(place.st_mode))


def pack_steps(folder: str, both: Snapshot, pairs: Sequence[VersionPair]) -> Steps[None]:
    """Packs what a comparison of both needs and drops the rest; from then on it does not need the repository.

    If this fails, nothing is dropped. Raises `ForgedSnapshot` where an object is not what its name says.
    """
    git = build_git(folder, top=both.top)
    if both.before != both.after:
        pack = os.path.join(git.git_dir, "objects/pack/pack")
        try:
            yield from _pack_objects(git, both, pairs, pack=pack)
        except ForgedSnapshot:
            for name in os.listdir(os.path.dirname(pack)):
                remove_file(os.path.join(os.path.dirname(pack), name))
            raise
    yield from _drop_steps(git)


def verify_steps(git: Git, both: Snapshot) -> Steps[None]:
    """Raises `ForgedSnapshot` where snapshots that still need the repository have an object that is not what its name
    says, and `SnapshotError` where one is missing."""
    if os.path.exists(os.path.join(git.git_dir, _ALTERNATES)):
        pairs = yield from _pair_steps(git, both)
        yield from _pack_objects(git, both, pairs, pack=git.file("verified"))


def _pair_steps(git: Git, both: Snapshot) -> Steps[list[VersionPair]]:
    if both.before == both.after:
        return []
    yield from check_step(git.step(*RAW_DIFF, both.before, both.after, stdout="pairs"))
    return parse_pairs(read_file(git.file("pairs")))


def _pack_objects(git: Git, both: Snapshot, pairs: Sequence[VersionPair], *, pack: str) -> Steps[None]:
    """Whoever can write to the repository can put another content under an object's name, and git reads it without a
    question; so each name is computed again."""
    versions = [version for pair in pairs for version in zip(pair.modes, pair.objects, strict=True)]
    needed = {both.before, both.after} | {name for mode, name in versions if mode not in (_GITLINK, _ABSENT)}
    write_file(git.file("needed"), "".join(f"{name}\n" for name in needed).encode())
    yield from check_step(git.step("pack-objects", "-q", "--window=0", pack, stdin="needed", stdout="packed"))
    packed = read_file(git.file("packed")).decode().strip()
    if (yield git.step("verify-pack", f"{pack}-{packed}.idx")):
        raise ForgedSnapshot(_FORGED)


def _parse_settings(listed: bytes) -> dict[str, str]:
    entries = (entry.partition("\n") for entry in listed.decode(errors="surrogateescape").split("\0") if entry)
    return {name: value if given else "true" for name, given, value in entries}


def _drop_steps(git: Git) -> Steps[None]:
    """Removes every object outside the pack, the index, and the way to the repository's objects."""
    git.clear_scratch()
    objects = os.path.join(git.git_dir, "objects")
    remove_file(os.path.join(git.git_dir, _ALTERNATES))
    for folder in [entry.path for entry in os.scandir(objects) if len(entry.name) == 2]:
        yield None
        for entry in os.scandir(folder):
            remove_file(entry.path)
        os.rmdir(folder)
