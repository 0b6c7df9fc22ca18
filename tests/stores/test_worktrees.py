"""A worktree for a run: made from any repository, and never removed before all that is in it has been saved."""

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from inspan.errors import RunBusy, WorktreeUnusable
from inspan.stores.git import SnapshotError
from inspan.stores.worktree import find_worktree, load_worktree, lock_worktree
from inspan.stores.worktree_changes import inspect_worktree
from inspan.stores.worktree_creation import restore_worktree
from inspan.stores.worktree_removal import delete_salvage
from inspan.stores.worktree_test_files import lay_patch, put_back
from tests.conftest import skip
from tests.deep_tree import nest_folders

from .snapshot_repository import wrap_git
from .worktree_repository import RUN_ID, TEST_PATCH, WorktreeRepository, list_files

STRANGE = os.fsdecode(b"not utf-8 \xff\xfe")
Repository = WorktreeRepository


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("XDG_CONFIG_HOME", "GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_CONFIG_GLOBAL"):
        monkeypatch.delenv(name, raising=False)
    return Repository(tmp_path)


@pytest.fixture
def made(repository: Repository) -> Repository:
    repository.make()
    return repository


def test_a_worktree_has_the_commit_of_the_checkout_on_a_branch_of_its_own(repository: Repository) -> None:
    made = repository.make()
    assert made.warnings == []
    assert repository.git("symbolic-ref", "HEAD", cwd=repository.path) == "refs/heads/inspan/five"
    assert repository.git("status", "--porcelain", cwd=repository.path) == ""
    assert list_files(repository.path) == list_files(repository.top)
    assert stat_mode(repository.path.parent) == stat_mode(repository.path.parent.parent) == 0o700


def stat_mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_uncommitted_changes_stay_behind_and_are_told_of(repository: Repository) -> None:
    repository.write("kept.txt", "half done\n")
    repository.write("new/one", "x")
    repository.write("a.log", "ignored")
    (said,) = repository.make().warnings
    assert said.startswith(f"2 uncommitted changes in {repository.top} are not in the worktree, ")
    assert (repository.path / "kept.txt").read_text() == "one\ntwo\n"


@pytest.mark.parametrize("taken", ["inspan/five", "inspan"], ids=["the name", "the folder of names"])
def test_a_branch_that_is_there_already_is_left_alone(repository: Repository, taken: str) -> None:
    repository.git("branch", taken)
    found = repository.make(branches=("inspan/five", f"inspan/{RUN_ID}")).worktree
    assert found.branch == (f"inspan/{RUN_ID}" if taken == "inspan/five" else "")
    repository.remove()
    assert repository.list_branches() == [taken, "main"]


def test_a_name_that_no_branch_can_have_is_passed_over(repository: Repository) -> None:
    assert repository.make(branches=("inspan/a..b", "inspan/x")).worktree.branch == "inspan/x"


def test_a_repository_without_a_commit_is_refused_and_nothing_is_left(tmp_path: Path, repository: Repository) -> None:
    empty = tmp_path / "empty"
    repository.git("init", "-q", str(empty))
    with pytest.raises(WorktreeUnusable, match="has no commit that a worktree could be made of") as caught:
        repository.make(cwd=empty)
    assert "git commit --allow-empty" in caught.value.next_step
    assert (load_worktree(str(repository.path)), repository.path.exists()) == (None, False)


