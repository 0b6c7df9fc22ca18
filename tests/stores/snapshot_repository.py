"""A git repository and a run folder to take snapshots into, with nothing of the machine's user in reach."""

import os
import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

from inspan.stores.git import run_steps
from inspan.stores.repository import find_repository
from inspan.stores.snapshot import Snapshot, changes_between, load_snapshot, patch_between, save_snapshot
from inspan.stores.snapshot_steps import current_tree_steps, first_snapshot_steps, pack_steps, second_snapshot_steps

LIMIT_S = 60.0
IDENTITY = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always")


class SnapshotRepository:
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

    def overwrite_object(self, name: str, kind: str, data: bytes) -> None:
        """Puts another content under the name of an object, as whoever can write to `.git` can."""
        identity = self.git("rev-parse", name).strip()
        path = self.top / ".git/objects" / identity[:2] / identity[2:]
        path.chmod(0o644)
        path.write_bytes(zlib.compress(f"{kind} {len(data)}\0".encode() + data))

    def take_first(
        self, cwd: Path | None = None, *, hidden: tuple[str, ...] = (), limit_s: float = LIMIT_S
    ) -> Snapshot:
        repository = find_repository(str(cwd or self.top))
        assert repository
        first = run_steps(first_snapshot_steps(str(self.folder), repository, hidden=hidden), limit_s=limit_s)
        save_snapshot(str(self.folder), first)
        return first

    def take_second(self, *, packed: bool = True) -> None:
        """The second snapshot, and only what it takes to compare is kept."""
        both, pairs = run_steps(
            second_snapshot_steps(str(self.folder), load_snapshot(str(self.folder))), limit_s=LIMIT_S
        )
        save_snapshot(str(self.folder), both)
        if packed:
            run_steps(pack_steps(str(self.folder), both, pairs), limit_s=LIMIT_S)

    def current_tree(self) -> str:
        """The tree of the files as they are."""
        return run_steps(current_tree_steps(str(self.folder), load_snapshot(str(self.folder))), limit_s=LIMIT_S)

    def changes_of(self, act: Callable[[], object], cwd: Path | None = None) -> dict[str, str]:
        """What is told of a run that did this."""
        self.take_first(cwd)
        act()
        self.take_second()
        return self.list_changes()

    def list_changes(self, now: str = "", paths: tuple[str, ...] = ()) -> dict[str, str]:
        return {each.path: each.change for each in changes_between(str(self.folder), now=now, paths=paths)}

    def patch(self, *, stat: bool = False, names: bool = False, binary: bool = False) -> str:
        return b"".join(patch_between(str(self.folder), stat=stat, names=names, binary=binary)).decode()


def wrap_git(folder: Path, body: str) -> str:
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
