"""Removing a worktree: what is neither committed nor ignored in it is saved first, whatever git answers.

Each step can be killed and repeated. Only what was saved is renamed, and only what was renamed is deleted.
"""

import os
from contextlib import suppress
from typing import TypeVar

import msgspec

from inspan.errors import WorktreeUnusable

from .deletion import delete_tree, discard_tree
from .git import SnapshotError, Steps, UserGit, read_file, run_steps, try_steps
from .paths import make_private_folder, state_error
from .repository import find_repository
from .worktree import SCRATCH, Worktree, forget_worktree, save_worktree
from .worktree_salvage import digest_file
from .worktree_steps import LIMIT_S, Salvage, find_linked_git_dir, list_checked_out_steps, salvage_steps
from .worktree_test_files import put_back

_INITIALIZING = "initializing"
T = TypeVar("T")


def remove_worktree(
    worktree: Worktree, *, forget: bool = False, if_untouched: bool = False, discard: bool = False
) -> Worktree:
    """Saves what is in the worktree, deletes it and gives its record as it is then; the caller holds its lock and
    knows that nobody works there.

    Its branch goes with it if it has no commit of its own. With `forget` the record goes, too, unless something was
    saved; with `if_untouched` it stays if anything had to be; with `discard` nothing is saved, since nothing in it is
    anybody's work. Raises `WorktreeUnusable`, and then nothing of it is lost, or `StateUnusable`.
    """
    if os.path.lexists(worktree.path):
        before, worktree = worktree, worktree if discard else _save(worktree)
        if if_untouched and worktree.salvage != before.salvage:
            kept = msgspec.structs.replace(worktree, status="ready")
            save_worktree(kept)
            return kept
        _move(worktree.path, worktree.trash)
    _unlink(worktree)
    _delete_branch(worktree)
    for path in (worktree.trash, worktree.unlinked):
        delete_tree(path)
    clear_leftovers(worktree.path)
    if forget and not worktree.salvage:
        forget_worktree(worktree)
    removed = msgspec.structs.replace(worktree, status="removed")
    if not forget or worktree.salvage:
        save_worktree(removed)
    return removed


def clear_leftovers(path: str) -> None:
    """Deletes what whoever was killed has left beside a worktree, once what is needed of it is back in there."""
    put_back(path)
    name = os.path.basename(path)
    for entry in list(os.scandir(os.path.dirname(path))):
        if entry.name == f"{name}{SCRATCH}":
            delete_tree(entry.path)
        elif entry.name.startswith(f"{name}.") and entry.name.endswith(".draft"):
            with suppress(FileNotFoundError):
                os.unlink(entry.path)


def delete_salvage(worktree: Worktree) -> None:
    """Deletes what was saved of a removed worktree, and its record; the caller holds its lock."""
    if worktree.salvage and os.path.isdir(worktree.common):
        _run(worktree, _delete_ref_steps(_git(worktree), worktree.salvage_ref))
    clear_leftovers(worktree.path)
    forget_worktree(worktree)


def read_lock_reason(worktree: Worktree) -> str | None:
    """Why its user has locked the worktree (`git worktree lock`), perhaps with no word; `None` where it is not."""
    git_dir = find_linked_git_dir(worktree)
    try:
        reason = read_file(os.path.join(git_dir, "locked")).decode(errors="replace").strip() if git_dir else None
    except OSError:
        return None
    return None if worktree.status == "making" and reason == _INITIALIZING else reason


def find_common(worktree: Worktree) -> str:
    """The git data of its repository: as recorded, or where the worktree itself points since that was moved; empty
    where there is none."""
    if os.path.isdir(os.path.join(worktree.common, "objects")):
        return worktree.common
    found = find_repository(worktree.path)
    if found and found.top == worktree.path and found.common != found.git_dir:
        moved = msgspec.structs.replace(worktree, common=found.common)
        return found.common if find_linked_git_dir(moved) else ""
    return ""