def test_a_worktree_that_another_process_is_about_to_make_is_waited_for(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.git("worktree", "add", "-q", str(repository.root / "other"))
    half_made = repository.top / ".git/worktrees/other/commondir"
    half_made.write_text("")
    finishes = f'case "$*" in *"worktree add"*) echo ../.. > {half_made};; esac'
    path = wrap_git(repository.root / "bin", f'"$GIT" "$@"; code=$?; {finishes}; exit $code')
    monkeypatch.setenv("PATH", path)
    assert repository.make().warnings == []
    assert list_files(repository.path) == list_files(repository.top)


def test_a_detached_head_is_the_commit_that_it_is(repository: Repository) -> None:
    first = repository.git("rev-parse", "HEAD")
    repository.write("kept.txt", "second\n")
    repository.commit()
    repository.git("checkout", "-q", "--detach", first)
    assert repository.make().worktree.base == first
    repository.write("new", "x", top=repository.path)
    assert repository.read_tree(repository.remove().salvage)["new"][1] == b"x"


def test_a_shallow_clone_and_a_linked_worktree_have_worktrees(repository: Repository, tmp_path: Path) -> None:
    repository.commit()
    shallow, linked = tmp_path / "shallow", tmp_path / "linked"
    repository.git("clone", "-q", "--depth", "1", f"file://{repository.top}", str(shallow))
    repository.git("worktree", "add", "-q", "-b", "other", str(linked), cwd=shallow)
    for place in (shallow, linked):
        assert repository.make(cwd=place).worktree.common == str(shallow / ".git")
        repository.write("new", "x", top=repository.path)
        assert repository.git("ls-tree", "--name-only", repository.remove().salvage, "new", cwd=shallow) == "new"


def test_the_worktree_of_a_bare_repository_has_one_of_its_own(repository: Repository, tmp_path: Path) -> None:
    bare, place = tmp_path / "app.git", tmp_path / "place"
    repository.git("clone", "-q", "--bare", str(repository.top), str(bare))
    repository.git("worktree", "add", "-q", "-b", "work", str(place), cwd=bare)
    assert repository.make(cwd=place).worktree.common == str(bare)
    assert repository.remove().status == "removed"


@pytest.mark.parametrize("hook", ["post-checkout", "reference-transaction", "post-index-change"])
def test_a_hook_that_fails_is_not_run(repository: Repository, tmp_path: Path, hook: str) -> None:
    script = repository.write(f".git/hooks/{hook}", f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
    script.chmod(0o755)
    repository.make()
    repository.write("new", "x", top=repository.path)
    assert repository.remove().salvage
    assert not (tmp_path / "ran").exists()


def test_files_of_a_filter_that_is_missing_are_as_git_stores_them(repository: Repository) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"
    repository.write("data.bin", pointer)
    repository.write(".gitattributes", "*.bin filter=lfs\n")
    repository.commit()
    for key, value in (("smudge", "git-lfs no-such %f"), ("process", "git-lfs no-such"), ("required", "true")):
        repository.git("config", f"filter.lfs.{key}", value)
    (said, *_) = repository.make().warnings
    assert said.startswith("The worktree has files as git stores them: a filter (lfs) does not work here.")
    assert (repository.path / "data.bin").read_text() == pointer
    repository.write("new", "x", top=repository.path)
    assert set(repository.read_tree(repository.remove().salvage)) >= {"new", "data.bin"}


@pytest.mark.parametrize("command", ["sh ./tools/filter.sh", "tr a-z b-za", "sh tools/filter.sh"])
def test_a_filter_that_may_be_a_file_of_the_repository_is_never_run(repository: Repository, command: str) -> None:
    """Whoever works in a worktree can write that file, and looking at the worktree happens outside of any sandbox."""
    ran = repository.root / "ran"
    repository.write("tools/filter.sh", f"touch {ran}\ncat\n")
    repository.write(".gitattributes", "*.txt filter=own\n")
    repository.commit()
    for key in ("clean", "smudge"):
        repository.git("config", f"filter.own.{key}", command)
    made = repository.make()
    expected = "a filter (own) is not run, because it may be a file of the repository."
    assert made.warnings[0] == f"The worktree has files as git stores them: {expected}"
    repository.write("kept.txt", "three\n", top=repository.path)
    assert inspect_worktree(made.worktree).files == 1
    assert repository.remove().salvage
    assert not ran.exists()


def test_submodules_are_empty_and_one_that_is_filled_is_never_removed(repository: Repository, tmp_path: Path) -> None:
    repository.git("init", "-q", str(tmp_path / "library"))
    repository.write("a", "x", top=tmp_path / "library")
    repository.commit(cwd=tmp_path / "library")
    repository.git("submodule", "add", "-q", str(tmp_path / "library"), "inner")
    repository.commit()
    (said,) = repository.make().warnings
    assert said == "Submodules are empty in the worktree: `git submodule update --init` fills them."
    repository.write("new", "x", top=repository.path)
    assert "new" in repository.git("ls-tree", "-r", "--name-only", repository.remove().salvage)
    restore(repository)
    repository.git("submodule", "update", "-q", "--init", cwd=repository.path)
    repository.write("inner/work", "not committed", top=repository.path)
    with pytest.raises(WorktreeUnusable, match="inner cannot be saved: it is a submodule with a checkout of its own"):
        repository.remove()
    assert (repository.path / "inner/work").read_text() == "not committed"


def restore(repository: Repository) -> None:
    with lock_worktree(str(repository.path)):
        restore_worktree(repository.load())


def test_a_sparse_checkout_stays_one_and_loses_nothing(repository: Repository) -> None:
    repository.write("wide/one", "1")
    repository.commit()
    repository.git("sparse-checkout", "set", "sub")
    repository.make()
    repository.write("sub/new", "x", top=repository.path)
    repository.write("wide/beside", "in a folder that is left out", top=repository.path)
    found = repository.read_tree(repository.remove().salvage)
    assert (found["sub/new"][1], found["wide/one"][1]) == (b"x", b"1")
    assert found["wide/beside"][1] == b"in a folder that is left out"


def test_a_worktree_in_which_nothing_changed_leaves_nothing(made: Repository) -> None:
    before = made.git("for-each-ref")
    after = made.remove()
    assert (after.status, after.salvage, made.list_branches()) == ("removed", "", ["main"])
    assert made.list_worktrees() == [str(made.top)]
    assert "inspan" not in before.replace("inspan/five", "")
    assert not os.path.exists(after.patch)
    assert leftovers(made) == []


def leftovers(repository: Repository) -> list[str]:
    """What lies about that is neither a record, a lock nor a patch."""
    kept = {f"{RUN_ID}{suffix}" for suffix in (".json", ".lock", ".patch")}
    beside = sorted(set(os.listdir(repository.path.parent)) - kept)
    in_repository = [name for name in os.listdir(repository.top / ".git") if "inspan" in name or name == "worktrees"]
    return [*beside, *in_repository]


def _write_kinds(repository: Repository, top: Path) -> None:
    repository.write("kept.txt", "changed\r\n", top=top)
    (top / "sub/gone.txt").unlink()
    for name in ("new", "with space", "with\nnewline", '"quoted"', "ünï", STRANGE, "-dash", "deep/er/file"):
        repository.write(name, f"{name!r}\n", top=top)
    repository.write("binary", bytes(range(256)) * 100, top=top)
    repository.write("empty", "", top=top)
    repository.write("program", "#!/bin/sh\n", top=top).chmod(0o755)
    (top / "link").symlink_to("kept.txt")
    (top / "nowhere").symlink_to("/does/not/exist")
    (top / "empty folder").mkdir()


def _stage(repository: Repository, top: Path) -> None:
    repository.write("staged", "as staged\n", top=top)
    repository.git("add", "staged", cwd=top)
    repository.write("staged", "as it is\n", top=top)


def _commit_and_more(repository: Repository, top: Path) -> None:
    repository.write("committed", "x\n", top=top)
    repository.commit(cwd=top)
    repository.write("more", "y\n", top=top)


def _detach(repository: Repository, top: Path) -> None:
    repository.git("checkout", "-q", "--detach", cwd=top)
    _commit_and_more(repository, top)


def _stop_in_a_merge(repository: Repository, top: Path) -> None:
    repository.git("checkout", "-q", "-b", "side", cwd=top)
    repository.write("kept.txt", "side\n", top=top)
    repository.commit(cwd=top)
    repository.git("checkout", "-q", "inspan/five", cwd=top)
    repository.write("kept.txt", "own\n", top=top)
    repository.commit(cwd=top)
    with pytest.raises(subprocess.CalledProcessError):
        repository.git("merge", "-q", "side", cwd=top)


def _hide_from_git(repository: Repository, top: Path) -> None:
    repository.git("update-index", "--assume-unchanged", "kept.txt", cwd=top)
    repository.git("update-index", "--skip-worktree", "sub/gone.txt", cwd=top)
    repository.write("kept.txt", "changed unseen\n", top=top)
    repository.write("sub/gone.txt", "changed unseen, too\n", top=top)


def _leave_a_lock(repository: Repository, top: Path) -> None:
    repository.write("new", "x\n", top=top)
    repository.write(".git/worktrees/locked/no", "")
    for name in ("index.lock", "HEAD.lock"):
        (_git_dir(repository) / name).touch()
    shutil.rmtree(repository.top / ".git/worktrees/locked")


def _damage_the_index(repository: Repository, top: Path) -> None:
    repository.write("new", "x\n", top=top)
    (_git_dir(repository) / "index").write_bytes(b"DIRC no index")


def _remove_the_index(repository: Repository, top: Path) -> None:
    repository.write("kept.txt", "changed\n", top=top)
    (_git_dir(repository) / "index").unlink()


def _damage_the_head(repository: Repository, top: Path) -> None:
    repository.write("new", "x\n", top=top)
    (_git_dir(repository) / "HEAD").write_text("ref: refs/heads/nothing\n")


def _forget_by_git(repository: Repository, top: Path) -> None:
    """As `git worktree prune` does while the disk with the worktree is away."""
    repository.write("kept.txt", "changed\n", top=top)
    shutil.rmtree(_git_dir(repository))


def _redirect(repository: Repository, top: Path) -> None:
    repository.write("new", "x\n", top=top)
    (top / ".git").write_text("gitdir: /nowhere\n")


def _replace_git(repository: Repository, top: Path) -> None:
    repository.write("new", "x\n", top=top)
    (top / ".git").unlink()


def _write_read_only_folders(repository: Repository, top: Path) -> None:
    repository.write("cache/mod/file", "x\n", top=top)
    (top / "cache/mod/file").chmod(0o444)
    for name in ("cache/mod", "cache"):
        (top / name).chmod(0o555)


def _write_large_file(repository: Repository, top: Path) -> None:
    with open(top / "large", "wb") as file:
        file.truncate(51 * 1024 * 1024)


def _open_socket(repository: Repository, top: Path) -> None:
    repository.write("new", "x\n", top=top)
    os.mkfifo(top / "pipe")
    there = os.getcwd()
    os.chdir(top)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    os.chdir(there)


def _change_ignored_tracked(repository: Repository, top: Path) -> None:
    repository.write("tracked.log", "ignored, and tracked all the same\n", top=top)
    repository.git("add", "-f", "tracked.log", cwd=top)


def _write_what_git_converts(repository: Repository, top: Path) -> None:
    rules = "* text=auto\n*.id ident\n*.x working-tree-encoding=UTF-16\n*.rot filter=rot\n"
    repository.write(".gitattributes", rules, top=top)
    for key in ("clean", "smudge"):
        repository.git("config", f"filter.rot.{key}", "tr a-z b-za", cwd=top)
    for name in ("new.bat", "kept.txt"):
        repository.write(name, "one\r\ntwo\r\n", top=top)
    repository.write("sub/mixed", "one\r\ntwo\nthree", top=top)
    repository.write("keyword.id", "$Id: by hand$\n", top=top)
    repository.write("not.x", "no byte order mark\n", top=top)
    repository.write("filtered.rot", "abc\n", top=top)


def _git_dir(repository: Repository) -> Path:
    return repository.top / ".git/worktrees" / RUN_ID


LEAVINGS: dict[str, Callable[[Repository, Path], None]] = {
    "every kind of file": _write_kinds,
    "staged": _stage,
    "commits": _commit_and_more,
    "a detached head": _detach,
    "a merge": _stop_in_a_merge,
    "hidden from git": _hide_from_git,
    "locks": _leave_a_lock,
    "a damaged index": _damage_the_index,
    "no index": _remove_the_index,
    "a damaged head": _damage_the_head,
    "forgotten by git": _forget_by_git,
    "a pointer to nowhere": _redirect,
    "no pointer": _replace_git,
    "read-only folders": _write_read_only_folders,
    "a large file": _write_large_file,
    "a socket and a pipe": _open_socket,
    "an ignored file that is tracked": _change_ignored_tracked,
    "what git converts": _write_what_git_converts,
}


def read_all(top: Path) -> dict[str, tuple[int, bytes | str]]:
    found = list_files(top, ignored="a.log")
    return {name: each for name, each in found.items() if name not in ("socket", "pipe")}


@pytest.fixture
def in_work(made: Repository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    # What reads a pipe or a socket would wait for ever, or fail.
    monkeypatch.setattr(Path, "read_bytes", _read_regular)
    return made


def _read_regular(path: Path) -> bytes:
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read()


@pytest.mark.parametrize("leave", LEAVINGS.values(), ids=LEAVINGS.keys())
def test_all_that_is_left_in_a_worktree_is_saved_before_it_goes(
    in_work: Repository, leave: Callable[[Repository, Path], None]
) -> None:
    leave(in_work, in_work.path)
    in_work.write("a.log", "ignored, and not saved", top=in_work.path)
    wanted, users_files = read_all(in_work.path), list_files(in_work.top)
    index = (in_work.top / ".git/index").read_bytes()
    after = in_work.remove()
    assert in_work.git("rev-parse", f"refs/inspan/salvage/{RUN_ID}") == after.salvage
    assert in_work.read_tree(after.salvage) == wanted
    assert in_work.apply_patch(after.base) == wanted
    assert (in_work.path.exists(), in_work.list_worktrees(), leftovers(in_work)) == (False, [str(in_work.top)], [])
    assert (list_files(in_work.top), (in_work.top / ".git/index").read_bytes()) == (users_files, index)


@pytest.mark.parametrize("leave", LEAVINGS.values(), ids=LEAVINGS.keys())
def test_a_removed_worktree_is_made_again_as_it_was(
    in_work: Repository, leave: Callable[[Repository, Path], None]
) -> None:
    leave(in_work, in_work.path)
    wanted = read_all(in_work.path)
    head = in_work.load().base if leave in (_damage_the_head, _redirect, _replace_git, _forget_by_git) else ""
    head = head or in_work.git("rev-parse", "HEAD", cwd=in_work.path)
    in_work.remove()
    restore(in_work)
    assert read_all(in_work.path) == wanted
    assert in_work.git("rev-parse", "HEAD", cwd=in_work.path) == head
    salvage = in_work.load().salvage
    assert in_work.remove().salvage == salvage


def _name_another(made: Repository) -> None:
    """As an agent can that commits in a checkout of the repository."""
    made.git("update-ref", made.load().salvage_ref, "HEAD")


def _delete_the_commit(made: Repository) -> None:
    _name_another(made)
    made.git("reflog", "expire", "--expire=now", "--all")
    made.git("gc", "-q", "--prune=now")


def _replace_the_commit(made: Repository) -> None:
    made.git("replace", made.load().salvage, "HEAD")


def _damage_a_file(made: Repository) -> None:
    """The content of another one, under its id."""
    made.write("evil", "evil")
    ids = (made.git("rev-parse", f"{made.load().salvage}:precious"), made.git("hash-object", "-w", "evil"))
    (made.top / "evil").unlink()
    target, source = (made.top / ".git/objects" / each[:2] / each[2:] for each in ids)
    target.unlink()
    target.write_bytes(source.read_bytes())


def _change_the_patch(made: Repository) -> None:
    Path(made.load().patch).write_text("evil")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_name_another, "names "),
        (_delete_the_commit, "is gone or damaged. The files come from "),
        (_replace_the_commit, ""),
        (_change_the_patch, "is not what was saved. The files come from the commit."),
    ],
)
def test_what_was_saved_is_what_comes_back_whatever_was_done_to_one_copy(
    made: Repository, change: Callable[[Repository], None], told: str
) -> None:
    made.write("precious", "mine\n", top=made.path)
    made.write("a", "staged", top=made.path)
    made.git("add", "a", cwd=made.path)
    wanted, head = read_all(made.path), made.git("rev-parse", "HEAD", cwd=made.path)
    made.remove()
    change(made)
    with lock_worktree(str(made.path)):
        warnings = restore_worktree(made.load()).warnings
    assert read_all(made.path) == wanted and made.git("rev-parse", "HEAD", cwd=made.path) == head
    assert [told in text for text in warnings] == [True] * bool(told)
    assert made.git("rev-parse", made.load().salvage_ref) == made.load().salvage
    assert made.remove().salvage, "and can be saved again"


