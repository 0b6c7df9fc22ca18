"""The steps of git by which a worktree is made, looked at and saved.

Making one and looking at it are done with the configuration of the user's repository, as the user's own git would; its
hooks do not run, and of its filters only those that are known to read nothing of the repository. Saving one is done
with an index and a configuration of ours: whoever worked in it may have left a lock, a damaged index or settings that
name programs.
"""

import os
from collections.abc import Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from inspan.system.tree_walk import raise_error, walk_tree

from .conversions import (
    REGULAR_MODES,
    keep_bytes_steps,
    parse_entries,
    read_entries_steps,
    settle_forms_steps,
    write_as_is_steps,
)
from .file_versions import GITLINK_MODE
from .git import (
    Git,
    SnapshotError,
    Steps,
    UserGit,
    check_step,
    read_file,
    read_steps,
    shorten_path,
    try_steps,
    write_file,
)
from .git_tree import tree_steps
from .repository import Repository, copy_file, fill_git_dir, list_linked_worktrees, make_git_folders
from .run_folder import remove_file
from .snapshot_steps import read_settings_steps
from .worktree import Worktree
from .worktree_commits import find_operation, find_saved_steps, find_tips, list_unreachable_steps

LIMIT_S = 600.0
_STATUS = ("status", "--porcelain=v2", "-z", "--branch", "--ignore-submodules=dirty", "--no-renames")
_PATCH = ("diff-tree", "-p", "--binary", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
_BITS = ("--no-assume-unchanged", "--no-skip-worktree")
_RAW = ("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames")
# What a checkout gives a file; other permissions have to be remembered.
_PLAIN_MODES = (0o644, 0o755)
_FILTERS = r"^filter\..*\.(clean|smudge|process)$"
# Programs that are installed and read no code from where they run. Others may be files of the repository, or load some.
_KNOWN_FILTERS = ("git-lfs", "git-crypt")
_NO_SMUDGE = ("", "cat")
_HALF_MADE, _MOST_TRIES = "failed to read worktrees/", 10


class WorktreeChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What differs in a work tree from its last commit, and how many commits that one is ahead of another: `files` are
    changed or new, `ignored` are files and folders that git ignores, `unreachable` commits are on no branch any more,
    and `operation` is one of git's that was not finished."""

    files: int = 0
    ignored: int = 0
    commits: int = 0
    unreachable: int = 0
    head: str = ""
    branch: str = ""
    operation: str = ""


class Salvage(msgspec.Struct, frozen=True, kw_only=True):
    """What was saved of a worktree: a `commit`, empty where there was nothing that a branch or tag does not have.

    `on`, `as_is` and `modes` are as in its record.
    """

    head: str = ""
    commit: str = ""
    on: str | None = None
    as_is: tuple[str, ...] = ()
    modes: dict[str, int] = {}


class _Trees(msgspec.Struct, frozen=True, kw_only=True):
    """The files as they are, what was staged, and the commit below; and what a tree does not tell of the first."""

    files: str
    staged: str
    head: str
    as_is: Sequence[bytes] = ()
    modes: Mapping[bytes, int] = {}

    @property
    def has_nothing_new(self) -> bool:
        return self.files == self.staged == self.head and not self.as_is


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
    filters = yield from _list_filters_steps(git)
    unknown = {name for name, commands in filters.items() if not _is_known(commands)}
    if not (yield from _add_steps(_switch_off(git, unknown), *add)):
        changing = sorted(name for name in unknown if _changes_files(filters[name]))
        why = "is not run, because it may be a file of the repository"
        return f"The worktree has files as git stores them: a filter ({', '.join(changing)}) {why}." if changing else ""
    failed = SnapshotError(read_failure(git, "worktree add"))
    if not filters:
        raise failed
    if (yield from _add_steps(_switch_off(git, set(filters)), *add)):
        raise failed
    names = ", ".join(sorted(filters))
    return f"The worktree has files as git stores them: a filter ({names}) does not work here. {failed}"


def _add_steps(git: UserGit, *add: str) -> Steps[int]:
    """Git looks at all worktrees first, and fails over one that another process is about to make."""
    code = 1
    for _ in range(_MOST_TRIES):
        code = yield git.step(*add)
        if not code or _HALF_MADE not in read_failure(git, "worktree add"):
            break
    return code


def _list_filters_steps(git: UserGit) -> Steps[dict[str, dict[str, str]]]:
    """The filters of the user's configuration: by name, the command for each direction."""
    told = yield from try_steps(git, "config", "-z", "--get-regexp", _FILTERS)
    found: dict[str, dict[str, str]] = {}
    for setting in filter(None, told.split("\0")):
        key, _, command = setting.partition("\n")
        name, _, direction = key.partition(".")[2].rpartition(".")
        found.setdefault(name, {})[direction] = command
    return found


def _is_known(commands: Mapping[str, str]) -> bool:
    return all(command.strip("\"' ").partition(" ")[0].strip("\"'") in _KNOWN_FILTERS for command in commands.values())


def _changes_files(commands: Mapping[str, str]) -> bool:
    return any(commands.get(direction, "") not in _NO_SMUDGE for direction in ("smudge", "process"))


def _switch_off(git: UserGit, names: AbstractSet[str]) -> UserGit:
    off = [(f"filter.{name}.{key}", "") for name in sorted(names) for key in ("clean", "smudge", "process")]
    off += [(f"filter.{name}.required", "false") for name in sorted(names)]
    return msgspec.structs.replace(git, settings=(*git.settings, *off))


def _status_steps(git: UserGit, *options: str) -> Steps[WorktreeChanges]:
    """What git tells of a work tree without a filter: its program could be a file there, which an agent has written.

    What git knows by its times is not read anew; what a filter would make equal again counts as changed.
    """
    filters = yield from _list_filters_steps(git)
    yield from check_step(_switch_off(git, set(filters)).step(*_STATUS, *options, stdout="status"))
    return _parse_status(read_file(git.file("status")))


def branch_steps(git: UserGit, name: str, commit: str) -> Steps[bool]:
    """Makes a branch, and tells whether it could be made: there is none of this name, and there can be."""
    return not (yield git.step("update-ref", f"refs/heads/{name}", commit, "0" * len(commit)))


def list_checked_out_steps(git: UserGit) -> Steps[set[str]]:
    """The branches, as refs, that some worktree of the repository has checked out."""
    told = yield from read_steps(git, "worktree", "list", "--porcelain", "-z")
    return {word.removeprefix("branch ") for word in told.split("\0") if word.startswith("branch ")}


def changes_steps(git: UserGit, base: str = "", *, ignored: bool = True) -> Steps[WorktreeChanges]:
    """What differs in the work tree, also in files that git was told not to look at, and the commits since `base`."""
    shown = ("--ignored=traditional",) if ignored else ()
    seen = yield from _unhide_steps(git)
    found = yield from _status_steps(seen, "--untracked-files=all", *shown)
    count = (yield from try_steps(git, "rev-list", "--count", f"{base}..HEAD")) if base else ""
    return msgspec.structs.replace(found, commits=int(count or 0))


def count_uncommitted_steps(git: UserGit) -> Steps[int]:
    """How many files of a work tree are changed or new; a folder of new ones counts as one."""
    return (yield from _status_steps(git, "--untracked-files=normal")).files


def salvage_steps(worktree: Worktree, git_dir: str) -> Steps[Salvage]:
    """Saves all that is neither committed nor ignored in a worktree as a commit in its repository, and as a patch from
    its base beside it; raises `SnapshotError` unless both are complete.

    `git_dir` is the worktree's own in the repository, if it still has one.
    """
    ours = make_own_git(worktree)
    theirs = UserGit(folder=worktree.path, scratch=ours.file(""), git_dir=git_dir or worktree.common)
    head = yield from _find_head_steps(theirs, worktree, linked=bool(git_dir))
    on = yield from _find_branch_steps(theirs, linked=bool(git_dir))
    head_tree = yield from read_steps(theirs, "rev-parse", f"{head}^{{tree}}")
    trees = yield from _build_trees(ours, worktree, git_dir, head_tree)
    if worktree.status == "making" and (yield from _is_unfinished(ours, trees)):
        return Salvage(head=head)
    _refuse_operation(worktree, git_dir)
    _refuse_repositories(worktree.path, saved=(yield from read_entries_steps(ours)))
    found = Salvage(
        head=head,
        on=on,
        as_is=tuple(name.decode("latin-1") for name in trees.as_is),
        modes={name.decode("latin-1"): mode for name, mode in trees.modes.items()},
    )
    others = find_tips((yield from list_unreachable_steps(theirs, worktree, git_dir)))
    if trees.has_nothing_new and not others and (yield from _is_on_a_branch(theirs, head)):
        return found
    commit = yield from _commit_steps(theirs, worktree, head, trees, others)
    yield from check_step(theirs.step("update-ref", "-m", "inspan", worktree.salvage_ref, commit))
    yield from _verify_steps(ours, theirs, worktree, commit)
    return msgspec.structs.replace(found, commit=commit)


def rewrite_steps(worktree: Worktree, salvage: str) -> Steps[None]:
    """Gives the files of a worktree that was made again the bytes and permissions that git has not given them."""
    if worktree.as_is:
        ours = make_own_git(worktree)
        settings = yield from read_settings_steps(ours, worktree.common)
        repository = Repository(top=worktree.path, git_dir=worktree.scratch, common=worktree.common)
        fill_git_dir(ours, repository, settings=settings, hidden=())
        yield from write_as_is_steps(ours, salvage, [name.encode("latin-1") for name in worktree.as_is])
    for name, mode in worktree.modes.items():
        path = os.path.join(os.fsencode(worktree.path), name.encode("latin-1"))
        if os.path.isfile(path) and not os.path.islink(path):
            os.chmod(path, mode)


def read_failure(git: UserGit, what: str) -> str:
    """A sentence from what a call that failed left on stderr."""
    lines = read_file(git.file("complaints")).decode(errors="replace").strip().splitlines()
    said = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1] if lines else "")
    return f"`git {what}` failed: {said.strip().rstrip('.') or 'it did not say why'}."


