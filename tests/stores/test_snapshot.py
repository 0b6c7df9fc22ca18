"""What differs between two snapshots, whatever the state of the repository, and that taking one changes nothing."""

import hashlib
import os
import re
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from inspan.errors import UndoRefused
from inspan.stores.checkpoints import Checkpoints
from inspan.stores.git import SnapshotError
from inspan.stores.git_tree import KEPT_BYTES, LARGE_BYTES
from inspan.stores.repository import find_repository
from inspan.stores.snapshot import Snapshot, load_snapshot, patch_between
from tests.cli_env import wait_until

from .snapshot_repository import SnapshotRepository, content, wrap_git

NOTHING: dict[str, str] = {}


@pytest.fixture
def snapshot_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SnapshotRepository:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("XDG_CONFIG_HOME", "GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_CONFIG_GLOBAL"):
        monkeypatch.delenv(name, raising=False)
    return SnapshotRepository(tmp_path)


def test_files_are_told_as_added_modified_and_deleted(snapshot_repository: SnapshotRepository) -> None:
    def act() -> None:
        snapshot_repository.write("kept.txt", "one\n2\nthree\n")
        snapshot_repository.write("deep/er/new.txt", "new\n")
        (snapshot_repository.top / "gone.txt").unlink()

    assert snapshot_repository.changes_of(act) == {
        "deep/er/new.txt": "added",
        "gone.txt": "deleted",
        "kept.txt": "modified",
    }
    assert snapshot_repository.patch() == (
        "diff --git a/deep/er/new.txt b/deep/er/new.txt\n"
        "new file mode 100644\n"
        "index 0000000..3e75765\n"
        "--- /dev/null\n"
        "+++ b/deep/er/new.txt\n"
        "@@ -0,0 +1 @@\n"
        "+new\n"
        "diff --git a/gone.txt b/gone.txt\n"
        "deleted file mode 100644\n"
        "index 012ea92..0000000\n"
        "--- a/gone.txt\n"
        "+++ /dev/null\n"
        "@@ -1 +0,0 @@\n"
        "-here\n"
        "diff --git a/kept.txt b/kept.txt\n"
        "index 4cb29ea..f04eb26 100644\n"
        "--- a/kept.txt\n"
        "+++ b/kept.txt\n"
        "@@ -1,3 +1,3 @@\n"
        " one\n"
        "-two\n"
        "+2\n"
        " three\n"
    )


def test_a_run_that_changed_nothing_has_no_changes(snapshot_repository: SnapshotRepository) -> None:
    assert snapshot_repository.changes_of(lambda: None) == NOTHING
    assert snapshot_repository.patch() == ""


def test_what_was_changed_before_the_run_is_not_its_doing(snapshot_repository: SnapshotRepository) -> None:
    snapshot_repository.write("kept.txt", "mine\n")
    snapshot_repository.write("staged.txt", "mine\n")
    snapshot_repository.git("add", "staged.txt")
    snapshot_repository.write("loose.txt", "mine\n")
    (snapshot_repository.top / "gone.txt").unlink()
    assert snapshot_repository.changes_of(lambda: snapshot_repository.write("loose.txt", "not mine\n")) == {
        "loose.txt": "modified"
    }


def test_what_the_run_committed_is_told_like_the_rest(snapshot_repository: SnapshotRepository) -> None:
    def act() -> None:
        snapshot_repository.git("checkout", "-qb", "other")
        snapshot_repository.write("new.txt", "new\n")
        snapshot_repository.commit()

    assert snapshot_repository.changes_of(act) == {"new.txt": "added"}


def test_ignored_files_are_left_out_wherever_they_are_listed(snapshot_repository: SnapshotRepository) -> None:
    snapshot_repository.write(".gitignore", "*.log\n")
    (snapshot_repository.top / ".git/info/exclude").write_text("*.private\n")
    (snapshot_repository.root / "ignored").write_text("*.global\n")
    snapshot_repository.git("config", "--global", "core.excludesFile", str(snapshot_repository.root / "ignored"))
    names = ("a.log", "a.private", "a.global", "a.txt")
    assert snapshot_repository.changes_of(lambda: [snapshot_repository.write(name, "x") for name in names]) == {
        "a.txt": "added"
    }


def test_a_file_that_is_ignored_and_in_the_repository_is_told(snapshot_repository: SnapshotRepository) -> None:
    snapshot_repository.write(".gitignore", "kept.txt\n")
    assert snapshot_repository.changes_of(lambda: snapshot_repository.write("kept.txt", "new\n")) == {
        "kept.txt": "modified"
    }


