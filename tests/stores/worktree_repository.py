"""A git repository and the worktrees of runs that were never started, with nothing of the machine's user in reach."""

import os
import stat
import subprocess
from pathlib import Path

from inspan.stores.repository import find_repository
from inspan.stores.worktree import Worktree, build_worktree_path, load_worktree, lock_worktree
from inspan.stores.worktree_creation import MadeWorktree, make_worktree
from inspan.stores.worktree_removal import remove_worktree

from .snapshot_repository import IDENTITY

RUN_ID = "20261118-010203004-5"
# Changes one file, removes another one, and makes one in a new folder.
TEST_PATCH = """diff --git a/kept.txt b/kept.txt
--- a/kept.txt
+++ b/kept.txt
@@ -1,2 +1,2 @@
-one
+tested
 two
diff --git a/new/deep/test b/new/deep/test
new file mode 100755
--- /dev/null
+++ b/new/deep/test
@@ -0,0 +1 @@
+true
diff --git a/sub/gone.txt b/sub/gone.txt
deleted file mode 100644
--- a/sub/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-here
"""
Files = dict[str, tuple[int, bytes | str]]


class WorktreeRepository:
    """A checkout `top` with one commit, and a state folder beside it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.top = root / "app"
        self.state = str(root / "state")
        self.top.mkdir()
        self.git("init", "-q", "-b", "main")
        self.write(".gitignore", "*.log\n")
        self.write("kept.txt", "one\ntwo\n")
        self.write("sub/gone.txt", "here\n")
        self.commit()

    @property
    def path(self) -> Path:
        return Path(build_worktree_path(self.state, project="p", run_id=RUN_ID))

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        """The user's own git, in the checkout."""
        argv = ["git", *IDENTITY, *arguments]
        done = subprocess.run(argv, cwd=cwd or self.top, check=True, capture_output=True)
        return os.fsdecode(done.stdout).strip()

    def commit(self, *, cwd: Path | None = None) -> None:
        self.git("add", "-A", cwd=cwd)
        self.git("commit", "-qm", "more", "--allow-empty", cwd=cwd)

    def write(self, name: str, text: str | bytes, *, top: Path | None = None) -> Path:
        path = (top or self.top) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def make(self, *, cwd: Path | None = None, branches: tuple[str, ...] = ("inspan/five",)) -> MadeWorktree:
        """The worktree of a run, made from a checkout."""
        repository = find_repository(str(cwd or self.top))
        assert repository
        path = str(self.path)
        new = Worktree(
            id=RUN_ID, project="p", path=path, common=repository.common, checkout=repository.top, folder=repository.top
        )
        with lock_worktree(path):
            return make_worktree(new, repository, branches=branches)

    def load(self) -> Worktree:
        found = load_worktree(str(self.path))
        assert found
        return found

    def remove(self) -> Worktree:
        with lock_worktree(str(self.path)):
            return remove_worktree(self.load())

    def list_worktrees(self) -> list[str]:
        """The worktrees that git knows."""
        told = self.git("worktree", "list", "--porcelain").split("\n")
        return [line.removeprefix("worktree ") for line in told if line.startswith("worktree ")]

    def list_branches(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()

    def read_tree(self, commit: str) -> Files:
        """Every file of a commit."""
        told = self.git("ls-tree", "-r", "-z", commit)
        found: Files = {}
        for line in filter(None, told.split("\0")):
            head, _, name = line.partition("\t")
            mode, _, blob = head.split(" ")
            content = subprocess.run(["git", "cat-file", "blob", blob], cwd=self.top, check=True, capture_output=True)
            found[name] = _describe(int(mode, 8), content.stdout)
        return found

    def apply_patch(self, base: str) -> Files:
        """Every file of the commit `base` once the patch of what was saved has been applied to it."""
        place = self.root / "patched"
        self.git("worktree", "add", "-q", "--detach", str(place), base)
        if os.path.getsize(patch := self.load().patch):
            self.git("apply", "--index", "--whitespace=nowarn", patch, cwd=place)
        tree = self.git("write-tree", cwd=place)
        self.git("worktree", "remove", "--force", str(place))
        return self.read_tree(tree)


def list_files(top: Path, *, ignored: str = ".log") -> Files:
    """Every file and link of a work tree but those that are ignored."""
    found: Files = {}
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name != ".git"]
        for name in [*names, *(each for each in folders if os.path.islink(os.path.join(folder, each)))]:
            path = os.path.join(folder, name)
            if name == ".git" or name.endswith(ignored):
                continue
            mode = os.lstat(path).st_mode
            content = os.fsencode(os.readlink(path)) if os.path.islink(path) else Path(path).read_bytes()
            found[os.path.relpath(path, top)] = _describe(mode, content)
    return found


def _describe(mode: int, content: bytes) -> tuple[int, bytes]:
    """What git keeps of a file: whether it is a link, whether it can be executed, and what is in it."""
    return stat.S_IFLNK if stat.S_ISLNK(mode) else mode & 0o100, content
