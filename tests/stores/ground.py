"""A git repository and a run folder to take snapshots into, with nothing of the machine's user in reach."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from inspan.stores.git import walk
from inspan.stores.repository import find_repository
from inspan.stores.snapshot import Snapshot, changes_between, load, patch_between, save
from inspan.stores.taking import first_steps, keep_steps, present_steps, second_steps

LIMIT_S = 60.0
IDENTITY = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always")


class Ground:
    """A work tree `top` with one commit, and the folder of a run in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.top = root / "work"
        self.folder = root / f"{os.getpid()}-{root.name}"
        self.top.mkdir()
        self.folder.mkdir(mode=0o700)
        self.git("init", "-q")
        self.write("kept.txt", "one\ntwo\nthree\n")
        self.write("gone.txt", "here\n")
        self.commit()

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        """The user's own git, in the work tree."""
        argv = ["git", *IDENTITY, *arguments]
        return subprocess.run(argv, cwd=cwd or self.top, check=True, capture_output=True, text=True).stdout

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", "more", "--allow-empty")

    def write(self, name: str, text: str) -> Path:
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def first(self, cwd: Path | None = None, *, hidden: tuple[str, ...] = (), limit_s: float = LIMIT_S) -> Snapshot:
        repository = find_repository(str(cwd or self.top))
        assert repository
        first = walk(first_steps(str(self.folder), repository, hidden=hidden), limit_s=limit_s)
        save(str(self.folder), first)
        return first

    def second(self) -> None:
        """The second snapshot, and only what it takes to compare is kept."""
        both, pairs = walk(second_steps(str(self.folder), load(str(self.folder))), limit_s=LIMIT_S)
        save(str(self.folder), both)
        walk(keep_steps(str(self.folder), both, pairs), limit_s=LIMIT_S)

    def now(self) -> str:
        """The tree of the files as they are."""
        return walk(present_steps(str(self.folder), load(str(self.folder))), limit_s=LIMIT_S)

    def changes(self, act: Callable[[], object], cwd: Path | None = None) -> dict[str, str]:
        """What is told of a run that did this."""
        self.first(cwd)
        act()
        self.second()
        return self.told()

    def told(self, now: str = "", paths: tuple[str, ...] = ()) -> dict[str, str]:
        return {each.path: each.change for each in changes_between(str(self.folder), now=now, paths=paths)}

    def patch(self, *, stat: bool = False, names: bool = False, binary: bool = False) -> str:
        return b"".join(patch_between(str(self.folder), stat=stat, names=names, binary=binary)).decode()


def wrapped_git(folder: Path, body: str) -> str:
    """A PATH on which git is a script; `$GIT` in it is the real one."""
    folder.mkdir()
    script = folder / "git"
    script.write_text(f"#!/bin/sh\nGIT={shutil.which('git')}\n{body}\n")
    script.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def content(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a folder with its mode and bytes."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(folder)): (path.stat().st_mode, path.read_bytes()) for path in files}