def make_own_git(worktree: Worktree) -> Git:
    """A git directory of ours beside a worktree, which writes to the objects of its repository."""
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


def _find_branch_steps(theirs: UserGit, *, linked: bool) -> Steps[str | None]:
    """The branch that is checked out, empty for a detached HEAD; nothing where that cannot be told."""
    if not linked or not (yield from try_steps(theirs, "rev-parse", "-q", "--verify", "HEAD^{commit}")):
        return None
    return (yield from try_steps(theirs, "symbolic-ref", "-q", "HEAD")).removeprefix("refs/heads/")


def _build_trees(ours: Git, worktree: Worktree, git_dir: str, head_tree: str) -> Steps[_Trees]:
    repository = Repository(top=worktree.path, git_dir=git_dir or worktree.scratch, common=worktree.common)
    settings = yield from read_settings_steps(ours, worktree.common)
    remove_file(ours.file("index"))
    fill_git_dir(ours, repository, settings=settings, hidden=())
    if not os.path.exists(ours.file("index")) or (yield ours.step("ls-files", "--stage", "-z", stdout="staged")):
        # There is none, or it is damaged. What is committed tells which ignored files git looks at all the same.
        remove_file(ours.file("index"))
        yield from check_step(ours.step("read-tree", head_tree))
        yield from check_step(ours.step("ls-files", "--stage", "-z", stdout="staged"))
    listed = read_file(ours.file("staged"))
    _refuse_submodules(worktree.path, listed)
    staged = yield from try_steps(ours, "write-tree", "--missing-ok")  # None in the middle of a merge.
    yield from _reset_bits_steps(ours, worktree.path)
    yield from keep_bytes_steps(ours, settings)
    raw = yield from tree_steps(ours, whole=True)
    changed = yield from _list_changed_steps(ours, head_tree, raw)
    as_is = yield from settle_forms_steps(ours, settings, changed=changed, staged=parse_entries(listed))
    files = yield from read_steps(ours, "write-tree", "--missing-ok")
    changed = {*as_is, *(yield from _list_changed_steps(ours, head_tree, files))}
    modes = _read_modes(worktree.path, changed)
    return _Trees(files=files, staged=staged or files, head=head_tree, as_is=as_is, modes=modes)


