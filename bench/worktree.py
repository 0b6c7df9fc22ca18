"""A worktree for a run, against what git itself needs for one."""

import os
import time

from bench.stage.place import place
from bench.stage.repository import run_git, write_repository
from bench.stage.rows import Row, at_most
from inspan.stores.repository import find_repository
from inspan.stores.worktree import Worktree, build_worktree_path, lock_worktree
from inspan.stores.worktree_creation import make_worktree
from inspan.stores.worktree_removal import remove_worktree

_FILES = 10_000


def measure(*, quick: bool = False) -> list[Row]:
    """Wall time of making and of removing one, in turns with `git worktree add` and `git worktree remove`."""
    rounds = 2 if quick else 7
    ours, peer, removed, peer_removed = list[float](), list[float](), list[float](), list[float]()
    with place() as here:
        os.environ |= {"HOME": here.path("home"), "GIT_CONFIG_NOSYSTEM": "1"}
        top = write_repository(here.path("work"), files=_FILES)
        for number in range(rounds):
            theirs = here.path(f"theirs-{number}")
            peer.append(_time_git(top, "worktree", "add", "-q", "-b", f"theirs-{number}", theirs))
            took, worktree = _time_ours(here.state, top, number)
            ours.append(took)
            peer_removed.append(_time_git(top, "worktree", "remove", theirs))
            began = time.perf_counter()
            remove_worktree(worktree)
            removed.append(time.perf_counter() - began)
    note = f"{_FILES} files, least of {rounds} rounds"
    return [
        at_most(
            "worktree_10k_vs_git", min(ours), min(peer), bar=1.5, unit="s", note=f"{note}, peer: git worktree add -b"
        ),
        at_most(
            "worktree_10k_removal_vs_git",
            min(removed),
            min(peer_removed),
            bar=None,
            unit="s",
            note=f"{note}, saved first; peer: git worktree remove, which saves nothing",
        ),
    ]


def _time_ours(state: str, top: str, number: int) -> tuple[float, Worktree]:
    began = time.perf_counter()
    repository = find_repository(top)
    assert repository
    run_id = f"20261118-000000000-{number}"
    path = build_worktree_path(state, project="p", run_id=run_id)
    new = Worktree(id=run_id, project="p", path=path, common=repository.common, checkout=top, folder=top)
    with lock_worktree(path):
        made = make_worktree(new, repository, branches=[f"inspan/{number}"])
    return time.perf_counter() - began, made.worktree


def _time_git(top: str, *arguments: str) -> float:
    began = time.perf_counter()
    run_git(top, *arguments)
    return time.perf_counter() - began