def test_modes_links_and_kinds_are_told(snapshot_repository: SnapshotRepository) -> None:
    snapshot_repository.write("becomes-folder", "x")
    snapshot_repository.write("becomes-file/inner", "x")
    snapshot_repository.write("run.sh", "x")
    os.symlink("kept.txt", snapshot_repository.top / "link")
    snapshot_repository.commit()

    def act() -> None:
        (snapshot_repository.top / "run.sh").chmod(0o755)
        (snapshot_repository.top / "link").unlink()
        os.symlink("elsewhere", snapshot_repository.top / "link")
        (snapshot_repository.top / "becomes-folder").unlink()
        snapshot_repository.write("becomes-folder/inner", "x")
        shutil.rmtree(snapshot_repository.top / "becomes-file")
        snapshot_repository.write("becomes-file", "x")
        os.mkfifo(snapshot_repository.top / "pipe")
        (snapshot_repository.top / "gone.txt").unlink()
        os.mkfifo(snapshot_repository.top / "gone.txt")

    assert snapshot_repository.changes_of(act) == {
        "becomes-file": "added",
        "becomes-file/inner": "deleted",
        "becomes-folder": "deleted",
        "becomes-folder/inner": "added",
        "gone.txt": "modified",
        "link": "modified",
        "run.sh": "modified",
    }


def test_names_are_told_whatever_they_hold(snapshot_repository: SnapshotRepository) -> None:
    names = [b"tab\tnew\nline", b"-dash", b":(top)magic", b'"quotes"\\', b"latin-\xe9", "größe".encode(), b" blank "]

    def act() -> None:
        for name in names:
            Path(os.fsdecode(os.fsencode(snapshot_repository.top) + b"/" + name)).write_text("x")

    assert snapshot_repository.changes_of(act) == {name.decode(errors="backslashreplace"): "added" for name in names}


def test_a_change_within_one_tick_of_the_clock_is_seen(snapshot_repository: SnapshotRepository) -> None:
    tick = (1_700_000_000_000_000_000, 1_700_000_000_000_000_000)
    snapshot_repository.git("config", "core.trustctime", "false")
    os.utime(snapshot_repository.write("kept.txt", "aaa"), ns=tick)
    snapshot_repository.commit()
    os.utime(snapshot_repository.top / ".git/index", ns=tick)
    os.utime(snapshot_repository.write("kept.txt", "bbb"), ns=tick)
    snapshot_repository.take_first()
    assert b"".join(
        patch_between(str(snapshot_repository.folder), now=snapshot_repository.git("rev-parse", "HEAD^{tree}").strip())
    ).endswith(b"-bbb\n\\ No newline at end of file\n+aaa\n\\ No newline at end of file\n")


def test_the_repository_is_left_as_it_was(snapshot_repository: SnapshotRepository) -> None:
    snapshot_repository.write("kept.txt", "mine\n")
    snapshot_repository.write("staged.txt", "mine\n")
    snapshot_repository.git("add", "staged.txt")
    before = content(snapshot_repository.top / ".git")
    assert snapshot_repository.changes_of(lambda: snapshot_repository.write("new.txt", "new\n")) == {"new.txt": "added"}
    assert content(snapshot_repository.top / ".git") == before


def test_only_what_differs_is_kept_and_the_repository_is_not_needed(snapshot_repository: SnapshotRepository) -> None:
    snapshot_repository.write("untouched.txt", "the same before and after\n")
    snapshot_repository.write("touched.txt", "before\n")
    snapshot_repository.changes_of(lambda: snapshot_repository.write("touched.txt", "after\n"))
    patch = snapshot_repository.patch()
    shutil.rmtree(snapshot_repository.top)
    assert snapshot_repository.list_changes() == {"touched.txt": "modified"}
    assert snapshot_repository.patch() == patch
    assert "-before\n+after\n" in patch
    files = [path for path in snapshot_repository.folder.rglob("*") if path.is_file()]
    assert sorted(path.suffix or path.name for path in files) == [
        *(".idx", ".json", ".pack"),
        *("HEAD", "attributes", "config", "exclude"),
    ]
    listed = [
        "git",
        "--git-dir",
        str(snapshot_repository.folder / "snapshot"),
        "cat-file",
        "--batch-all-objects",
        "--batch-check",
    ]
    kinds = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split()[1::3]
    assert sorted(kinds) == ["blob", "blob", "tree", "tree"]


def test_nothing_but_its_owner_can_read_what_is_kept(snapshot_repository: SnapshotRepository) -> None:
    snapshot_repository.changes_of(lambda: snapshot_repository.write("new.txt", "new\n"))
    assert (snapshot_repository.folder / "snapshot").stat().st_mode & 0o777 == 0o700