def _list_changed_steps(ours: Git, before: str, after: str) -> Steps[set[bytes]]:
    """The regular files of a tree that another does not have like this."""
    yield from check_step(ours.step(*_RAW, before, after, stdout="changed"))
    words = read_file(ours.file("changed")).split(b"\0")
    return {name for head, name in zip(words[:-1:2], words[1::2], strict=True) if head.split(b" ")[1] in REGULAR_MODES}


def _read_modes(top: str, names: Iterable[bytes]) -> dict[bytes, int]:
    """The permissions of files that a checkout would not give them; none by which a program runs as its owner."""
    found = {name: os.lstat(os.path.join(os.fsencode(top), name)).st_mode & 0o777 for name in sorted(names)}
    return {name: mode for name, mode in found.items() if mode not in _PLAIN_MODES}


def _refuse_operation(worktree: Worktree, git_dir: str) -> None:
    if git_dir and (found := find_operation(git_dir)):
        raise SnapshotError(
            f"{found.name} is not finished there. Continue it, or give it up: `git -C {worktree.path} {found.abort}`."
        )


def _refuse_repositories(top: str, *, saved: Container[bytes]) -> None:
    """Raises `SnapshotError` for repositories in folders that are ignored: what is in them cannot be made again."""
    for each in walk_tree(top, on_error=raise_error):
        is_bare = "HEAD" in each.others and {"objects", "refs"} <= {*each.folders}
        has_pointer = bool(each.names) and (".git" in each.others or ".git" in each.folders)
        if has_pointer or (is_bare and os.fsencode("/".join((*each.names, "HEAD"))) not in saved):
            inside = shorten_path("/".join(each.names))
            raise SnapshotError(f"{inside} cannot be saved: a repository of its own. Move it away, or delete it.")
        if not each.names and ".git" in each.folders:
            each.folders.remove(".git")


