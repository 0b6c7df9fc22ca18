"""The steps of git by which a worktree is made, looked at and saved.

Making one and looking at it are done with the configuration of the user's repository, as the user's own git would; its
hooks do not run. Saving one is done with an index and a configuration of ours: whoever worked in it may have left a
lock, a damaged index or settings that name programs.
"""

import os

import msgspec

from .file_versions import GITLINK_MODE
from .git import Git, SnapshotError, Steps, UserGit, check_step, read_file, read_steps, try_steps, write_file
from .git_tree import tree_steps
from .repository import Repository, fill_git_dir, list_linked_worktrees, make_git_folders
from .run_folder import remove_file
from .snapshot_steps import read_settings_steps
from .worktree import Worktree

LIMIT_S = 600.0
_STATUS = ("status", "--porcelain=v2", "-z", "--branch", "--ignore-submodules=dirty", "--no-renames")
_PATCH = ("diff-tree", "-p", "--binary", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
_BITS = ("--no-assume-unchanged", "--no-skip-worktree")
_FILTERS = r"^filter\..*\.(smudge|process)$"


class WorktreeChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What differs in a work tree from its last commit, and how many commits that one is ahead of another: `files` are
    changed or new, `ignored` are files and folders that git ignores."""

    files: int = 0
    ignored: int = 0
    commits: int = 0
    head: str = ""
    branch: str = ""


class Salvage(msgspec.Struct, frozen=True, kw_only=True):
    """What was saved of a worktree: a `commit`, empty where there was nothing that a branch or tag does not have."""

    head: str = ""
    commit: str = ""


def find_linked_git_dir(worktree: Worktree) -> str:
    """The git directory of a worktree in its repository, by which git knows it; empty where it knows none."""
    for git_dir, top in list_linked_worktrees(worktree.common).items():
        if os.path.realpath(top) == worktree.path:
            return git_dir
    return ""


def checkout_steps(git: UserGit, path: str, commit: str) -> Steps[str]:
    """Makes a worktree of a repository at a path, its HEAD detached; gives a sentence where a filter of git's, such as
    that of LFS, does not work, and its files are as git stores them."""
    add = ("worktree", "add", "--quiet", "--force", "--detach", path, commit)
    step = git.step(*add)
    if not (yield step):
        return ""
    failed = SnapshotError(read_failure(git, "worktree add"))
    told = yield from try_steps(git, "config", "-z", "--name-only", "--get-regexp", _FILTERS)
    filters = {key.split(".", 1)[1].rpartition(".")[0] for key in told.split("\0") if key}
    if not filters:
        raise failed
    off = [(f"filter.{name}.{key}", "") for name in filters for key in ("smudge", "process")]
    off += [(f"filter.{name}.required", "false") for name in filters]
    plain = msgspec.structs.replace(git, settings=tuple(off))
    if (yield plain.step(*add)):
        raise failed
    names = ", ".join(sorted(filters))
    return f"The worktree has files as git stores them: a filter ({names}) does not work here. {failed}"


def branch_steps(git: UserGit, name: str, commit: str) -> Steps[bool]:
    """Makes a branch, and tells whether it could be made: there is none of this name, and there can be."""
    return not (yield git.step("update-ref", f"refs/heads/{name}", commit, "0" * len(commit)))


def list_checked_out_steps(git: UserGit) -> Steps[set[str]]:
    """The branches, as refs, that some worktree of the repository has checked out."""
    told = yield from read_steps(git, "worktree", "list", "--porcelain", "-z")
    return {word.removeprefix("branch ") for word in told.split("\0") if word.startswith("branch ")}


def changes_steps(git: UserGit, base: str = "", *, ignored: bool = True) -> Steps[WorktreeChanges]:
    """What differs in the work tree, and the commits since `base`."""
    shown = ("--ignored=traditional",) if ignored else ()
    yield from check_step(git.step(*_STATUS, "--untracked-files=all", *shown, stdout="status"))
    found = _parse_status(read_file(git.file("status")))
    count = (yield from try_steps(git, "rev-list", "--count", f"{base}..HEAD")) if base else ""
    return msgspec.structs.replace(found, commits=int(count or 0))


def count_uncommitted_steps(git: UserGit) -> Steps[int]:
    """How many files of a work tree are changed or new; a folder of new ones counts as one."""
    yield from check_step(git.step(*_STATUS, "--untracked-files=normal", stdout="status"))
    return _parse_status(read_file(git.file("status"))).files


def salvage_steps(worktree: Worktree, git_dir: str) -> Steps[Salvage]:
    """Saves all that is neither committed nor ignored in a worktree as a commit in its repository, and as a patch from
    its base beside it; raises `SnapshotError` unless both are complete.

    `git_dir` is the worktree's own in the repository, if it still has one.
    """
    ours = _make_own_git(worktree)
    theirs = UserGit(folder=worktree.path, scratch=ours.file(""), git_dir=git_dir or worktree.common)
    head = yield from _find_head_steps(theirs, worktree, linked=bool(git_dir))
    tree, staged = yield from _build_trees(ours, worktree, git_dir, head)
    head_tree = yield from read_steps(theirs, "rev-parse", f"{head}^{{tree}}")
    if worktree.status == "making" and (yield from _is_unfinished(ours, head_tree, tree)):
        return Salvage(head=head)
    if tree == staged == head_tree and (yield from _is_on_a_branch(theirs, head)):
        return Salvage(head=head)
    commit = yield from _commit_steps(theirs, worktree, head, tree, staged, head_tree)
    yield from check_step(theirs.step("update-ref", "-m", "inspan", worktree.salvage_ref, commit))
    yield from _verify_steps(ours, theirs, worktree, commit)
    return Salvage(head=head, commit=commit)


def read_failure(git: UserGit, what: str) -> str:
    """A sentence from what a call that failed left on stderr."""
    lines = read_file(git.file("complaints")).decode(errors="replace").strip().splitlines()
    said = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1] if lines else "")
    return f"`git {what}` failed: {said.strip().rstrip('.') or 'it did not say why'}."


def _make_own_git(worktree: Worktree) -> Git:
    git = Git(
        git_dir=worktree.scratch,
        top=worktree.path,
        run_id="",
        objects=os.path.join(worktree.common, "objects"),
    )
    make_git_folders(git)
    return git


def _find_head_steps(theirs: UserGit, worktree: Worktree, *, linked: bool) -> Steps[str]:
    """The commit that is checked out; where that cannot be told any more, the branch's or the first one."""
    branch = f"refs/heads/{worktree.branch}" if worktree.branch else ""
    for name in ("HEAD" if linked else "", branch, worktree.base):
        if name and (found := (yield from try_steps(theirs, "rev-parse", "-q", "--verify", f"{name}^{{commit}}"))):
            return found
    raise SnapshotError(f"No commit of {worktree.path} is in its repository, {worktree.common}.")


def _build_trees(ours: Git, worktree: Worktree, git_dir: str, head: str) -> Steps[tuple[str, str]]:
    """The tree of the files as they are, and that of what is staged."""
    repository = Repository(top=worktree.path, git_dir=git_dir or worktree.scratch, common=worktree.common)
    settings = yield from read_settings_steps(ours, worktree.common)
    remove_file(ours.file("index"))
    fill_git_dir(ours, repository, settings=settings, hidden=())
    if not os.path.exists(ours.file("index")) or (yield ours.step("ls-files", "--stage", "-z", stdout="staged")):
        # There is none, or it is damaged. What is committed tells which ignored files git looks at all the same.
        remove_file(ours.file("index"))
        yield from check_step(ours.step("read-tree", head))
        yield from check_step(ours.step("ls-files", "--stage", "-z", stdout="staged"))
    _refuse_submodules(worktree.path, read_file(ours.file("staged")))
    staged = yield from try_steps(ours, "write-tree", "--missing-ok")  # None in the middle of a merge.
    yield from _reset_bits_steps(ours, worktree.path)
    tree = yield from tree_steps(ours, whole=True)
    return tree, staged or tree


def _refuse_submodules(top: str, staged: bytes) -> None:
    for line in staged.split(b"\0"):
        head, _, name = line.partition(b"\t")
        if head.startswith(GITLINK_MODE.encode()) and os.path.lexists(os.path.join(os.fsencode(top), name, b".git")):
            raise SnapshotError(f"{os.fsdecode(name)} cannot be saved: it is a submodule with a checkout of its own.")


def _reset_bits_steps(ours: Git, top: str) -> Steps[None]:
    """Has git look at files that it was told not to look at, as far as they are there."""
    yield from check_step(ours.step("ls-files", "-v", "-z", stdout="marked"))
    names = [line[2:] for line in read_file(ours.file("marked")).split(b"\0") if line[:1] == b"S" or line[:1].islower()]
    there = [name for name in names if os.path.lexists(os.path.join(os.fsencode(top), name))]
    if there:
        write_file(ours.file("names"), b"".join(name + b"\0" for name in there))
        for bit in _BITS:  # One at a time: with both, git takes away the first alone.
            yield from check_step(ours.step("update-index", bit, "-z", "--stdin", stdin="names"))


def _is_unfinished(ours: Git, head_tree: str, tree: str) -> Steps[bool]:
    """Whether files are only missing: git was ended while it wrote them."""
    return not (yield ours.step("diff-tree", "-r", "--quiet", "--no-renames", "--diff-filter=d", head_tree, tree))


def _is_on_a_branch(theirs: UserGit, commit: str) -> Steps[bool]:
    kinds = ("refs/heads", "refs/tags", "refs/remotes")
    return bool((yield from try_steps(theirs, "for-each-ref", "--count=1", "--contains", commit, *kinds)))


def _commit_steps(theirs: UserGit, worktree: Worktree, head: str, tree: str, staged: str, head_tree: str) -> Steps[str]:
    """A commit of the files on top of HEAD; what was staged and what was saved before are its other parents."""
    before = yield from try_steps(theirs, "rev-parse", "-q", "--verify", f"{worktree.salvage_ref}^{{commit}}")
    known = (yield from try_steps(theirs, "rev-parse", f"{before}^{{tree}}", f"{before}^@")) if before else ""
    if tree == staged == head_tree and not before:
        return head
    if known.split()[:2] == [tree, head] and staged in (tree, head_tree):
        return before
    parents = [head, *([before] if before and before != head else [])]
    if staged not in (tree, head_tree):
        index = yield from read_steps(theirs, "commit-tree", staged, "-p", head, "-m", f"Staged in run {worktree.id}")
        parents.append(index)
    flags = [word for parent in parents for word in ("-p", parent)]
    return (yield from read_steps(theirs, "commit-tree", tree, *flags, "-m", f"Left by run {worktree.id}"))


def _verify_steps(ours: Git, theirs: UserGit, worktree: Worktree, commit: str) -> Steps[None]:
    """Writes the patch; raises `SnapshotError` unless commit and patch give the same files, all of which are there."""
    found = yield from read_steps(theirs, "rev-parse", "--verify", worktree.salvage_ref)
    base = (yield from try_steps(theirs, "rev-parse", "-q", "--verify", f"{worktree.base}^{{commit}}")) or commit
    yield from check_step(theirs.step("rev-list", "--objects", "--quiet", commit, f"^{base}"))
    yield from check_step(ours.step(*_PATCH, base, commit, stdout="patch"))
    remove_file(ours.file("applied"))
    yield from check_step(ours.step("read-tree", base, index="applied"))
    if os.path.getsize(ours.file("patch")):
        apply = ours.step("apply", "--cached", "--whitespace=nowarn", ours.file("patch"), index="applied")
        yield from check_step(apply)
    yield from check_step(ours.step("write-tree", "--missing-ok", stdout="applied-tree", index="applied"))
    wanted = yield from read_steps(theirs, "rev-parse", f"{commit}^{{tree}}")
    if found != commit or read_file(ours.file("applied-tree")).decode().strip() != wanted:
        raise SnapshotError(f"What was saved of {worktree.path} is not what lies there.")
    with open(ours.file("patch"), "rb") as file:
        os.fsync(file.fileno())
    os.replace(ours.file("patch"), worktree.patch)


def _parse_status(told: bytes) -> WorktreeChanges:
    """Reads what `git status --porcelain=v2 -z --branch` prints."""
    lines = told.split(b"\0")
    heads = dict(os.fsdecode(line[2:]).split(" ", 1) for line in lines if line.startswith(b"# "))
    kinds = [line[:2] for line in lines]
    branch = heads.get("branch.head", "")
    return WorktreeChanges(
        files=sum(kind in (b"1 ", b"u ", b"? ") for kind in kinds),
        ignored=kinds.count(b"! "),
        head=heads.get("branch.oid", ""),
        branch="" if branch == "(detached)" else branch,
    )
