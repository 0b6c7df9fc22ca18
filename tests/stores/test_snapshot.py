"""What differs between two snapshots, whatever the state of the repository, and that taking one changes nothing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from inspan.stores.git import NoSnapshot
from inspan.stores.repository import find_repository
from inspan.stores.snapshot import Snapshot, load, patch_between
from inspan.stores.trees import KEPT_BYTES, LARGE_BYTES

from .ground import Ground, content, wrapped_git

NOTHING: dict[str, str] = {}


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("XDG_CONFIG_HOME", "GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_CONFIG_GLOBAL"):
        monkeypatch.delenv(name, raising=False)
    return Ground(tmp_path)


def test_files_are_told_as_added_modified_and_deleted(ground: Ground) -> None:
    def act() -> None:
        ground.write("kept.txt", "one\n2\nthree\n")
        ground.write("deep/er/new.txt", "new\n")
        (ground.top / "gone.txt").unlink()

    assert ground.changes(act) == {"deep/er/new.txt": "added", "gone.txt": "deleted", "kept.txt": "modified"}
    assert ground.patch() == (
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


def test_a_run_that_changed_nothing_has_no_changes(ground: Ground) -> None:
    assert ground.changes(lambda: None) == NOTHING
    assert ground.patch() == ""


def test_what_was_changed_before_the_run_is_not_its_doing(ground: Ground) -> None:
    ground.write("kept.txt", "mine\n")
    ground.write("staged.txt", "mine\n")
    ground.git("add", "staged.txt")
    ground.write("loose.txt", "mine\n")
    (ground.top / "gone.txt").unlink()
    assert ground.changes(lambda: ground.write("loose.txt", "not mine\n")) == {"loose.txt": "modified"}


def test_what_the_run_committed_is_told_like_the_rest(ground: Ground) -> None:
    def act() -> None:
        ground.git("checkout", "-qb", "other")
        ground.write("new.txt", "new\n")
        ground.commit()

    assert ground.changes(act) == {"new.txt": "added"}


def test_ignored_files_are_left_out_wherever_they_are_listed(ground: Ground) -> None:
    ground.write(".gitignore", "*.log\n")
    (ground.top / ".git/info/exclude").write_text("*.private\n")
    (ground.root / "ignored").write_text("*.global\n")
    ground.git("config", "--global", "core.excludesFile", str(ground.root / "ignored"))
    names = ("a.log", "a.private", "a.global", "a.txt")
    assert ground.changes(lambda: [ground.write(name, "x") for name in names]) == {"a.txt": "added"}


def test_a_file_that_is_ignored_and_in_the_repository_is_told(ground: Ground) -> None:
    ground.write(".gitignore", "kept.txt\n")
    assert ground.changes(lambda: ground.write("kept.txt", "new\n")) == {"kept.txt": "modified"}


def test_modes_links_and_kinds_are_told(ground: Ground) -> None:
    ground.write("becomes-folder", "x")
    ground.write("becomes-file/inner", "x")
    ground.write("run.sh", "x")
    os.symlink("kept.txt", ground.top / "link")
    ground.commit()

    def act() -> None:
        (ground.top / "run.sh").chmod(0o755)
        (ground.top / "link").unlink()
        os.symlink("elsewhere", ground.top / "link")
        (ground.top / "becomes-folder").unlink()
        ground.write("becomes-folder/inner", "x")
        shutil.rmtree(ground.top / "becomes-file")
        ground.write("becomes-file", "x")
        os.mkfifo(ground.top / "pipe")
        (ground.top / "gone.txt").unlink()
        os.mkfifo(ground.top / "gone.txt")

    assert ground.changes(act) == {
        "becomes-file": "added",
        "becomes-file/inner": "deleted",
        "becomes-folder": "deleted",
        "becomes-folder/inner": "added",
        "gone.txt": "modified",
        "link": "modified",
        "run.sh": "modified",
    }


def test_names_are_told_whatever_they_hold(ground: Ground) -> None:
    names = [b"tab\tnew\nline", b"-dash", b":(top)magic", b'"quotes"\\', b"latin-\xe9", "größe".encode(), b" blank "]

    def act() -> None:
        for name in names:
            Path(os.fsdecode(os.fsencode(ground.top) + b"/" + name)).write_text("x")

    assert ground.changes(act) == {name.decode(errors="backslashreplace"): "added" for name in names}


def test_a_change_within_one_tick_of_the_clock_is_seen(ground: Ground) -> None:
    tick = (1_700_000_000_000_000_000, 1_700_000_000_000_000_000)
    ground.git("config", "core.trustctime", "false")
    os.utime(ground.write("kept.txt", "aaa"), ns=tick)
    ground.commit()
    os.utime(ground.top / ".git/index", ns=tick)
    os.utime(ground.write("kept.txt", "bbb"), ns=tick)
    ground.first()
    assert b"".join(patch_between(str(ground.folder), now=ground.git("rev-parse", "HEAD^{tree}").strip())).endswith(
        b"-bbb\n\\ No newline at end of file\n+aaa\n\\ No newline at end of file\n"
    )


def test_the_repository_is_left_as_it_was(ground: Ground) -> None:
    ground.write("kept.txt", "mine\n")
    ground.write("staged.txt", "mine\n")
    ground.git("add", "staged.txt")
    before = content(ground.top / ".git")
    assert ground.changes(lambda: ground.write("new.txt", "new\n")) == {"new.txt": "added"}
    assert content(ground.top / ".git") == before


def test_only_what_differs_is_kept_and_the_repository_is_not_needed(ground: Ground) -> None:
    ground.write("untouched.txt", "the same before and after\n")
    ground.write("touched.txt", "before\n")
    ground.changes(lambda: ground.write("touched.txt", "after\n"))
    patch = ground.patch()
    shutil.rmtree(ground.top)
    assert ground.told() == {"touched.txt": "modified"}
    assert ground.patch() == patch
    assert "-before\n+after\n" in patch
    files = sorted(path.suffix for path in ground.folder.rglob("*") if path.is_file())
    assert files == ["", "", "", ".idx", ".json", ".pack"]
    listed = ["git", "--git-dir", str(ground.folder / "snapshot"), "cat-file", "--batch-all-objects", "--batch-check"]
    kinds = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split()[1::3]
    assert sorted(kinds) == ["blob", "blob", "tree", "tree"]


def test_nothing_but_its_owner_can_read_what_is_kept(ground: Ground) -> None:
    ground.changes(lambda: ground.write("new.txt", "new\n"))
    assert (ground.folder / "snapshot").stat().st_mode & 0o777 == 0o700


# Repositories in an unusual state.


def test_a_repository_without_a_commit(ground: Ground) -> None:
    shutil.rmtree(ground.top / ".git")
    ground.git("init", "-q")
    assert ground.changes(lambda: ground.write("new.txt", "x")) == {"new.txt": "added"}


def test_a_repository_in_the_middle_of_a_merge(ground: Ground) -> None:
    ground.git("checkout", "-qb", "other")
    ground.write("kept.txt", "theirs\n")
    ground.git("commit", "-qam", "theirs")
    ground.git("checkout", "-q", "-")
    ground.write("kept.txt", "ours\n")
    ground.git("rm", "-q", "gone.txt")
    ground.git("commit", "-qam", "ours")
    with pytest.raises(subprocess.CalledProcessError):
        ground.git("merge", "other")
    assert ground.changes(lambda: ground.write("kept.txt", "both\n")) == {"kept.txt": "modified"}
    assert ground.git("status", "--porcelain") == "UU kept.txt\n"


def test_a_repository_whose_index_is_broken(ground: Ground) -> None:
    (ground.top / ".git/index").write_bytes(b"DIRC, but no more")
    assert ground.changes(lambda: ground.write("kept.txt", "x")) == {"kept.txt": "modified"}


def test_a_repository_whose_configuration_is_broken(ground: Ground) -> None:
    (ground.top / ".git/config").write_text("[core\n")
    assert ground.changes(lambda: ground.write("kept.txt", "x")) == {"kept.txt": "modified"}


def test_a_repository_with_a_split_index(ground: Ground) -> None:
    ground.git("update-index", "--split-index")
    assert list((ground.top / ".git").glob("sharedindex.*"))
    ground.write(".gitignore", "kept.txt\n")  # Only by the index does git know of it.
    assert ground.changes(lambda: ground.write("kept.txt", "x")) == {"kept.txt": "modified"}


@pytest.mark.parametrize("index", ["--no-sparse-index", "--sparse-index"])
def test_a_sparse_checkout(ground: Ground, index: str) -> None:
    for name in ("in/a", "out/b", "out/deep/c"):
        ground.write(name, "x\n")
    ground.commit()
    ground.git("sparse-checkout", "set", "--cone", index, "in")
    assert not (ground.top / "out").exists()

    def act() -> None:
        ground.write("in/a", "changed\n")
        ground.write("out/b", "changed\n")
        ground.write("out/new", "new\n")

    assert ground.changes(act) == {"in/a": "modified", "out/b": "modified", "out/new": "added"}


def test_a_linked_worktree(ground: Ground) -> None:
    (ground.top / ".git/info/exclude").write_text("*.private\n")
    linked = ground.root / "linked"
    ground.git("worktree", "add", "-q", str(linked))

    def act() -> None:
        (linked / "kept.txt").write_text("x")
        (linked / "a.private").write_text("x")
        ground.write("kept.txt", "in the other work tree")

    assert ground.changes(act, cwd=linked) == {"kept.txt": "modified"}
    assert load(str(ground.folder)).top == str(linked)


def test_a_folder_of_a_repository_stands_for_all_of_it(ground: Ground) -> None:
    ground.write("deep/er/a", "x")
    assert ground.changes(lambda: ground.write("kept.txt", "x"), cwd=ground.top / "deep/er") == {"kept.txt": "modified"}


def test_a_submodule_is_told_by_its_commit(ground: Ground) -> None:
    _add_submodule(ground)
    inner = ground.top / "sub"

    def act() -> None:
        (inner / "inner.txt").write_text("changed\n")
        ground.git("commit", "-qam", "inner", cwd=inner)

    assert ground.changes(act) == {"sub": "modified"}
    assert "+Subproject commit" in ground.patch()


def test_a_run_inside_a_submodule_is_told_by_its_files(ground: Ground) -> None:
    _add_submodule(ground)
    inner = ground.top / "sub"
    assert ground.changes(lambda: (inner / "inner.txt").write_text("x"), cwd=inner) == {"inner.txt": "modified"}


def test_a_repository_that_the_run_made_is_told_by_its_name(ground: Ground) -> None:
    def act() -> None:
        ground.git("init", "-q", "unborn")
        ground.git("clone", "-q", ".", "clone")

    assert ground.changes(act) == {"clone": "added", "unborn": "added"}


def test_a_repository_of_another_object_format(ground: Ground) -> None:
    shutil.rmtree(ground.top / ".git")
    ground.git("init", "-q", "--object-format=sha256")
    ground.commit()
    assert ground.changes(lambda: ground.write("kept.txt", "x")) == {"kept.txt": "modified"}
    assert len(load(str(ground.folder)).before) == 64


def test_line_endings_are_those_of_the_repository(ground: Ground) -> None:
    ground.git("config", "core.autocrlf", "true")
    ground.write("kept.txt", "one\r\ntwo\r\nthree\r\n")
    ground.commit()
    assert ground.changes(lambda: ground.write("kept.txt", "one\r\n2\r\nthree\r\n")) == {"kept.txt": "modified"}
    assert ground.patch().endswith("@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n")


def test_a_repository_that_belongs_to_somebody_else(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = 'GIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec "$GIT" "$@"'
    monkeypatch.setenv("PATH", wrapped_git(tmp_path / "programs", stranger))
    with pytest.raises(subprocess.CalledProcessError):
        ground.git("status")
    assert ground.changes(lambda: ground.write("kept.txt", "x")) == {"kept.txt": "modified"}


def test_a_state_folder_inside_the_work_tree_is_left_out(ground: Ground) -> None:
    state = ground.top / "my [state]*"
    ground.folder = state / "runs" / "run-1"
    ground.folder.mkdir(parents=True)
    ground.first(hidden=(str(state),))
    ground.write("my [state]*/runs/run-1/events.jsonl", "more\n")
    ground.write("my state/file", "x")
    ground.second()
    assert ground.told() == {"my state/file": "added"}


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


def test_a_large_file_is_told_and_not_copied(ground: Ground) -> None:
    for name in ("same", "touched", "shrunk"):
        os.truncate(ground.write(name, ""), LARGE_BYTES + 1)

    def act() -> None:
        os.utime(ground.top / "touched", (1, 1))
        os.truncate(ground.top / "shrunk", 3)
        os.truncate(ground.write("new", ""), LARGE_BYTES + 2)

    assert ground.changes(act) == {"new": "added", "shrunk": "modified", "touched": "modified"}
    assert f"+Not kept by inspan: {LARGE_BYTES + 2} bytes, last written at " in ground.patch()
    kept = sum(path.stat().st_size for path in ground.folder.rglob("*") if path.is_file())
    assert kept < 1_000_000


def test_files_that_are_too_large_together_are_told_and_not_all_copied(ground: Ground) -> None:
    names = [f"data-{number}" for number in range(2 + KEPT_BYTES // (LARGE_BYTES - 1))]
    for number, name in enumerate(names):
        os.truncate(ground.write(name, ""), LARGE_BYTES - 1 - len(names) + number)
    ground.write("small", "x")

    def act() -> None:
        ground.write(names[-1], "now small\n")
        ground.write("small", "y")

    assert ground.changes(act) == {names[-1]: "modified", "small": "modified"}
    assert "-Not kept by inspan: " in ground.patch()
    assert "+now small\n" in ground.patch()


# What git could be made to do.


def test_no_program_that_a_repository_names_is_run(ground: Ground) -> None:
    _add_submodule(ground)
    marks = ground.root / "marks"

    def plant() -> None:
        evil = ground.root / "evil"
        evil.write_text(f'#!/bin/sh\necho "$@" >> {marks}\ncat\n')
        evil.chmod(0o755)
        for git_dir in (ground.top / ".git", ground.top / ".git/modules/sub"):
            _make_hostile(ground, git_dir, str(evil))
        ground.write(".gitattributes", "* filter=evil diff=evil merge=evil\n")
        (ground.top / "sub/inner.txt").write_text("CHANGED\n")

    plant()
    ground.write("kept.txt", "before\n")
    ground.write("loose.txt", "before\n")
    marks.unlink(missing_ok=True)
    ground.first()
    plant()
    ground.write("kept.txt", "after!\n")
    ground.write("loose.txt", "after!\n")
    now = ground.now()
    ground.second()
    assert ground.told(now) == ground.told() == {"kept.txt": "modified", "loose.txt": "modified"}
    assert "-before\n+after!\n" in ground.patch()
    assert not marks.exists(), marks.read_text()
    with pytest.raises(subprocess.CalledProcessError):
        ground.git("add", "-A")  # So it is hostile indeed.
    assert marks.exists()


def test_a_missing_object_is_not_fetched(ground: Ground) -> None:
    marks = ground.root / "marks"
    name = ground.git("rev-parse", "HEAD:gone.txt").strip()
    ground.git("sparse-checkout", "set", "--no-cone", "/kept.txt")
    (ground.top / ".git/objects" / name[:2] / name[2:]).unlink()
    ground.git("config", "core.repositoryFormatVersion", "1")
    for setting, value in {
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"{ground.root}/nowhere",
        "remote.origin.uploadpack": f"touch {marks};",
    }.items():
        ground.git("config", setting, value)
    assert ground.changes(lambda: ground.write("kept.txt", "x")) == {"kept.txt": "modified"}
    assert not marks.exists()


# What can go wrong.


def test_a_snapshot_that_takes_too_long_is_given_up(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", wrapped_git(tmp_path / "programs", "exec sleep 86400"))
    with pytest.raises(NoSnapshot) as caught:
        ground.first(limit_s=0.2)
    assert str(caught.value) == "A snapshot took longer than 0.2 s."


def test_a_machine_without_git_is_told(ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoSnapshot) as caught:
        ground.first()
    assert str(caught.value) == "There is no git program on PATH."


def test_what_git_complains_of_is_told(ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fails = 'test "$3" = write-tree && { echo "fatal: no room." >&2; exit 128; }\nexec "$GIT" "$@"'
    monkeypatch.setenv("PATH", wrapped_git(tmp_path / "programs", fails))
    with pytest.raises(NoSnapshot) as caught:
        ground.first()
    assert str(caught.value) == "`git write-tree` failed: fatal: no room."


def test_a_step_that_fails_once_is_tried_again(ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = tmp_path / "failed"
    fails = f'test "$3" = update-index && test ! -e {failed} && {{ touch {failed}; exit 128; }}\nexec "$GIT" "$@"'
    ground.write("new.txt", "x")
    monkeypatch.setenv("PATH", wrapped_git(tmp_path / "programs", fails))
    assert ground.changes(lambda: ground.write("kept.txt", "x")) == {"kept.txt": "modified"}
    assert failed.exists()


@pytest.mark.parametrize(
    ("text", "problem"),
    [(None, "No snapshot was taken."), ("{", "snapshot.json cannot be read: ")],
    ids=["missing", "torn"],
)
def test_a_run_folder_without_a_snapshot_says_so(tmp_path: Path, text: str | None, problem: str) -> None:
    if text is not None:
        (tmp_path / "snapshot.json").write_text(text)
    found = load(str(tmp_path))
    assert found == Snapshot(problem=found.problem)
    assert found.problem.startswith(problem)


# How the difference is shown.


def test_a_living_run_is_compared_with_the_files_as_they_are(ground: Ground) -> None:
    ground.first()
    ground.write("kept.txt", "now\n")
    assert ground.told(ground.now()) == {"kept.txt": "modified"}
    ground.write("kept.txt", "one\ntwo\nthree\n")
    ground.write("later.txt", "x")
    assert ground.told(ground.now()) == {"later.txt": "added"}
    ground.second()
    assert ground.told() == {"later.txt": "added"}
    assert [path.name for path in (ground.folder / "snapshot").glob("now-*")] == []


def test_a_summary_and_names(ground: Ground) -> None:
    def act() -> None:
        ground.write("kept.txt", "one\n2\nthree\n")
        (ground.top / "gone.txt").rename(ground.top / "größe.txt")

    ground.changes(act)
    assert ground.patch(names=True) == "gone.txt\ngröße.txt\nkept.txt\n"
    assert ground.patch(stat=True) == (
        " gone.txt => größe.txt | 0\n kept.txt              | 2 +-\n 2 files changed, 1 insertion(+), 1 deletion(-)\n"
    )


def test_a_binary_file_is_named_and_on_demand_given_whole(ground: Ground) -> None:
    ground.changes(lambda: (ground.top / "picture").write_bytes(b"\0\1\2" * 100))
    assert ground.patch().endswith("Binary files /dev/null and b/picture differ\n")
    whole = ground.patch(binary=True)
    (ground.top / "picture").unlink()
    subprocess.run(["git", "apply"], cwd=ground.top, input=whole.encode(), check=True)
    assert (ground.top / "picture").read_bytes() == b"\0\1\2" * 100


def test_paths_are_relative_to_where_one_stands(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.changes(lambda: [ground.write(name, "x") for name in ("a.py", "deep/b.py", "deep/c.txt")])
    (ground.top / "deep").mkdir(exist_ok=True)
    for where, paths, expected in (
        (ground.top, ("deep",), {"deep/b.py", "deep/c.txt"}),
        (ground.top / "deep", ("b.py",), {"deep/b.py"}),
        (ground.top / "deep", (str(ground.top / "a.py"),), {"a.py"}),
        (ground.root, ("*.py",), {"a.py", "deep/b.py"}),
    ):
        monkeypatch.chdir(where)
        assert set(ground.told(paths=paths)) == expected


def test_a_path_outside_the_work_tree_is_refused(ground: Ground) -> None:
    ground.changes(lambda: ground.write("a.py", "x"))
    with pytest.raises(NoSnapshot) as caught:
        ground.told(paths=("/nowhere",))
    assert "outside repository" in str(caught.value)


def _add_submodule(ground: Ground) -> None:
    source = ground.root / "source"
    ground.git("init", "-q", str(source))
    (source / "inner.txt").write_text("inner\n")
    ground.git("add", ".", cwd=source)
    ground.git("commit", "-qm", "inner", cwd=source)
    ground.git("submodule", "--quiet", "add", str(source), "sub")
    ground.commit()


def _make_hostile(ground: Ground, git_dir: Path, program: str) -> None:
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
        ground.git("config", "--file", str(git_dir / "config"), name, value)
    for folder in ("hooks", "evil-hooks"):
        (git_dir / folder).mkdir(exist_ok=True)
        hook = git_dir / folder / "post-index-change"
        hook.unlink(missing_ok=True)
        hook.symlink_to(program)