# Repositories in an unusual state.


def test_a_repository_without_a_commit(snapshot_repository: SnapshotRepository) -> None:
    shutil.rmtree(snapshot_repository.top / ".git")
    snapshot_repository.git("init", "-q")
    assert snapshot_repository.changes_of(lambda: snapshot_repository.write("new.txt", "x")) == {"new.txt": "added"}


def test_a_repository_in_the_middle_of_a_merge(snapshot_repository: SnapshotRepository) -> None:
    snapshot_repository.git("checkout", "-qb", "other")
    snapshot_repository.write("kept.txt", "theirs\n")
    snapshot_repository.git("commit", "-qam", "theirs")
    snapshot_repository.git("checkout", "-q", "-")
    snapshot_repository.write("kept.txt", "ours\n")
    snapshot_repository.git("rm", "-q", "gone.txt")
    snapshot_repository.git("commit", "-qam", "ours")
    with pytest.raises(subprocess.CalledProcessError):
        snapshot_repository.git("merge", "other")
    assert snapshot_repository.changes_of(lambda: snapshot_repository.write("kept.txt", "both\n")) == {
        "kept.txt": "modified"
    }
    assert snapshot_repository.git("status", "--porcelain") == "UU kept.txt\n"


@pytest.mark.parametrize("ignored", [False, True], ids=["a link of the tree", "a link that git ignores"])
def test_a_folder_that_becomes_a_link(snapshot_repository: SnapshotRepository, ignored: bool) -> None:
    snapshot_repository.write("sub/deep/file", "x")
    snapshot_repository.write(".gitignore", "/sub\n" if ignored else "\n")
    snapshot_repository.git("add", "-f", "sub/deep/file")
    snapshot_repository.commit()

    def act() -> None:
        (snapshot_repository.top / "sub").rename(snapshot_repository.root / "elsewhere")
        (snapshot_repository.top / "sub").symlink_to(snapshot_repository.root / "elsewhere")
        (snapshot_repository.root / "elsewhere/deep/file").write_text("changed")

    told = {"sub/deep/file": "deleted"} if ignored else {"sub": "added", "sub/deep/file": "deleted"}
    assert snapshot_repository.changes_of(act) == told


def test_a_repository_whose_index_is_broken(snapshot_repository: SnapshotRepository) -> None:
    (snapshot_repository.top / ".git/index").write_bytes(b"DIRC, but no more")
    assert snapshot_repository.changes_of(lambda: snapshot_repository.write("kept.txt", "x")) == {
        "kept.txt": "modified"
    }


def test_a_repository_whose_configuration_is_broken(snapshot_repository: SnapshotRepository) -> None:
    (snapshot_repository.top / ".git/config").write_text("[core\n")
    assert snapshot_repository.changes_of(lambda: snapshot_repository.write("kept.txt", "x")) == {
        "kept.txt": "modified"
    }


def test_a_repository_with_a_split_index(snapshot_repository: SnapshotRepository) -> None:
    snapshot_repository.git("update-index", "--split-index")
    assert list((snapshot_repository.top / ".git").glob("sharedindex.*"))
    snapshot_repository.write(".gitignore", "kept.txt\n")  # Only by the index does git know of it.
    assert snapshot_repository.changes_of(lambda: snapshot_repository.write("kept.txt", "x")) == {
        "kept.txt": "modified"
    }


@pytest.mark.parametrize("index", ["--no-sparse-index", "--sparse-index"])
def test_a_sparse_checkout(snapshot_repository: SnapshotRepository, index: str) -> None:
    for name in ("in/a", "out/b", "out/deep/c"):
        snapshot_repository.write(name, "x\n")
    snapshot_repository.commit()
    snapshot_repository.git("sparse-checkout", "set", "--cone", index, "in")
    assert not (snapshot_repository.top / "out").exists()

    def act() -> None:
        snapshot_repository.write("in/a", "changed\n")
        snapshot_repository.write("out/b", "changed\n")
        snapshot_repository.write("out/new", "new\n")

    assert snapshot_repository.changes_of(act) == {"in/a": "modified", "out/b": "modified", "out/new": "added"}


def test_a_linked_worktree(snapshot_repository: SnapshotRepository) -> None:
    (snapshot_repository.top / ".git/info/exclude").write_text("*.private\n")
    linked = snapshot_repository.root / "linked"
    snapshot_repository.git("worktree", "add", "-q", str(linked))

    def act() -> None:
        (linked / "kept.txt").write_text("x")
        (linked / "a.private").write_text("x")
        snapshot_repository.write("kept.txt", "in the other work tree")

    assert snapshot_repository.changes_of(act, cwd=linked) == {"kept.txt": "modified"}
    assert load_snapshot(str(snapshot_repository.folder)).top == str(linked)