def _damage_both(made: Repository) -> None:
    _change_the_patch(made)
    _delete_the_commit(made)


@pytest.mark.parametrize("change", [_damage_both, _damage_a_file])
def test_other_files_than_were_saved_never_come_back(made: Repository, change: Callable[[Repository], None]) -> None:
    made.write("precious", "mine\n", top=made.path)
    before = made.remove()
    change(made)
    with pytest.raises(WorktreeUnusable, match="cannot be made again as it was"):
        restore(made)
    assert (made.load(), made.path.exists()) == (before, False)


def test_what_was_staged_and_what_was_saved_before_are_kept_too(made: Repository) -> None:
    _stage(made, made.path)
    first = made.remove().salvage
    assert made.git("show", f"{first}^2:staged") == "as staged"
    restore(made)
    (made.path / "staged").unlink()
    made.write("other", "y", top=made.path)
    second = made.remove().salvage
    assert made.git("merge-base", "--is-ancestor", first, second) == ""
    assert made.git("show", f"{second}:other") == "y"


def test_a_branch_with_commits_stays_and_so_does_one_that_the_user_has_checked_out(made: Repository) -> None:
    _commit_and_more(made, made.path)
    made.remove()
    assert made.list_branches() == ["inspan/five", "main"]
    delete_salvage(made.load())
    made.git("branch", "-qD", "inspan/five")
    made.make()
    made.git("checkout", "-q", "--ignore-other-worktrees", "inspan/five")
    made.remove()
    assert made.git("symbolic-ref", "--short", "HEAD") == "inspan/five"
    assert made.git("rev-parse", "HEAD")


