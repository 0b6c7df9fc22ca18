"""What was saved of a worktree, told from what somebody has put in its place since.

It lies in the repository, as a commit, where every run may write, and beside the worktree as a patch. The record
outside says which commit and which patch that was; by these the files are found again, whatever a ref names by now.
"""

import hashlib
import os

import msgspec

from .git import SnapshotError, Steps, UserGit, check_step, read_file, read_steps, try_steps
from .repository import Repository, fill_git_dir
from .snapshot_steps import read_settings_steps
from .worktree import Worktree
from .worktree_steps import make_own_git

NO_REPLACEMENTS = (("core.useReplaceRefs", "false"),)
"""A setting by which a commit is what its id says, whatever a ref of the repository puts in its place."""
_DAMAGED = ("error:", "fatal:")


class FoundSalvage(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a worktree with the commit that has what was saved of it, and what of that somebody has changed."""

    worktree: Worktree
    warnings: tuple[str, ...] = ()


def find_salvage_steps(worktree: Worktree, scratch: str) -> Steps[FoundSalvage]:
    """Finds what was saved, in the commit or, where that is gone or damaged, by the patch; raises `SnapshotError` where
    neither is as it was saved. Afterwards the ref names it.
    """
    if not worktree.salvage:
        return FoundSalvage(worktree=worktree)
    git = UserGit(folder=worktree.common, scratch=scratch, settings=NO_REPLACEMENTS)
    warnings: list[str] = []
    is_intact = _is_patch_intact(worktree)
    if (yield from _is_commit_intact_steps(git, worktree.salvage)):
        if not is_intact:
            warnings.append(f"The patch {worktree.patch} is not what was saved. The files come from the commit.")
    elif is_intact:
        warnings.append(f"The commit {worktree.salvage} is gone or damaged. The files come from {worktree.patch}.")
        worktree = yield from _commit_patch_steps(git, worktree)
    else:
        raise SnapshotError(
            f"The commit {worktree.salvage} is gone or damaged, and the patch {worktree.patch} is not what was saved."
        )
    named = yield from try_steps(git, "rev-parse", "-q", "--verify", worktree.salvage_ref)
    if named != worktree.salvage:
        if named and not warnings:
            what = f"{worktree.salvage_ref} names {named}, which is not what was saved."
            warnings.append(f"{what} The files come from {worktree.salvage}, and the ref names that again.")
        yield from check_step(git.step("update-ref", "-m", "inspan", worktree.salvage_ref, worktree.salvage))
    return FoundSalvage(worktree=worktree, warnings=tuple(warnings))


def digest_file(path: str) -> str:
    """The SHA-256 of a file; empty where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _is_patch_intact(worktree: Worktree) -> bool:
    """Of one that was saved before this was recorded, that it is there is all there is to know."""
    found = digest_file(worktree.patch)
    return bool(found) and worktree.patch_sha256 in ("", found)


def _is_commit_intact_steps(git: UserGit, commit: str) -> Steps[bool]:
    """Whether all files of a commit are there and are what their ids say. git tells of one that is not, and goes on."""
    step = git.step("rev-list", "--verify-objects", "--missing=allow-promisor", "--no-walk", commit)
    code = yield step
    said = read_file(step.stderr).decode(errors="replace").splitlines()
    return not code and not any(line.startswith(_DAMAGED) for line in said)


def _commit_patch_steps(git: UserGit, worktree: Worktree) -> Steps[Worktree]:
    """Makes the commit of the files anew; raises `SnapshotError` where the one that the patch counts from is lost, and
    where a damaged object lies in the place of one of theirs.
    """
    ours = msgspec.structs.replace(make_own_git(worktree), top=worktree.common)
    settings = yield from read_settings_steps(ours, worktree.common)
    repository = Repository(top=worktree.common, git_dir=worktree.scratch, common=worktree.common)
    fill_git_dir(ours, repository, settings=settings, hidden=())
    yield from check_step(ours.step("read-tree", worktree.base, index="applied"))
    if os.path.getsize(worktree.patch):
        yield from check_step(ours.step("apply", "--cached", "--whitespace=nowarn", worktree.patch, index="applied"))
    yield from check_step(ours.step("write-tree", "--missing-ok", stdout="applied-tree", index="applied"))
    tree = read_file(ours.file("applied-tree")).decode().strip()
    head = worktree.head or worktree.base
    if not (yield from _is_commit_intact_steps(git, head)):
        head = worktree.base
    commit = yield from read_steps(git, "commit-tree", tree, "-p", head, "-m", f"Left by run {worktree.id}")
    if not (yield from _is_commit_intact_steps(git, commit)):
        raise SnapshotError(f"Objects of the repository {worktree.common} are damaged or gone: `git fsck` names them.")
    return msgspec.structs.replace(worktree, salvage=commit, head=head)