def test_a_folder_of_a_repository_stands_for_all_of_it(snapshot_repository: SnapshotRepository) -> None:
    snapshot_repository.write("deep/er/a", "x")
    assert snapshot_repository.changes_of(
        lambda: snapshot_repository.write("kept.txt", "x"), cwd=snapshot_repository.top / "deep/er"
    ) == {"kept.txt": "modified"}


def test_a_submodule_is_told_by_its_commit(snapshot_repository: SnapshotRepository) -> None:
    _add_submodule(snapshot_repository)
    inner = snapshot_repository.top / "sub"

    def act() -> None:
        (inner / "inner.txt").write_text("changed\n")
        snapshot_repository.git("commit", "-qam", "inner", cwd=inner)

    assert snapshot_repository.changes_of(act) == {"sub": "modified"}
    assert "+Subproject commit" in snapshot_repository.patch()


def test_a_run_inside_a_submodule_is_told_by_its_files(snapshot_repository: SnapshotRepository) -> None:
    _add_submodule(snapshot_repository)
    inner = snapshot_repository.top / "sub"
    assert snapshot_repository.changes_of(lambda: (inner / "inner.txt").write_text("x"), cwd=inner) == {
        "inner.txt": "modified"
    }


def test_a_repository_that_the_run_made_is_told_by_its_name(snapshot_repository: SnapshotRepository) -> None:
    def act() -> None:
        snapshot_repository.git("init", "-q", "unborn")
        snapshot_repository.git("clone", "-q", ".", "clone")

    assert snapshot_repository.changes_of(act) == {"clone": "added", "unborn": "added"}


def test_a_repository_of_another_object_format(snapshot_repository: SnapshotRepository) -> None:
    shutil.rmtree(snapshot_repository.top / ".git")
    snapshot_repository.git("init", "-q", "--object-format=sha256")
    snapshot_repository.commit()
    assert snapshot_repository.changes_of(lambda: snapshot_repository.write("kept.txt", "x")) == {
        "kept.txt": "modified"
    }
    assert len(load_snapshot(str(snapshot_repository.folder)).before) == 64


def test_line_endings_are_those_of_the_files_and_the_patch_can_be_applied(
    snapshot_repository: SnapshotRepository, tmp_path: Path
) -> None:
    snapshot_repository.git("config", "core.autocrlf", "true")
    snapshot_repository.write("kept.txt", "one\r\ntwo\r\nthree\r\n")
    snapshot_repository.commit()
    assert snapshot_repository.changes_of(lambda: snapshot_repository.write("kept.txt", "one\r\n2\r\nthree\r\n")) == {
        "kept.txt": "modified"
    }
    assert snapshot_repository.patch().endswith("@@ -1,3 +1,3 @@\n one\r\n-two\r\n+2\r\n three\r\n")
    (tmp_path / "patch").write_bytes(snapshot_repository.patch().encode())
    snapshot_repository.git("checkout", "-q", "kept.txt")
    snapshot_repository.git("apply", str(tmp_path / "patch"))
    assert (snapshot_repository.top / "kept.txt").read_bytes() == b"one\r\n2\r\nthree\r\n"


CONVERSIONS = {
    "line endings": ("* text=auto\n", b"one\r\ntwo\nthree"),
    "carriage returns that are missing": ("* text eol=crlf\n", b"one\ntwo\n"),
    "a keyword": ("* ident\n", b"$Id: by hand$\n"),
    "an encoding that does not fit": ("* working-tree-encoding=UTF-16\n", b"no byte order mark"),
}


@pytest.mark.parametrize(("rules", "content"), CONVERSIONS.values(), ids=CONVERSIONS.keys())
def test_every_byte_is_put_back_whatever_git_would_make_of_it(
    snapshot_repository: SnapshotRepository, tmp_path: Path, rules: str, content: bytes
) -> None:
    top = snapshot_repository.top
    snapshot_repository.write(".gitattributes", rules)
    (top / "kept.txt").write_bytes(content)
    if "encoding" not in rules:  # What git has taken in as it converts it; an encoding that does not fit it refuses.
        snapshot_repository.commit()
    (top / "new.txt").write_bytes(content)
    (top / "kept.txt").chmod(0o600)
    checkpoints = Checkpoints(str(top), folder=str(tmp_path / "checkpoints"))
    taken = checkpoints.take()
    (top / "kept.txt").unlink()
    (top / "new.txt").write_bytes(b"other")
    snapshot_repository.write("later.txt", "x")
    checkpoints.restore(taken)
    assert {name: (top / name).read_bytes() for name in ("kept.txt", "new.txt")} == {
        "kept.txt": content,
        "new.txt": content,
    }
    assert not (top / "later.txt").exists()
    assert (top / "kept.txt").stat().st_mode & 0o777 == 0o600