@pytest.mark.parametrize("ignored", ["", "nested"], ids=["seen", "ignored"])
@pytest.mark.parametrize("kind", [(), ("--bare",)], ids=["a checkout", "a bare one"])
def test_a_repository_inside_the_worktree_is_not_lost(made: Repository, ignored: str, kind: tuple[str, ...]) -> None:
    made.write(".gitignore", f"*.log\n{ignored}\n", top=made.path)
    made.git("init", "-q", *kind, str(made.path / "nested/inner"))
    made.write("nested/inner/work", "x", top=made.path)
    if kind and not ignored:  # Of that, git takes in the files.
        assert made.read_tree(made.remove().salvage)["nested/inner/work"][1] == b"x"
        return
    with pytest.raises(WorktreeUnusable, match=r"nested/inner/? cannot be saved: a repository of its own"):
        made.remove()
    assert (made.path / "nested/inner/work").exists()


def test_permissions_come_back_with_what_was_saved(made: Repository) -> None:
    made.write("secret", "x", top=made.path).chmod(0o4600)
    made.write("kept.txt", "x", top=made.path).chmod(0o640)
    made.remove()
    restore(made)
    assert [stat_mode(made.path / name) for name in ("secret", "kept.txt", ".gitignore")] == [0o600, 0o640, 0o644]