def _save(worktree: Worktree) -> Worktree:
    put_back(worktree.path)
    common = find_common(worktree)
    if not common:
        repair = f"git worktree repair {worktree.path}"
        raise WorktreeUnusable(
            f"The worktree {worktree.path} is kept: its repository, {worktree.common}, is gone, "
            "so nothing in it can be saved there.",
            next_step=f"If it was moved, type there: `{repair}`; else delete the folder yourself.",
        )
    worktree = msgspec.structs.replace(worktree, common=common)
    if (reason := read_lock_reason(worktree)) is not None:
        why = f" ({reason})" if reason else ""
        raise WorktreeUnusable(
            f"The worktree {worktree.path} is kept: it is locked{why}.",
            next_step=f"`git -C {worktree.path} worktree unlock {worktree.path}`, and try again.",
        )
    saved = _salvage(worktree)
    if worktree.status == "making" and worktree.head:  # One that was being made again has its HEAD elsewhere.
        saved = msgspec.structs.replace(saved, head=worktree.head, on=worktree.on)
    worktree = msgspec.structs.replace(worktree, status="saved", head=saved.head, on=saved.on)
    if saved.commit:
        digest = digest_file(worktree.patch)
        details = {"salvage": saved.commit, "patch_sha256": digest, "as_is": saved.as_is, "modes": saved.modes}
        worktree = msgspec.structs.replace(worktree, **details)
    save_worktree(worktree)
    return worktree


def _salvage(worktree: Worktree) -> Salvage:
    delete_tree(worktree.scratch)
    if not os.listdir(worktree.path) and not worktree.salvage:
        return Salvage(head=worktree.base)  # Killed while it was made: git had not begun.
    try:
        return _run(worktree, salvage_steps(worktree, find_linked_git_dir(worktree)))
    finally:
        discard_tree(worktree.scratch)


def _run(worktree: Worktree, steps: Steps[T]) -> T:
    try:
        return run_steps(steps, limit_s=LIMIT_S)
    except SnapshotError as error:
        raise WorktreeUnusable(
            f"The worktree {worktree.path} is kept, because it could not be saved: {error}",
            next_step="Correct that and try again, or take what you need from it and delete the folder yourself.",
        ) from error


def _git(worktree: Worktree) -> UserGit:
    return UserGit(folder=worktree.common, scratch=make_private_folder(worktree.scratch), git_dir=worktree.common)


def _unlink(worktree: Worktree) -> None:
    """Takes the worktree out of those that git knows, in one step: half a git directory would be a stale one."""
    git_dir = find_linked_git_dir(worktree)
    if git_dir and not os.path.lexists(worktree.path):
        _move(git_dir, worktree.unlinked)
    with suppress(OSError):  # There are others, or it is gone.
        os.rmdir(os.path.join(worktree.common, "worktrees"))


def _delete_branch(worktree: Worktree) -> None:
    if worktree.branch and os.path.isdir(worktree.common):
        _run(worktree, _delete_branch_steps(_git(worktree), worktree))


def _delete_branch_steps(git: UserGit, worktree: Worktree) -> Steps[None]:
    """Deletes the branch if it has no commit of its own, and nobody else has checked it out."""
    ref = f"refs/heads/{worktree.branch}"
    tip = yield from try_steps(git, "rev-parse", "-q", "--verify", ref)
    if tip and tip == worktree.base and ref not in (yield from list_checked_out_steps(git)):
        yield git.step("update-ref", "-d", ref, tip)  # If it fails, a branch stays that says nothing new.


def _delete_ref_steps(git: UserGit, ref: str) -> Steps[None]:
    yield git.step("update-ref", "-d", ref)


def _move(source: str, target: str) -> None:
    delete_tree(target)
    try:
        os.rename(source, target)
    except OSError as error:
        raise state_error(source, error) from error