def test_a_repository_that_belongs_to_somebody_else(
    snapshot_repository: SnapshotRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = 'GIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec "$GIT" "$@"'
    monkeypatch.setenv("PATH", wrap_git(tmp_path / "programs", stranger))
    with pytest.raises(subprocess.CalledProcessError):
        snapshot_repository.git("status")
    assert snapshot_repository.changes_of(lambda: snapshot_repository.write("kept.txt", "x")) == {
        "kept.txt": "modified"
    }


def test_a_state_folder_inside_the_work_tree_is_left_out(snapshot_repository: SnapshotRepository) -> None:
    state = snapshot_repository.top / "my [state]*"
    snapshot_repository.folder = state / "runs" / "run-1"
    snapshot_repository.folder.mkdir(parents=True)
    snapshot_repository.take_first(hidden=(str(state),))
    snapshot_repository.write("my [state]*/runs/run-1/events.jsonl", "more\n")
    snapshot_repository.write("my state/file", "x")
    snapshot_repository.take_second()
    assert snapshot_repository.list_changes() == {"my state/file": "added"}


@pytest.mark.parametrize("made", ["nothing", "an empty folder", "a pipe", "a file that points nowhere"])
def test_what_only_looks_like_a_repository_is_none(tmp_path: Path, made: str) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    if made == "an empty folder":
        (inner / ".git").mkdir()
    elif made == "a pipe":
        os.mkfifo(inner / ".git")
    elif made == "a file that points nowhere":
        (inner / ".git").write_text("gitdir: ../nowhere\n")
    assert find_repository(str(inner)) is None


# Files that are not copied.


def test_a_large_file_is_told_and_not_copied(snapshot_repository: SnapshotRepository) -> None:
    for name in ("same", "touched", "shrunk"):
        os.truncate(snapshot_repository.write(name, ""), LARGE_BYTES + 1)

    def act() -> None:
        os.utime(snapshot_repository.top / "touched", (1, 1))
        os.truncate(snapshot_repository.top / "shrunk", 3)
        os.truncate(snapshot_repository.write("new", ""), LARGE_BYTES + 2)

    assert snapshot_repository.changes_of(act) == {"new": "added", "shrunk": "modified", "touched": "modified"}
    assert f"+Not kept by inspan: {LARGE_BYTES + 2} bytes, last written at " in snapshot_repository.patch()
    kept = sum(path.stat().st_size for path in snapshot_repository.folder.rglob("*") if path.is_file())
    assert kept < 1_000_000


def test_files_that_are_too_large_together_are_told_and_not_all_copied(snapshot_repository: SnapshotRepository) -> None:
    names = [f"data-{number}" for number in range(2 + KEPT_BYTES // (LARGE_BYTES - 1))]
    for number, name in enumerate(names):
        os.truncate(snapshot_repository.write(name, ""), LARGE_BYTES - 1 - len(names) + number)
    snapshot_repository.write("small", "x")

    def act() -> None:
        snapshot_repository.write(names[-1], "now small\n")
        snapshot_repository.write("small", "y")

    assert snapshot_repository.changes_of(act) == {names[-1]: "modified", "small": "modified"}
    assert "-Not kept by inspan: " in snapshot_repository.patch()
    assert "+now small\n" in snapshot_repository.patch()


# What git could be made to do.


def test_no_program_that_a_repository_names_is_run(snapshot_repository: SnapshotRepository) -> None:
    _add_submodule(snapshot_repository)
    marks = snapshot_repository.root / "marks"

    def plant() -> None:
        evil = snapshot_repository.root / "evil"
        evil.write_text(f'#!/bin/sh\necho "$@" >> {marks}\ncat\n')
        evil.chmod(0o755)
        for git_dir in (snapshot_repository.top / ".git", snapshot_repository.top / ".git/modules/sub"):
            _make_hostile(snapshot_repository, git_dir, str(evil))
        snapshot_repository.write(".gitattributes", "* filter=evil diff=evil merge=evil\n")
        (snapshot_repository.top / "sub/inner.txt").write_text("CHANGED\n")

    plant()
    snapshot_repository.write("kept.txt", "before\n")
    snapshot_repository.write("loose.txt", "before\n")
    marks.unlink(missing_ok=True)
    snapshot_repository.take_first()
    plant()
    snapshot_repository.write("kept.txt", "after!\n")
    snapshot_repository.write("loose.txt", "after!\n")
    now = snapshot_repository.current_tree()
    snapshot_repository.take_second()
    assert (
        snapshot_repository.list_changes(now)
        == snapshot_repository.list_changes()
        == {"kept.txt": "modified", "loose.txt": "modified"}
    )
    assert "-before\n+after!\n" in snapshot_repository.patch()
    assert not marks.exists(), marks.read_text()
    with pytest.raises(subprocess.CalledProcessError):
        snapshot_repository.git("add", "-A")  # So it is hostile indeed.
    assert marks.exists()


def test_a_missing_object_is_not_fetched(snapshot_repository: SnapshotRepository) -> None:
    marks = snapshot_repository.root / "marks"
    name = snapshot_repository.git("rev-parse", "HEAD:gone.txt").strip()
    snapshot_repository.git("sparse-checkout", "set", "--no-cone", "/kept.txt")
    (snapshot_repository.top / ".git/objects" / name[:2] / name[2:]).unlink()
    snapshot_repository.git("config", "core.repositoryFormatVersion", "1")
    for setting, value in {
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"{snapshot_repository.root}/nowhere",
        "remote.origin.uploadpack": f"touch {marks};",
    }.items():
        snapshot_repository.git("config", setting, value)
    assert snapshot_repository.changes_of(lambda: snapshot_repository.write("kept.txt", "x")) == {
        "kept.txt": "modified"
    }
    assert not marks.exists()


# What can go wrong.


def test_a_snapshot_that_takes_too_long_is_given_up(
    snapshot_repository: SnapshotRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", wrap_git(tmp_path / "programs", "exec sleep 86400"))
    with pytest.raises(SnapshotError) as caught:
        snapshot_repository.take_first(limit_s=0.2)
    assert str(caught.value) == "A snapshot took longer than 0.2 s."


# While git reads, another file is there, as a command that runs at the same time can make it by a link.
_MISLEAD = """
case "$*" in
*"update-index --add --remove"*)
    mv {top}/new {root}/right; cp {root}/secret {top}/new
    "$GIT" "$@"; code=$?
    mv {root}/right {top}/new; {after}; exit $code;;
esac
exec "$GIT" "$@"
"""


@pytest.mark.parametrize(
    ("after", "shown"),
    [("true", "+Not kept by inspan: it was changed while it was read"), ("ln -sf $GIT $0", "+right")],
)
def test_what_git_was_led_to_read_is_not_in_a_snapshot(
    snapshot_repository: SnapshotRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: str, shown: str
) -> None:
    (tmp_path / "secret").write_text("of the user\n")
    snapshot_repository.take_first()
    snapshot_repository.write("new", "right\n")
    body = _MISLEAD.format(top=snapshot_repository.top, root=tmp_path, after=after)
    monkeypatch.setenv("PATH", wrap_git(tmp_path / "programs", body))
    snapshot_repository.take_second()
    patch = snapshot_repository.patch()
    assert (shown in patch, "of the user" in patch) == (True, False)


def test_a_machine_without_git_is_told(
    snapshot_repository: SnapshotRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SnapshotError) as caught:
        snapshot_repository.take_first()
    assert str(caught.value) == "There is no git program on PATH."


def test_what_git_complains_of_is_told(
    snapshot_repository: SnapshotRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = 'test "$3" = write-tree && { echo "fatal: no room." >&2; exit 128; }\nexec "$GIT" "$@"'
    monkeypatch.setenv("PATH", wrap_git(tmp_path / "programs", fails))
    with pytest.raises(SnapshotError) as caught:
        snapshot_repository.take_first()
    assert str(caught.value) == "`git write-tree` failed: fatal: no room."


def test_a_step_that_fails_once_is_tried_again(
    snapshot_repository: SnapshotRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = tmp_path / "failed"
    fails = f'test "$3" = update-index && test ! -e {failed} && {{ touch {failed}; exit 128; }}\nexec "$GIT" "$@"'
    snapshot_repository.write("new.txt", "x")
    monkeypatch.setenv("PATH", wrap_git(tmp_path / "programs", fails))
    assert snapshot_repository.changes_of(lambda: snapshot_repository.write("kept.txt", "x")) == {
        "kept.txt": "modified"
    }
    assert failed.exists()


@pytest.mark.parametrize(
    ("text", "problem"),
    [(None, "No snapshot was taken."), ("{", "snapshot.json cannot be read: ")],
    ids=["missing", "torn"],
)
def test_a_run_folder_without_a_snapshot_says_so(tmp_path: Path, text: str | None, problem: str) -> None:
    if text is not None:
        (tmp_path / "snapshot.json").write_text(text)
    found = load_snapshot(str(tmp_path))
    assert found == Snapshot(problem=found.problem)
    assert found.problem.startswith(problem)


# How the difference is shown.


def test_a_living_run_is_compared_with_the_files_as_they_are(snapshot_repository: SnapshotRepository) -> None:
    snapshot_repository.take_first()
    snapshot_repository.write("kept.txt", "now\n")
    assert snapshot_repository.list_changes(snapshot_repository.current_tree()) == {"kept.txt": "modified"}
    snapshot_repository.write("kept.txt", "one\ntwo\nthree\n")
    snapshot_repository.write("later.txt", "x")
    assert snapshot_repository.list_changes(snapshot_repository.current_tree()) == {"later.txt": "added"}
    snapshot_repository.take_second()
    assert snapshot_repository.list_changes() == {"later.txt": "added"}
    assert [path.name for path in (snapshot_repository.folder / "snapshot").glob("now-*")] == []


def test_a_summary_and_names(snapshot_repository: SnapshotRepository) -> None:
    def act() -> None:
        snapshot_repository.write("kept.txt", "one\n2\nthree\n")
        (snapshot_repository.top / "gone.txt").rename(snapshot_repository.top / "größe.txt")

    snapshot_repository.changes_of(act)
    assert snapshot_repository.patch(names=True) == "gone.txt\ngröße.txt\nkept.txt\n"
    assert snapshot_repository.patch(stat=True) == (
        " gone.txt => größe.txt | 0\n kept.txt              | 2 +-\n 2 files changed, 1 insertion(+), 1 deletion(-)\n"
    )


def test_a_binary_file_is_named_and_on_demand_given_whole(snapshot_repository: SnapshotRepository) -> None:
    snapshot_repository.changes_of(lambda: (snapshot_repository.top / "picture").write_bytes(b"\0\1\2" * 100))
    assert snapshot_repository.patch().endswith("Binary files /dev/null and b/picture differ\n")
    whole = snapshot_repository.patch(binary=True)
    (snapshot_repository.top / "picture").unlink()
    subprocess.run(["git", "apply"], cwd=snapshot_repository.top, input=whole.encode(), check=True)
    assert (snapshot_repository.top / "picture").read_bytes() == b"\0\1\2" * 100


def test_paths_are_relative_to_where_one_stands(
    snapshot_repository: SnapshotRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot_repository.changes_of(
        lambda: [snapshot_repository.write(name, "x") for name in ("a.py", "deep/b.py", "deep/c.txt")]
    )
    (snapshot_repository.top / "deep").mkdir(exist_ok=True)
    for where, paths, expected in (
        (snapshot_repository.top, ("deep",), {"deep/b.py", "deep/c.txt"}),
        (snapshot_repository.top / "deep", ("b.py",), {"deep/b.py"}),
        (snapshot_repository.top / "deep", (str(snapshot_repository.top / "a.py"),), {"a.py"}),
        (snapshot_repository.root, ("*.py",), {"a.py", "deep/b.py"}),
    ):
        monkeypatch.chdir(where)
        assert set(snapshot_repository.list_changes(paths=paths)) == expected


def test_a_path_outside_the_work_tree_is_refused(snapshot_repository: SnapshotRepository) -> None:
    snapshot_repository.changes_of(lambda: snapshot_repository.write("a.py", "x"))
    with pytest.raises(SnapshotError) as caught:
        snapshot_repository.list_changes(paths=("/nowhere",))
    assert "is outside of the work tree" in str(caught.value)


def _add_submodule(snapshot_repository: SnapshotRepository) -> None:
    source = snapshot_repository.root / "source"
    snapshot_repository.git("init", "-q", str(source))
    (source / "inner.txt").write_text("inner\n")
    snapshot_repository.git("add", ".", cwd=source)
    snapshot_repository.git("commit", "-qm", "inner", cwd=source)
    snapshot_repository.git("submodule", "--quiet", "add", str(source), "sub")
    snapshot_repository.commit()


def _make_hostile(snapshot_repository: SnapshotRepository, git_dir: Path, program: str) -> None:
    settings = {
        "core.fsmonitor": f"{program} fsmonitor",
        "core.hooksPath": str(git_dir / "evil-hooks"),
        "core.pager": f"{program} pager",
        "core.editor": f"{program} editor",
        "core.sshCommand": f"{program} ssh",
        "diff.external": f"{program} external",
        "diff.evil.textconv": f"{program} textconv",
        "diff.evil.command": f"{program} command",
        "filter.evil.clean": f"{program} clean",
        "filter.evil.smudge": f"{program} smudge",
        "filter.evil.process": f"{program} process",
        "filter.evil.required": "true",
        "alias.ls-files": f"!{program} alias",
    }
    for name, value in settings.items():
        snapshot_repository.git("config", "--file", str(git_dir / "config"), name, value)
    for folder in ("hooks", "evil-hooks"):
        (git_dir / folder).mkdir(exist_ok=True)
        hook = git_dir / folder / "post-index-change"
        hook.unlink(missing_ok=True)
        hook.symlink_to(program)


# Pipes that git would read without an end.


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes", "sub/.gitignore"])
def test_what_git_would_wait_for_is_named_and_nothing_is_put_back(
    snapshot_repository: SnapshotRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("inspan.stores.git.PATIENCE_S", 0.2)
    top = snapshot_repository.top
    checkpoints = Checkpoints(str(top), folder=str(tmp_path / "checkpoints"))
    taken = checkpoints.take()
    snapshot_repository.write("sub/kept.txt", "changed")
    os.mkfifo(top / name)
    with pytest.raises(UndoRefused, match=re.escape(f"{top / name} is a pipe")):
        checkpoints.restore(taken)
    assert (top / "sub/kept.txt").exists()
    (top / name).unlink()
    checkpoints.restore(taken)
    assert not (top / "sub").exists()


def test_a_restore_that_waits_for_git_can_be_given_up(
    snapshot_repository: SnapshotRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(str(snapshot_repository.top), folder=str(tmp_path / "checkpoints"))
    taken = checkpoints.take()
    started = tmp_path / "started"
    monkeypatch.setenv("PATH", wrap_git(tmp_path / "programs", f"echo $$ > {started}; exec sleep 86400"))
    stop = threading.Event()

    def restore() -> str:
        with pytest.raises(UndoRefused) as refused:
            checkpoints.restore(taken, stop=stop)
        return str(refused.value)

    with ThreadPoolExecutor() as pool:
        told = pool.submit(restore)
        wait_until(lambda: started.exists() and started.read_text().strip(), "git is started")
        stop.set()
        assert "given up" in told.result()
    assert not os.path.exists(f"/proc/{started.read_text().strip()}")


def test_a_pipe_in_git_data_costs_a_snapshot_nothing_or_is_named(snapshot_repository: SnapshotRepository) -> None:
    (snapshot_repository.top / ".git/config").unlink()
    os.mkfifo(snapshot_repository.top / ".git/config")
    with pytest.raises(SnapshotError, match="config is a pipe"):
        snapshot_repository.take_first()


# Files that git would ignore, and that somebody has taken in all the same.


@pytest.mark.parametrize("kept", ["staged", "committed", "committed and taken out of the index"])
def test_an_ignored_file_that_the_run_took_into_the_repository_is_told(
    snapshot_repository: SnapshotRepository, kept: str
) -> None:
    git = snapshot_repository.git
    snapshot_repository.write(".gitignore", ".envrc\nlink\n*.log\n")
    snapshot_repository.write("mine.log", "ignored")

    def act() -> None:
        snapshot_repository.write(".envrc", "export A=1\n")
        (snapshot_repository.top / "link").symlink_to("kept.txt")
        git("add", "-f", ".envrc", "link")
        if kept.startswith("committed"):
            git("commit", "-qm", "more")
        if kept.startswith("committed and"):
            git("rm", "-q", "--cached", ".envrc", "link")

    assert snapshot_repository.changes_of(act) == {".envrc": "added", "link": "added"}


def test_an_ignored_file_is_told_while_the_run_works(snapshot_repository: SnapshotRepository) -> None:
    snapshot_repository.write(".gitignore", ".envrc\n")
    snapshot_repository.take_first()
    snapshot_repository.write(".envrc", "export A=1\n")
    assert snapshot_repository.list_changes(now=snapshot_repository.current_tree()) == {}
    snapshot_repository.git("add", "-f", ".envrc")
    assert snapshot_repository.list_changes(now=snapshot_repository.current_tree()) == {".envrc": "added"}


def test_an_index_that_names_what_lies_elsewhere_leads_nobody_there(snapshot_repository: SnapshotRepository) -> None:
    (snapshot_repository.root / "outside").write_text("secret")

    def act() -> None:
        git = snapshot_repository.git
        blob = git("hash-object", "-w", "kept.txt").strip()
        git("update-index", "--add", "--cacheinfo", f"100644,{blob},xx/outside")
        index = snapshot_repository.top / ".git/index"
        data = index.read_bytes()[:-20].replace(b"xx/outside", b"../outside")
        index.write_bytes(data + hashlib.sha1(data).digest())

    assert snapshot_repository.changes_of(act) == {}