def _refuse_submodules(top: str, staged: bytes) -> None:
    for line in staged.split(b"\0"):
        head, _, name = line.partition(b"\t")
        if head.startswith(GITLINK_MODE.encode()) and os.path.lexists(os.path.join(os.fsencode(top), name, b".git")):
            raise SnapshotError(f"{os.fsdecode(name)} cannot be saved: it is a submodule with a checkout of its own.")


def _unhide_steps(git: UserGit) -> Steps[UserGit]:
    """The same git, with a copy of its index where files are to be looked at that this says not to look at."""
    if not git.git_dir or not (yield from _list_hidden_steps(git, git.folder)):
        return git
    # The index of a part would be written beside the repository's own.
    whole = (*git.settings, ("core.splitIndex", "false"))
    ours = msgspec.structs.replace(git, index=git.file("index-unhidden"), settings=whole)
    copy_file(os.path.join(git.git_dir, "index"), ours.index)
    yield from _reset_bits_steps(ours, git.folder)
    return ours


def _list_hidden_steps(git: Git | UserGit, top: str) -> Steps[list[bytes]]:
    """The files that are there and that git was told not to look at."""
    yield from check_step(git.step("ls-files", "-v", "-z", stdout="marked"))
    names = [line[2:] for line in read_file(git.file("marked")).split(b"\0") if line[:1] == b"S" or line[:1].islower()]
    return [name for name in names if os.path.lexists(os.path.join(os.fsencode(top), name))]


def _reset_bits_steps(ours: Git | UserGit, top: str) -> Steps[None]:
    """Has git look at files that it was told not to look at, as far as they are there."""
    if there := (yield from _list_hidden_steps(ours, top)):
        write_file(ours.file("names"), b"".join(name + b"\0" for name in there))
        for bit in _BITS:  # One at a time: with both, git takes away the first alone.
            yield from check_step(ours.step("update-index", bit, "-z", "--stdin", stdin="names"))


def _is_unfinished(ours: Git, trees: _Trees) -> Steps[bool]:
    """Whether files are only missing: git was ended while it wrote them."""
    missing = ("--diff-filter=d", trees.head, trees.files)
    return not (yield ours.step("diff-tree", "-r", "--quiet", "--no-renames", *missing))


def _is_on_a_branch(theirs: UserGit, commit: str) -> Steps[bool]:
    kinds = ("refs/heads", "refs/tags", "refs/remotes")
    return bool((yield from try_steps(theirs, "for-each-ref", "--count=1", "--contains", commit, *kinds)))


def _commit_steps(theirs: UserGit, worktree: Worktree, head: str, trees: _Trees, others: Sequence[str]) -> Steps[str]:
    """A commit of the files on top of HEAD; what was staged, what was saved before and the `others` are its other
    parents."""
    before = yield from find_saved_steps(theirs, worktree)
    known = (yield from try_steps(theirs, "rev-parse", f"{before}^{{tree}}", f"{before}^@")) if before else ""
    if trees.has_nothing_new and not before and not others:
        return head
    has_staged = trees.staged not in (trees.files, trees.head)
    if known.split()[:2] == [trees.files, head] and not has_staged and not others:
        return before
    parents = [head, *([before] if before and before != head else [])]
    if has_staged:
        message = f"Staged in run {worktree.id}"
        parents.append((yield from read_steps(theirs, "commit-tree", trees.staged, "-p", head, "-m", message)))
    parents += [each for each in others if each not in parents]
    flags = [word for parent in parents for word in ("-p", parent)]
    return (yield from read_steps(theirs, "commit-tree", trees.files, *flags, "-m", f"Left by run {worktree.id}"))


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
