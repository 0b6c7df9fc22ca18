"""The steps that take a run's snapshots and keep what differs.

The user's repository is read and never written: index, objects and configuration are the run folder's own.
"""

import os
import time
from collections.abc import Sequence

import msgspec

from .folder import forget
from .git import Git, NoSnapshot, Steps, must, read, write
from .repository import CARRIED, Repository, copy, make_folders, make_own
from .snapshot import RAW, Pair, Snapshot, git_of, read_pairs
from .trees import STAND_INS, tree_steps

LIMIT_S = 20.0
_SETTINGS = rf"^(core\.({'|'.join(CARRIED)})|extensions\.objectformat)$"
_NOTHING, _GITLINK = "000000", "160000"


def first_steps(folder: str, repository: Repository, *, hidden: Sequence[str] = ()) -> Steps[Snapshot]:
    """Takes the first snapshot of a run. `hidden` are folders that are left out, such as our own state."""
    git = git_of(folder, top=repository.top)
    make_folders(git)
    # Exit code 1 says that nothing is set, and a configuration that cannot be read sets nothing either.
    yield git.asking(repository.git_dir, "config", "-z", "--get-regexp", _SETTINGS, stdout="settings")
    make_own(git, repository, settings=_settings(read(git.file("settings"))), hidden=hidden)
    try:
        tree = yield from tree_steps(git)
    except NoSnapshot:  # The index may be broken. Without it, every file is read once.
        forget(git.file("index"))
        tree = yield from tree_steps(git)
    return Snapshot(top=repository.top, before=tree, before_at=time.time())


def second_steps(folder: str, first: Snapshot) -> Steps[tuple[Snapshot, list[Pair]]]:
    """Takes the second snapshot; gives what is known of both and where they differ."""
    git = git_of(folder, top=first.top)
    tree = yield from tree_steps(git)
    both = msgspec.structs.replace(first, after=tree, after_at=time.time())
    if tree == first.before:
        return both, []
    yield from must(git.step(*RAW, first.before, tree, stdout="pairs"))
    return both, read_pairs(read(git.file("pairs")))


def present_steps(folder: str, first: Snapshot) -> Steps[str]:
    """The work tree as it is now, as a tree beside the first snapshot's; the owner's index is left alone."""
    git = git_of(folder, top=first.top, desk=f"now-{os.getpid()}")
    make_folders(git)
    try:
        for name in ("index", STAND_INS):
            copy(git_of(folder, top=first.top).file(name), git.file(name))
        return (yield from tree_steps(git))
    finally:
        git.clear_desk()


def keep_steps(folder: str, both: Snapshot, pairs: Sequence[Pair]) -> Steps[None]:
    """Packs what a comparison of both needs and drops the rest; from then on it does not need the repository.

    If this fails, nothing is dropped.
    """
    git = git_of(folder, top=both.top)
    if pairs:
        versions = [version for pair in pairs for version in zip(pair.modes, pair.objects, strict=True)]
        needed = {both.before, both.after} | {name for mode, name in versions if mode not in (_GITLINK, _NOTHING)}
        write(git.file("needed"), "".join(f"{name}\n" for name in needed).encode())
        pack = os.path.join(git.git_dir, "objects/pack/pack")
        yield from must(git.step("pack-objects", "-q", "--window=0", pack, stdin="needed", stdout="packed"))
    yield from _drop_steps(git)


def _settings(listed: bytes) -> dict[str, str]:
    entries = (entry.partition("\n") for entry in listed.decode(errors="surrogateescape").split("\0") if entry)
    return {name: value if given else "true" for name, given, value in entries}


def _drop_steps(git: Git) -> Steps[None]:
    """Removes every object outside the pack, the index, and the way to the repository's objects."""
    git.clear_desk()
    objects = os.path.join(git.git_dir, "objects")
    forget(os.path.join(objects, "info/alternates"))
    for folder in [entry.path for entry in os.scandir(objects) if len(entry.name) == 2]:
        yield None
        for entry in os.scandir(folder):
            forget(entry.path)
        os.rmdir(folder)
