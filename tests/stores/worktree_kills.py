"""`python worktree_kills.py ROOT ACT FIRST STEP`: kills an act on a worktree at each of its steps, and repairs it.

A step is whatever the interpreter is about to do to files or processes, as its audit hook tells it. Prints a line of
JSON for each kill: where it was, and what is wrong afterwards; nothing may be.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from inspan.runs.worktrees import PRUNED, list_worktrees, remove_entry, sweep_worktrees
from inspan.stores.worktree import load_worktree, lock_worktree
from inspan.stores.worktree_creation import restore_worktree
from inspan.stores.worktree_test_files import lay_patch, put_back
from tests.stores.worktree_repository import TEST_PATCH, Files, WorktreeRepository, list_files

_STEPS = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "subprocess.Popen", "shutil.rmtree")
_AS_IS = "converted.id"
_WRITES = os.O_WRONLY | os.O_RDWR


def main(root: Path, act_name: str, first: int, step: int) -> None:
    repository, wanted = _prepare(root / "here", act_name)
    users_files = list_files(repository.top)
    shutil.copytree(root / "here", root / "kept", symlinks=True)
    number = first
    while _run_killed(lambda: _ACTS[act_name](repository), number):
        at = (root / "at").read_text()
        if act_name == "test":
            problems = _check_put_back(repository, wanted)
        else:
            problems = _check_nothing_lost(repository, wanted)
            _complete(repository)
            problems += _check_complete(repository, wanted)
        if list_files(repository.top) != users_files:
            problems.append("the user's files are not what they were")
        print(json.dumps({"number": number, "at": at, "problems": problems}), flush=True)
        shutil.rmtree(root / "here")
        shutil.copytree(root / "kept", root / "here", symlinks=True)
        number += step


def _prepare(root: Path, act_name: str) -> tuple[WorktreeRepository, Files]:
    root.mkdir()
    repository = WorktreeRepository(root)
    if act_name == "make":
        return repository, {}
    repository.make()
    top = repository.path
    repository.write("committed", "x\n", top=top)
    repository.write(".gitattributes", "*.id ident\n", top=top)
    repository.commit(cwd=top)
    repository.write(_AS_IS, "$Id: by hand$\n", top=top)
    repository.write("kept.txt", "changed\n", top=top)
    repository.write("new/deep/file", bytes(range(256)), top=top)
    repository.write("staged", "as staged\n", top=top)
    repository.git("add", "staged", cwd=top)
    repository.write("staged", "as it is\n", top=top)
    repository.write("a.log", "ignored\n", top=top)
    if act_name == "test":
        (top / "sub/gone.txt").unlink()
        repository.write("sub/gone.txt/in its place", "a folder\n", top=top)
    wanted = list_files(top)
    if act_name == "restore":
        repository.remove()
    return repository, wanted


def _make(repository: WorktreeRepository) -> None:
    repository.make()


def _remove(repository: WorktreeRepository) -> None:
    repository.remove()


def _restore(repository: WorktreeRepository) -> None:
    with lock_worktree(str(repository.path)):
        restore_worktree(repository.load())


def _test(repository: WorktreeRepository) -> None:
    with lock_worktree(str(repository.path)):
        lay_patch(repository.load(), TEST_PATCH)
        put_back(str(repository.path))


_ACTS: dict[str, Callable[[WorktreeRepository], None]] = {
    "make": _make,
    "remove": _remove,
    "restore": _restore,
    "test": _test,
}


def _run_killed(act: Callable[[], object], number: int) -> bool:
    """Does it in a child that is killed before its step of this number; false where it has no such step."""
    pid = os.fork()
    if pid == 0:
        _count_down(number)
        act()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def _count_down(number: int) -> None:
    left = number

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES
        if event not in _STEPS and not writes:
            return
        left -= 1
        if left < 0:
            _note(Path(sys.argv[1], "at"), f"{event} {arguments[0]!r}")
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def _note(path: Path, text: str) -> None:
    """By another process, which has no hook: opening the file here would be a step, too."""
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", 'printf %s "$1" > "$2"', "sh", text, str(path)], {})
    os.waitpid(pid, 0)


def _check_nothing_lost(repository: WorktreeRepository, wanted: Files) -> list[str]:
    if not wanted or list_files(repository.path) == wanted:
        return []
    try:
        saved = repository.git("rev-parse", f"refs/inspan/salvage/{repository.path.name}")
    except subprocess.CalledProcessError:
        return ["the worktree is not what it was, and nothing is saved"]
    problems = [] if repository.read_tree(saved) == wanted else ["the commit does not have all files"]
    return problems if Path(f"{repository.path}.patch").exists() else [*problems, "there is no patch"]


def _check_put_back(repository: WorktreeRepository, wanted: Files) -> list[str]:
    sweep_worktrees(repository.state)
    beside = {name.removeprefix(repository.path.name) for name in os.listdir(repository.path.parent)}
    problems = [f"left behind: {name}" for name in sorted(beside - {"", ".json", ".lock"})]
    return problems if list_files(repository.path) == wanted else [*problems, "the worktree is not what it was"]


def _complete(repository: WorktreeRepository) -> None:
    """As `inspan worktrees prune` does, or the next start."""
    for entry in list_worktrees(repository.state):
        if entry.state in PRUNED:
            remove_entry(repository.state, entry)
    sweep_worktrees(repository.state)


def _check_complete(repository: WorktreeRepository, wanted: Files) -> list[str]:
    problems = _check_nothing_lost(repository, wanted)
    if list_worktrees(repository.state, sizes=False) and not wanted:
        problems.append(f"still listed: {list_worktrees(repository.state)}")
    if repository.path.exists():
        problems.append("the worktree is still there")
    if repository.list_worktrees() != [str(repository.top)]:
        problems.append(f"git knows {repository.list_worktrees()}")
    branches = ["inspan/five", "main"] if wanted else ["main"]
    if repository.list_branches() != branches:
        problems.append(f"the branches are {repository.list_branches()}")
    inside = [name for name in os.listdir(repository.top / ".git") if name == "worktrees" or "inspan" in name]
    kept = {f"{repository.path.name}{suffix}" for suffix in ((".json", ".lock", ".patch") if wanted else ())}
    beside = set(os.listdir(repository.path.parent)) - kept if repository.path.parent.exists() else set[str]()
    problems += [f"left behind: {name}" for name in (*inside, *sorted(beside))]
    if subprocess.run(["git", "fsck", "--connectivity-only"], cwd=repository.top, capture_output=True).returncode:
        problems.append("the repository is damaged")
    record = load_worktree(str(repository.path))
    if wanted and (record is None or not record.salvage):
        problems.append("the record does not know what was saved")
    if wanted and record and record.as_is != (_AS_IS,):
        problems.append(f"these would be written as they are: {record.as_is}")
    return problems


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