def test_what_git_wrote_by_its_rules_is_no_change(repository: Repository) -> None:
    repository.write("plain.txt", "one\r\ntwo\n")  # As it was before there were rules.
    repository.commit()
    repository.write(".gitattributes", "*.txt text eol=crlf\n*.id ident\n*.x working-tree-encoding=UTF-16LE-BOM\n")
    repository.write("word.id", "$Id$\n")
    repository.write("wide.x", b"\xff\xfe" + "one\n".encode("utf-16-le"))
    repository.git("add", "wide.x", "word.id", ".gitattributes")
    repository.git("commit", "-qm", "rules")
    repository.make()
    assert (repository.path / "kept.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert repository.remove().salvage == ""
    restore(repository)
    # What the user's own git takes in and writes is saved as that git would.
    repository.write("kept.txt", "one\r\n2\r\n", top=repository.path)
    repository.write("sub/gone.txt", "here\n", top=repository.path)  # To git it is the same, and its bytes are not.
    wanted = list_files(repository.path)
    salvage = repository.remove().salvage
    assert repository.git("diff", "--name-only", f"{salvage}^", salvage) == "kept.txt"
    assert repository.read_tree(salvage)["kept.txt"][1] == b"one\n2\n"
    restore(repository)
    assert list_files(repository.path) == wanted


def _reset(repository: Repository, top: Path) -> None:
    repository.write("precious", "x", top=top)
    repository.commit(cwd=top)
    repository.git("reset", "-q", "--hard", "HEAD~1", cwd=top)


def _amend(repository: Repository, top: Path) -> None:
    repository.write("precious", "x", top=top)
    repository.commit(cwd=top)
    (top / "precious").unlink()
    repository.git("commit", "-q", "-a", "--amend", "--allow-empty", "-m", "other", cwd=top)


def _leave_a_detached_head(repository: Repository, top: Path) -> None:
    repository.git("checkout", "-q", "--detach", cwd=top)
    repository.write("precious", "x", top=top)
    repository.commit(cwd=top)
    repository.git("checkout", "-q", "inspan/five", cwd=top)


def _delete_a_branch(repository: Repository, top: Path) -> None:
    repository.git("checkout", "-q", "-b", "side", cwd=top)
    repository.write("precious", "x", top=top)
    repository.commit(cwd=top)
    repository.git("checkout", "-q", "inspan/five", cwd=top)
    repository.git("branch", "-qD", "side", cwd=top)


def _name_by_a_ref_of_the_worktree(repository: Repository, top: Path) -> None:
    _reset(repository, top)
    repository.git("update-ref", "refs/worktree/mine", "ORIG_HEAD", cwd=top)
    (_git_dir(repository) / "logs/HEAD").unlink()
    (_git_dir(repository) / "ORIG_HEAD").unlink()


def _autostash(repository: Repository, top: Path) -> None:
    """A merge that stopped, and has set aside what was not committed."""
    _stop_in_a_merge(repository, top)
    repository.git("merge", "--abort", cwd=top)
    repository.write("precious", "x", top=top)
    repository.git("add", "precious", cwd=top)
    with pytest.raises(subprocess.CalledProcessError):
        repository.git("merge", "-q", "--autostash", "side", cwd=top)
    assert not (top / "precious").exists()


COMMITS: dict[str, Callable[[Repository, Path], None]] = {
    "reset": _reset,
    "amended": _amend,
    "on a detached head": _leave_a_detached_head,
    "on a deleted branch": _delete_a_branch,
    "named by the worktree": _name_by_a_ref_of_the_worktree,
    "an autostash": _autostash,
}


@pytest.mark.parametrize("leave", COMMITS.values(), ids=COMMITS.keys())
def test_commits_that_only_the_worktree_names_are_saved_with_it(
    made: Repository, leave: Callable[[Repository, Path], None]
) -> None:
    leave(made, made.path)
    assert inspect_worktree(made.load()).unreachable >= 1
    salvage = made.remove().salvage
    made.git("reflog", "expire", "--expire=now", "--all")
    made.git("gc", "-q", "--prune=now")
    found = [made.read_tree(commit) for commit in made.git("rev-list", salvage).split()]
    assert any(files.get("precious", (0, b""))[1] == b"x" for files in found)
    restore(made)
    assert inspect_worktree(made.load()).unreachable == 0
    assert made.remove().salvage == salvage


def _start_rebase(repository: Repository, top: Path) -> None:
    _autostash(repository, top)
    repository.git("merge", "--abort", cwd=top)
    with pytest.raises(subprocess.CalledProcessError):
        repository.git("rebase", "-q", "--autostash", "side", cwd=top)


def _start_picking(repository: Repository, top: Path) -> None:
    _stop_in_a_merge(repository, top)
    repository.git("merge", "--abort", cwd=top)
    with pytest.raises(subprocess.CalledProcessError):
        repository.git("cherry-pick", "side", cwd=top)


def _start_bisecting(repository: Repository, top: Path) -> None:
    repository.git("bisect", "start", cwd=top)


OPERATIONS = {
    "a rebase": (_start_rebase, "rebase --abort"),
    "a cherry-pick": (_start_picking, "cherry-pick --abort"),
    "a bisect": (_start_bisecting, "bisect reset"),
}


@pytest.mark.parametrize(("name", "start", "abort"), [(name, *each) for name, each in OPERATIONS.items()])
def test_an_operation_that_is_not_finished_keeps_the_worktree(
    made: Repository, name: str, start: Callable[[Repository, Path], None], abort: str
) -> None:
    start(made, made.path)
    assert inspect_worktree(made.load()).operation == name
    with pytest.raises(WorktreeUnusable, match=f"{name} is not finished there") as caught:
        made.remove()
    assert f"`git -C {made.path} {abort}`" in str(caught.value)
    made.git(*abort.split(), cwd=made.path)
    wanted = list_files(made.path)
    made.remove()
    restore(made)
    assert list_files(made.path) == wanted


def test_a_restored_worktree_is_on_the_branch_that_it_was_on(made: Repository) -> None:
    made.git("checkout", "-q", "-b", "other", cwd=made.path)
    made.write("new", "x", top=made.path)
    made.remove()
    restore(made)
    assert made.git("symbolic-ref", "HEAD", cwd=made.path) == "refs/heads/other"


def test_what_was_stashed_in_a_worktree_stays_in_the_repository(made: Repository) -> None:
    made.write("kept.txt", "stashed\n", top=made.path)
    made.git("stash", "-q", cwd=made.path)
    made.remove()
    assert made.git("show", "stash@{0}:kept.txt") == "stashed"


def test_a_name_that_git_never_takes_in_is_not_lost(made: Repository) -> None:
    made.write("sub/.GIT/notes", "x", top=made.path)
    with pytest.raises(WorktreeUnusable, match=r"sub/\.GIT/notes cannot be saved: git takes in nothing of that name"):
        made.remove()
    shutil.rmtree(made.path / "sub/.GIT")
    (made.path / ".gitmodules").symlink_to("kept.txt")
    with pytest.raises(WorktreeUnusable, match=r"\.gitmodules cannot be saved"):
        made.remove()


def _deny(path: bytes | str, mode: int) -> bool:
    return not os.fsencode(path).endswith(b"secret")


def test_a_file_that_cannot_be_read_is_not_lost(made: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    made.write("secret", "x", top=made.path).chmod(0)
    if os.geteuid() == 0:  # Who can read everything.
        monkeypatch.setattr(os, "access", _deny)
    with pytest.raises(WorktreeUnusable, match="secret cannot be saved: not readable"):
        made.remove()


@pytest.mark.parametrize("reason", ["", "in the drawer"])
def test_a_worktree_that_its_user_has_locked_stays(made: Repository, reason: str) -> None:
    made.git("worktree", "lock", "--reason", reason, str(made.path))
    with pytest.raises(WorktreeUnusable, match="is locked") as caught:
        made.remove()
    assert reason in str(caught.value)
    made.git("worktree", "unlock", str(made.path))
    assert made.remove().status == "removed"


def test_a_worktree_that_vanished_leaves_no_entry_behind(made: Repository) -> None:
    shutil.rmtree(made.path)
    assert made.remove().status == "removed"
    assert (made.list_worktrees(), made.list_branches(), leftovers(made)) == ([str(made.top)], ["main"], [])


def test_a_worktree_whose_repository_was_moved_stays_until_git_has_repaired_it(made: Repository) -> None:
    made.write("new", "x", top=made.path)
    made.top.rename(made.root / "moved")
    with pytest.raises(WorktreeUnusable, match="is gone") as caught:
        made.remove()
    assert f"git worktree repair {made.path}" in caught.value.next_step
    made.top = made.root / "moved"
    made.git("worktree", "repair", str(made.path))
    after = made.remove()
    assert made.read_tree(after.salvage)["new"][1] == b"x"


def test_a_worktree_whose_repository_was_deleted_stays(made: Repository) -> None:
    made.write("new", "x", top=made.path)
    shutil.rmtree(made.top)
    with pytest.raises(WorktreeUnusable, match="is gone"):
        made.remove()
    assert (made.path / "new").read_text() == "x"
    made.top = made.root
    with pytest.raises(WorktreeUnusable, match="cannot be made again"):
        restore(made)


def test_a_pointer_to_another_repository_is_not_followed(made: Repository, tmp_path: Path) -> None:
    other = tmp_path / "other"
    made.git("init", "-q", str(other))
    made.write("new", "x", top=made.path)
    (made.path / ".git").write_text(f"gitdir: {other}/.git\n")
    assert made.read_tree(made.remove().salvage)["new"][1] == b"x"
    assert not (other / ".git/refs/inspan").exists()


@pytest.mark.parametrize(
    "fails",
    ["commit-tree", "update-ref", "diff-tree", "write-tree", "apply", "rev-list", "update-index", "ls-files"],
)
@pytest.mark.parametrize("way", ["exit 1", "kill -9 $$"])
def test_whatever_git_answers_nothing_is_removed_unless_it_is_saved(
    made: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, way: str
) -> None:
    _write_kinds(made, made.path)
    wanted = list_files(made.path)
    path = os.environ["PATH"]
    body = f'case " $* " in *" {fails} "*) echo "fatal: no $3" >&2; {way};; esac\nexec "$GIT" "$@"'
    monkeypatch.setenv("PATH", wrap_git(tmp_path / "bin", body))
    with pytest.raises(WorktreeUnusable, match="is kept, because it could not be saved"):
        made.remove()
    assert list_files(made.path) == wanted
    monkeypatch.setenv("PATH", path)
    assert made.read_tree(made.remove().salvage) == wanted


def test_a_commit_that_lacks_a_file_is_not_taken_for_saved(
    made: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.write("new", "some content that is nowhere else\n", top=made.path)
    blob = made.git("hash-object", str(made.path / "new"))
    lost = made.top / ".git/objects" / blob[:2] / blob[2:]
    body = f'"$GIT" "$@"; code=$?; case " $* " in *" commit-tree "*) rm -f {lost};; esac; exit $code'
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", wrap_git(tmp_path / "bin", body))
    with pytest.raises(WorktreeUnusable, match="could not be saved"):
        made.remove()
    assert (made.path / "new").exists()
    monkeypatch.setenv("PATH", path)
    assert made.remove().salvage


def test_two_who_remove_a_worktree_do_not_meet(made: Repository) -> None:
    with lock_worktree(str(made.path)), pytest.raises(RunBusy, match="is being made, tested or removed just now"):
        made.remove()


def test_ten_thousand_files_are_made_looked_at_and_removed(repository: Repository) -> None:
    for number in range(10_000):
        repository.write(f"many/{number % 100}/{number}", f"{number}\n")
    repository.commit()
    made = repository.make().worktree
    assert len(list_files(repository.path)) == 10_003
    repository.write("many/7/7", "changed", top=repository.path)
    found = inspect_worktree(made)
    assert (found.files, found.commits, found.ignored) == (1, 0, 0)
    assert repository.git("show", f"{repository.remove().salvage}:many/7/7") == "changed"


def test_a_folder_is_told_to_be_in_a_worktree_by_its_path(made: Repository, tmp_path: Path) -> None:
    found = find_worktree(made.state, str(made.path / "sub"))
    assert found and found.id == RUN_ID
    (tmp_path / "link").symlink_to(made.path / "sub")
    assert find_worktree(made.state, str(tmp_path / "link")) == found
    assert find_worktree(made.state, str(made.path.parent)) is None
    assert find_worktree(made.state, str(made.top)) is None


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "small", str(place)], check=False).returncode:
        skip("no-namespaces")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("full", ["the repository", "the state folder"])
def test_a_disk_that_is_full_in_the_middle_of_saving_loses_nothing(
    repository: Repository, small_disk: Path, full: str
) -> None:
    if full == "the repository":
        (small_disk / "app").mkdir()
        shutil.copytree(repository.top, small_disk / "app", dirs_exist_ok=True)
        repository.top = small_disk / "app"
    else:
        repository.state = str(small_disk / "state")
    repository.make()
    content = os.urandom(1_500_000)
    repository.write("new", content, top=repository.path)
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    with pytest.raises(WorktreeUnusable):
        repository.remove()
    assert (repository.path / "new").read_bytes() == content
    filler.unlink()
    assert repository.read_tree(repository.remove().salvage)["new"][1] == content


def _put_nothing(top: Path, outside: Path) -> None:
    """As it was checked out."""


def _put_files(top: Path, outside: Path) -> None:
    (top / "new/deep").mkdir(parents=True)
    (top / "new/deep/test").write_text("false\n")
    (top / "kept.txt").unlink()


def _put_links(top: Path, outside: Path) -> None:
    (top / "new").symlink_to(outside)
    (top / "kept.txt").unlink()
    (top / "kept.txt").symlink_to(outside / "precious")
    shutil.rmtree(top / "sub")
    (top / "sub").symlink_to(outside)


def _put_others(top: Path, outside: Path) -> None:
    (top / "new").write_text("a file\n")
    (top / "kept.txt").unlink()
    (top / "kept.txt/inner").mkdir(parents=True)
    (top / "kept.txt/inner/file").write_text("x")
    (top / "sub/gone.txt").unlink()
    os.mkfifo(top / "sub/gone.txt")


@pytest.mark.parametrize("put", [_put_nothing, _put_files, _put_links, _put_others])
def test_tests_stand_in_a_worktree_whatever_an_agent_has_put_there_and_leave_it_as_it_was(
    made: Repository, put: Callable[[Path, Path], None]
) -> None:
    outside = made.root / "outside"
    (outside / "deep").mkdir(parents=True)
    for name in ("precious", "gone.txt", "deep/test"):
        (outside / name).write_text("the user's")
    put(made.path, outside)
    before, users = _describe_tree(made.path), list_files(outside)
    objects = made.git("count-objects")
    with lock_worktree(str(made.path)):
        lay_patch(made.load(), TEST_PATCH)
        laid = list_files(made.path)
        assert laid["kept.txt"] == (0, b"tested\ntwo\n") and laid["new/deep/test"] == (0o100, b"true\n")
        assert not os.path.lexists(made.path / "sub/gone.txt")
        shutil.rmtree(made.path / "new")  # What a check does there comes and goes with them.
        (made.path / "kept.txt").write_text("by the check")
        put_back(str(made.path))
    assert _describe_tree(made.path) == before
    assert (list_files(outside), made.git("count-objects")) == (users, objects)
    assert not os.path.lexists(made.load().aside)


def test_a_patch_that_does_not_fit_changes_nothing_and_says_why(made: Repository) -> None:
    before = _describe_tree(made.path)
    with lock_worktree(str(made.path)), pytest.raises(WorktreeUnusable, match="patch does not apply"):
        lay_patch(made.load(), TEST_PATCH.replace("-one", "-two"))
    with lock_worktree(str(made.path)), pytest.raises(WorktreeUnusable, match="invalid path"):
        lay_patch(made.load(), TEST_PATCH.replace("new/deep", "../outside"))
    assert (_describe_tree(made.path), os.path.lexists(made.load().aside)) == (before, False)


def test_a_worktree_is_saved_without_the_tests_that_a_killed_check_has_left(made: Repository) -> None:
    (made.path / "kept.txt").write_text("the agent's")
    with lock_worktree(str(made.path)):
        lay_patch(made.load(), TEST_PATCH)
    saved = made.read_tree(made.remove().salvage)
    assert (saved["kept.txt"], "new/deep/test" in saved) == ((0, b"the agent's"), False)


def _describe_tree(top: Path) -> dict[str, tuple[int, str]]:
    """What lies where, links, pipes and folders too."""
    paths = [path for path in sorted(top.rglob("*")) if path.name != ".git"]
    return {str(path.relative_to(top)): (path.lstat().st_mode, _read(path)) for path in paths}


def _read(path: Path) -> str:
    if path.is_symlink():
        return os.readlink(path)
    return path.read_text() if path.is_file() else ""


@pytest.mark.parametrize(("name", "file"), [("deep", ""), ("deep.log", "ignored")])
def test_folders_that_are_nested_very_deep_are_looked_at_and_removed(made: Repository, name: str, file: str) -> None:
    git_dir = Path(made.git("rev-parse", "--absolute-git-dir", cwd=made.path))
    with nest_folders(made.path / name, file=file), nest_folders(git_dir / "deep", file="last"):
        assert inspect_worktree(made.load()).files == 0
        made.remove()
    assert not made.path.exists()
    assert not git_dir.exists()


def test_a_file_that_lies_too_deep_for_git_keeps_a_worktree(made: Repository) -> None:
    with nest_folders(made.path / "deep", file="mine") as top:
        with pytest.raises(WorktreeUnusable, match=r"deep/d/d.*… cannot be saved: its folders are nested too deep"):
            made.remove()
        assert subprocess.check_output(["find", ".", "-name", "mine"], cwd=top)


DATA = ("HEAD", "index", "config", "packed-refs", "info/exclude", "info/attributes", "refs/heads/main")


@pytest.mark.parametrize("name", DATA)
def test_git_data_that_would_be_read_without_an_end_is_named_instead(repository: Repository, name: str) -> None:
    path = repository.top / ".git" / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(WorktreeUnusable, match=f"/.git/{name} is a pipe, which git would read without an end: delete"):
        repository.make()
    assert not repository.path.exists()


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes", "sub/.gitignore"])
def test_a_worktree_with_a_pipe_that_git_would_read_is_kept(
    made: Repository, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("inspan.stores.git.PATIENCE_S", 0.2)
    pipe = made.path / name
    pipe.unlink(missing_ok=True)
    made.write("sub/mine", "mine", top=made.path)
    os.mkfifo(pipe)
    with pytest.raises(SnapshotError, match=f"{pipe} is a pipe"):
        inspect_worktree(made.load())
    with pytest.raises(WorktreeUnusable, match=f"{pipe} is a pipe"):
        made.remove()
    pipe.unlink()
    assert made.remove().salvage


@pytest.mark.parametrize(
    "bits", [["--skip-worktree"], ["--assume-unchanged"], ["--skip-worktree", "--assume-unchanged"]]
)
def test_what_git_was_told_not_to_look_at_counts_as_changed(made: Repository, bits: tuple[str, ...]) -> None:
    index = Path(made.git("rev-parse", "--git-path", "index", cwd=made.path))
    for bit in bits:
        made.git("update-index", bit, "kept.txt", "sub/gone.txt", cwd=made.path)
    before = index.read_bytes()
    assert inspect_worktree(made.load()).files == 0
    made.write("kept.txt", "hidden", top=made.path)
    assert inspect_worktree(made.load()).files == 1
    (made.path / "sub/gone.txt").unlink()  # As in a sparse checkout: that it is not there says nothing.
    assert inspect_worktree(made.load()).files == 1
    assert index.read_bytes() == before
