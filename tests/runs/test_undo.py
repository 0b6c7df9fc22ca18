"""Undo and apply: every kind of file comes back as it was, and what cannot come back stops everything."""

import os
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from inspan.errors import BadInput, RunBusy, UndoRefused
from inspan.runs.undo import FileStep, UndoRecord, carry_out, plan_undo, read_undo_records
from inspan.stores import git_tree
from inspan.stores.run_folder import RunFolder, lock_run
from inspan.stores.snapshot import Snapshot, load_snapshot, save_snapshot
from inspan.stores.snapshot_steps import ForgedSnapshot
from inspan.system import file_locks
from tests.deep_tree import nest_folders
from tests.stores.snapshot_repository import wrap_git

from .undo_repository import UndoRepository

STRANGE = os.fsdecode(b"not utf-8 \xff\xfe")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UndoRepository:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("XDG_CONFIG_HOME", "GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_CONFIG_GLOBAL"):
        monkeypatch.delenv(name, raising=False)
    return UndoRepository(tmp_path)


def _set_mode(path: Path, mode: int) -> None:
    path.chmod(mode)


def _remove(repository: UndoRepository, name: str) -> None:
    path = repository.top / name
    path.unlink()
    for parent in path.relative_to(repository.top).parents:
        if parent.parts and not any((repository.top / parent).iterdir()):
            (repository.top / parent).rmdir()


def _replace_by_link(repository: UndoRepository) -> None:
    _remove(repository, "kept.txt")
    (repository.top / "kept.txt").symlink_to("gone.txt")


def _replace_file_by_folder(repository: UndoRepository) -> None:
    _remove(repository, "kept.txt")
    repository.write("kept.txt/a/b", "x")
    repository.write("kept.txt/c", "y")


def _replace_file_by_empty_folder(repository: UndoRepository) -> None:
    _remove(repository, "kept.txt")
    (repository.top / "kept.txt").mkdir()


def _replace_folder_by_file(repository: UndoRepository) -> None:
    _remove(repository, "sub/deep/file")
    repository.write("sub", "a file now")


def _replace_folder_by_link(repository: UndoRepository) -> None:
    _remove(repository, "sub/deep/file")
    (repository.top / "sub").symlink_to("/")


# What a run does, to a work tree with these files.
BEFORE = {
    "sub/deep/file": "deep\n",
    "empty": "",
    "crlf.txt": "one\r\ntwo\r\n",
    "mixed.txt": "one\r\ntwo\nthree",
    "with space": "s\n",
    "with\nnewline": "n\n",
    STRANGE: "strange\n",
    "program": "#!/bin/sh\n",
    ":(top)magic": "magic\n",
    "-dash": "dash\n",
}
ACTS: dict[str, Callable[[UndoRepository], object]] = {
    "add": lambda each: each.write("new.txt", "new\n"),
    "change": lambda each: each.write("kept.txt", "changed\n"),
    "delete": lambda each: _remove(each, "kept.txt"),
    "add in a new folder": lambda each: each.write("a/b/c", "new"),
    "delete with its folders": lambda each: _remove(each, "sub/deep/file"),
    "binary": lambda each: (each.top / "kept.txt").write_bytes(bytes(range(256)) * 40),
    "make empty": lambda each: each.write("kept.txt", ""),
    "fill what is empty": lambda each: each.write("empty", "full"),
    "delete what is empty": lambda each: _remove(each, "empty"),
    "add what is empty": lambda each: each.write("hollow", ""),
    "executable": lambda each: _set_mode(each.top / "kept.txt", 0o755),
    "not executable": lambda each: _set_mode(each.top / "program", 0o644),
    "executable and changed": lambda each: _set_mode(each.write("kept.txt", "x"), 0o755),
    "carriage returns": lambda each: each.write("crlf.txt", "one\r\n2\r\n"),
    "mixed line endings": lambda each: each.write("mixed.txt", "1\r\ntwo\nthree\r"),
    "space": lambda each: each.write("with space", "t\n"),
    "newline in the name": lambda each: each.write("with\nnewline", "m\n"),
    "name that is not UTF-8": lambda each: each.write(STRANGE, "changed\n"),
    "name like a pattern": lambda each: each.write(":(top)magic", "changed\n"),
    "name like an option": lambda each: _remove(each, "-dash"),
    "link": lambda each: (each.top / "link").symlink_to("kept.txt"),
    "dangling link": lambda each: (each.top / "link").symlink_to("nowhere/at all"),
    "link in the place of a file": _replace_by_link,
    "folder in the place of a file": _replace_file_by_folder,
    "file in the place of a folder": _replace_folder_by_file,
    "link in the place of a folder": _replace_folder_by_link,
    "all at once": lambda each: [act(each) for name, act in ACTS.items() if name in ("add", "change", "executable")],
}


def _prepare(repository: UndoRepository) -> None:
    for name, text in BEFORE.items():
        repository.write(name, text)
    (repository.top / "program").chmod(0o755)
    repository.commit()


@pytest.mark.parametrize("act", ACTS)
def test_every_kind_of_change_is_undone_and_applied_again(repository: UndoRepository, act: str) -> None:
    _prepare(repository)
    before = repository.list_tree()
    run = repository.run(lambda: ACTS[act](repository))
    after = repository.list_tree()
    assert after != before
    untouched = repository.list_repository()
    for _ in range(2):
        assert repository.change(run, "undo").files
        assert repository.list_tree() == before
        assert repository.change(run, "apply").files
        assert repository.list_tree() == after
    assert repository.list_repository() == untouched


@pytest.mark.parametrize(
    ("rules", "setting", "text"),
    [
        ("", "true", b"one\r\ntwo\r\n"),
        ("kept.txt text eol=crlf\n", "false", b"one\r\ntwo\r\n"),
        ("kept.txt text working-tree-encoding=UTF-16LE-BOM\n", "false", b"\xff\xfe" + "one\ntwo\n".encode("utf-16-le")),
    ],
    ids=["core.autocrlf", "eol=crlf", "UTF-16"],
)
def test_line_endings_and_encodings_are_written_as_git_would(
    repository: UndoRepository, rules: str, setting: str, text: bytes
) -> None:
    repository.git("config", "core.autocrlf", setting)
    repository.write(".gitattributes", rules)
    (repository.top / "kept.txt").write_bytes(text)
    repository.commit()
    before = repository.list_tree()
    run = repository.run(lambda: (repository.top / "kept.txt").write_bytes(text.replace(b"t", b"T")))
    after = repository.list_tree()
    repository.change(run, "undo")
    assert repository.list_tree() == before
    repository.change(run, "apply")
    assert repository.list_tree() == after


def test_line_endings_follow_the_rules_that_were_in_force_before(repository: UndoRepository) -> None:
    repository.write(".gitattributes", "*.txt text eol=crlf\n")
    repository.write("kept.txt", "one\r\n")
    repository.write("gone.txt", "one\r\n")
    repository.commit()
    before = repository.list_tree()

    def act() -> None:
        repository.write(".gitattributes", "*.txt -text\n")
        repository.write("kept.txt", "two\n")
        _remove(repository, "gone.txt")

    run = repository.run(act)
    after = repository.list_tree()
    repository.change(run, "undo")
    assert repository.list_tree() == before
    repository.change(run, "apply")
    assert repository.list_tree() == after


def test_permissions_other_than_the_executable_bit_stay(repository: UndoRepository) -> None:
    (repository.top / "kept.txt").chmod(0o640)
    run = repository.run(lambda: repository.write("kept.txt", "x").chmod(0o750))
    repository.change(run, "undo")
    assert stat.S_IMODE((repository.top / "kept.txt").stat().st_mode) == 0o640
    repository.change(run, "apply")
    assert stat.S_IMODE((repository.top / "kept.txt").stat().st_mode) == 0o750


def test_a_repository_without_executable_bits(repository: UndoRepository) -> None:
    repository.git("config", "core.filemode", "false")
    run = repository.run(lambda: repository.write("kept.txt", "x"))
    (repository.top / "kept.txt").chmod(0o755)
    assert [each.path for each in repository.change(run, "undo").files] == ["kept.txt"]


def test_a_read_only_file_is_undone_and_stays_read_only(repository: UndoRepository) -> None:
    (repository.top / "kept.txt").chmod(0o444)

    def act() -> None:
        _remove(repository, "kept.txt")
        repository.write("kept.txt", "x").chmod(0o444)

    before = repository.list_tree()
    run = repository.run(act)
    repository.change(run, "undo")
    assert repository.list_tree() == before


def test_what_git_ignores_stays_and_so_does_its_folder(repository: UndoRepository) -> None:
    repository.write(".gitignore", "*.pyc\n")
    repository.commit()

    def act() -> None:
        repository.write("pack/one.py", "1")
        repository.write("pack/one.pyc", "c")

    run = repository.run(act)
    repository.change(run, "undo")
    assert [name for name in repository.list_tree() if name.startswith("pack")] == ["pack", "pack/one.pyc"]


def test_a_file_that_was_ignored_before_the_run_is_not_deleted(repository: UndoRepository) -> None:
    repository.write(".gitignore", "secret.env\n")
    repository.commit()
    repository.write("secret.env", "PASSWORD")

    def act() -> None:
        repository.write(".gitignore", "\n")
        repository.write("new.txt", "x")

    run = repository.run(act)
    before = repository.list_tree()
    refusal = _expect_refusal(repository, run)
    assert refusal.files == ["secret.env"]
    assert "ignored by git before the run" in refusal.message
    assert repository.list_tree() == before
    repository.change(run, "undo", ":(top,exclude)secret.env")
    assert "secret.env" in repository.list_tree() and "new.txt" not in repository.list_tree()


@pytest.mark.parametrize("was_there", [False, True])
def test_an_ignored_file_that_the_run_took_into_the_repository_is_not_deleted(
    repository: UndoRepository, was_there: bool
) -> None:
    repository.write(".gitignore", ".envrc\n")
    repository.commit()
    if was_there:
        repository.write(".envrc", "the user's")

    def act() -> None:
        if not was_there:
            repository.write(".envrc", "the run's")
        repository.git("add", "-f", ".envrc")
        repository.write("new.txt", "x")
        repository.commit()

    run = repository.run(act)
    before = repository.list_tree()
    refusal = _expect_refusal(repository, run)
    assert refusal.files == [".envrc"]
    assert "ignored by git before the run" in refusal.message
    assert repository.list_tree() == before
    repository.change(run, "undo", ":(top,exclude).envrc")
    assert ".envrc" in repository.list_tree() and "new.txt" not in repository.list_tree()


def test_folders_nested_very_deep_in_the_place_of_a_file_are_refused(repository: UndoRepository) -> None:
    run = repository.run((repository.top / "kept.txt").unlink)
    with nest_folders(repository.top / "kept.txt", file="last"):
        with pytest.raises(UndoRefused) as refused:
            repository.change(run, "undo")
    assert refused.value.files == ["kept.txt/d"]


def test_ignore_rules_that_come_with_the_run_do_not_keep_its_files(repository: UndoRepository) -> None:
    before = repository.list_tree()

    def act() -> None:
        repository.write("sub/.gitignore", "*.log\n")
        repository.write("sub/new.txt", "x")

    run = repository.run(act)
    repository.change(run, "undo")
    assert repository.list_tree() == before


def test_the_index_head_and_stash_are_not_touched(repository: UndoRepository) -> None:
    repository.write("stashed.txt", "s")
    repository.git("add", "stashed.txt")
    repository.git("stash", "-q")
    repository.write("staged.txt", "staged\n")
    repository.git("add", "staged.txt")

    def act() -> None:
        repository.write("staged.txt", "by the run\n")
        repository.write("kept.txt", "by the run\n")
        repository.git("add", "-A")

    run = repository.run(act)
    untouched = repository.list_repository()
    repository.change(run, "undo")
    assert repository.list_repository() == untouched
    assert (repository.top / "staged.txt").read_text() == "staged\n"
    assert repository.git("show", ":staged.txt") == "by the run\n"
    assert len(repository.git("stash", "list").splitlines()) == 1


def test_a_work_tree_in_the_middle_of_a_merge(repository: UndoRepository) -> None:
    repository.git("checkout", "-qb", "other")
    repository.write("kept.txt", "theirs\n")
    repository.git("commit", "-qam", "theirs")
    repository.git("checkout", "-q", "-")
    repository.write("kept.txt", "ours\n")
    repository.git("commit", "-qam", "ours")
    with pytest.raises(subprocess.CalledProcessError):
        repository.git("merge", "other")
    before, untouched = repository.list_tree(), repository.list_repository()
    run = repository.run(lambda: repository.write("kept.txt", "both\n"))
    repository.change(run, "undo")
    assert repository.list_tree() == before
    assert repository.list_repository() == untouched
    assert repository.git("status", "--porcelain") == "UU kept.txt\n"


def test_a_commit_of_the_run_stays_and_its_files_are_undone(repository: UndoRepository) -> None:
    def act() -> None:
        repository.write("kept.txt", "by the run\n")
        repository.commit()

    before = repository.list_tree()
    run = repository.run(act)
    head = repository.git("rev-parse", "HEAD")
    repository.change(run, "undo")
    assert repository.list_tree() == before
    assert repository.git("rev-parse", "HEAD") == head
    assert repository.git("status", "--porcelain") == " M kept.txt\n"


def _add_submodule(repository: UndoRepository) -> None:
    source = repository.root / "source"
    repository.git("init", "-q", str(source))
    (source / "inner.txt").write_text("inner\n")
    repository.git("add", ".", cwd=source)
    repository.git("commit", "-qm", "inner", cwd=source)
    repository.git("submodule", "--quiet", "add", str(source), "sub")
    repository.commit()


def test_a_submodule_is_refused_and_can_be_left_out(repository: UndoRepository) -> None:
    _add_submodule(repository)

    def act() -> None:
        repository.write("kept.txt", "x")
        (repository.top / "sub/inner.txt").write_text("changed\n")
        repository.git("commit", "-qam", "more", cwd=repository.top / "sub")

    run = repository.run(act)
    refusal = _expect_refusal(repository, run)
    assert (refusal.files, "a submodule" in refusal.message) == (["sub"], True)
    assert f"`inspan undo {run.run_id} ':(top,exclude)sub'`" in refusal.next_step
    plan = repository.change(run, "undo", ":(top,exclude)sub")
    assert [each.path for each in plan.files] == ["kept.txt"]


@pytest.mark.parametrize("name", ["added submodule", "added repository", "repository that is none any more"])
def test_a_repository_in_the_work_tree_is_refused(repository: UndoRepository, name: str) -> None:
    inner = repository.top / "inner"
    if name == "repository that is none any more":
        repository.git("init", "-q", str(inner))
        (inner / "file").write_text("of the user's\n")

    def act() -> None:
        if name == "added submodule":
            _add_submodule(repository)
        elif name == "added repository":
            repository.git("init", "-q", str(inner))
            (inner / "file").write_text("x")
        else:
            subprocess.run(["rm", "-rf", str(inner / ".git")], check=True)

    run = repository.run(act)
    before = repository.list_tree()
    refusal = _expect_refusal(repository, run)
    assert set(refusal.files) <= {"sub", "inner", "inner/file"}
    if name == "repository that is none any more":
        assert _expect_refusal(repository, run, "inner/file").files == ["inner/file"]
    assert repository.list_tree() == before


def test_a_run_inside_a_submodule_is_undone(repository: UndoRepository) -> None:
    _add_submodule(repository)
    repository.top = repository.top / "sub"
    before = repository.list_tree()
    run = repository.run(lambda: (repository.top / "inner.txt").write_text("changed\n"))
    repository.change(run, "undo")
    assert repository.list_tree() == before


def test_a_linked_work_tree_is_undone_alone(repository: UndoRepository) -> None:
    linked = repository.root / "linked"
    repository.git("worktree", "add", "-q", str(linked))
    main = repository.list_tree()
    repository.top = linked
    before = repository.list_tree()
    run = repository.run(lambda: repository.write("kept.txt", "x"))
    repository.change(run, "undo")
    assert repository.list_tree() == before
    assert main["kept.txt"] == before["kept.txt"]


def test_a_file_whose_content_was_not_kept_is_refused(
    repository: UndoRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_tree, "LARGE_BYTES", 1000)

    def act() -> None:
        repository.write("large", "x" * 2000)
        repository.write("small", "x")

    run = repository.run(act)
    refusal = _expect_refusal(repository, run)
    assert (refusal.files, "its content was not kept" in refusal.message) == (["large"], True)
    assert [each.path for each in repository.change(run, "undo", "small").files] == ["small"]


def test_a_file_behind_a_filter_is_refused_where_it_would_have_to_be_written(repository: UndoRepository) -> None:
    repository.write(".gitattributes", "*.bin filter=lfs\n")
    repository.write("big.bin", "version 1 of a pointer\n")
    repository.commit()
    run = repository.run(lambda: repository.write("big.bin", "content"))
    refusal = _expect_refusal(repository, run)
    assert (refusal.files, "a filter" in refusal.message) == (["big.bin"], True)
    for name in ("clean", "smudge", "process"):
        repository.git("config", f"filter.lfs.{name}", f"touch {repository.root}/ran; cat")
    added = repository.run(lambda: repository.write("new.bin", "content"))
    repository.change(added, "undo")
    assert "new.bin" not in repository.list_tree()
    repository.change(added, "apply")
    assert (repository.top / "new.bin").read_text() == "content"
    assert not (repository.root / "ran").exists()


def _expect_refusal(repository: UndoRepository, run: RunFolder, *paths: str) -> UndoRefused:
    before, kept = repository.list_tree(), sorted(os.listdir(run.path))
    with pytest.raises(UndoRefused) as caught:
        repository.change(run, "undo", *paths)
    assert repository.list_tree() == before
    assert sorted(os.listdir(run.path)) == kept
    assert caught.value.next_step
    return caught.value


MEDDLINGS: dict[str, tuple[Callable[[UndoRepository], object], list[str], str]] = {
    "changed": (lambda each: each.write("kept.txt", "by hand\n"), ["kept.txt"], "changed since the run"),
    "executable": (lambda each: _set_mode(each.top / "kept.txt", 0o755), ["kept.txt"], "changed since the run"),
    "deleted": (lambda each: _remove(each, "kept.txt"), ["kept.txt"], "changed since the run"),
    "added again": (lambda each: each.write("gone.txt", "another\n"), ["gone.txt"], "in the way"),
    "folder in its place": (lambda each: each.write("gone.txt/file", "x"), ["gone.txt/file"], "in the way"),
    "empty folder in its place": (lambda each: (each.top / "gone.txt/e").mkdir(parents=True), ["gone.txt/e"], "in the"),
    "link in its place": (lambda each: (each.top / "gone.txt").symlink_to("kept.txt"), ["gone.txt"], "in the way"),
    "pipe in its place": (lambda each: os.mkfifo(each.top / "gone.txt"), ["gone.txt"], "in the way"),
    "file above it": (lambda each: each.write("sub", "x"), ["sub"], "in the way"),
    "link above it": (lambda each: (each.top / "sub").symlink_to("/tmp"), ["sub"], "in the way"),
}


@pytest.mark.parametrize("meddling", MEDDLINGS)
def test_a_file_that_is_not_as_the_run_left_it_stops_everything(repository: UndoRepository, meddling: str) -> None:
    repository.write("sub/file", "x")

    def act() -> None:
        repository.write("kept.txt", "by the run\n")
        repository.write("new.txt", "new\n")
        _remove(repository, "gone.txt")
        _remove(repository, "sub/file")

    run = repository.run(act)
    meddle, files, reason = MEDDLINGS[meddling]
    meddle(repository)
    refusal = _expect_refusal(repository, run)
    assert refusal.files == files
    assert refusal.message.splitlines() == [
        f"Nothing was undone, because of 1 file in {repository.top}:",
        f"  {files[0]}: {reason}{refusal.message.partition(reason)[2]}",
    ]


def test_a_folder_that_became_a_link_since_is_not_written_through(repository: UndoRepository) -> None:
    repository.write("sub/file", "x")
    run = repository.run(lambda: repository.write("sub/file", "by the run"))
    elsewhere = repository.root / "elsewhere"
    (repository.top / "sub").rename(elsewhere)
    (repository.top / "sub").symlink_to(elsewhere)
    assert _expect_refusal(repository, run).files == ["sub/file"]
    assert (elsewhere / "file").read_text() == "by the run"


def test_a_folder_with_an_ignored_file_in_the_place_of_a_file_is_refused(repository: UndoRepository) -> None:
    repository.write(".gitignore", "*.pyc\n")
    repository.commit()

    def act() -> None:
        _replace_file_by_folder(repository)
        repository.write("kept.txt/x.pyc", "c")

    run = repository.run(act)
    assert _expect_refusal(repository, run).files == ["kept.txt/x.pyc"]


def test_many_files_are_named_up_to_a_limit(repository: UndoRepository) -> None:
    names = [f"f{number:02}" for number in range(25)]
    run = repository.run(lambda: [repository.write(name, "x") for name in names])
    for name in names:
        repository.write(name, "y")
    refusal = _expect_refusal(repository, run)
    assert refusal.files == names
    assert refusal.message.splitlines()[-1] == "  and 5 more"
    assert "PATHS" in refusal.next_step


def test_a_strange_name_is_told_on_one_line(repository: UndoRepository) -> None:
    _prepare(repository)

    def change(text: str) -> None:
        repository.write(STRANGE, text)
        repository.write("with\nnewline", text)

    run = repository.run(lambda: change("1"))
    change("2")
    assert _expect_refusal(repository, run).message.splitlines()[1:] == [
        "  not utf-8 \\xff\\xfe: changed since the run",
        "  with\\nnewline: changed since the run",
    ]


def test_a_later_run_is_named(repository: UndoRepository) -> None:
    first = repository.run(lambda: repository.write("kept.txt", "first\n"))
    second = repository.run(lambda: repository.write("kept.txt", "second\n"), indexed=True)
    refusal = _expect_refusal(repository, first)
    assert refusal.message.splitlines()[1] == f"  kept.txt: changed since the run, by run {second.run_id}"
    assert refusal.next_step.startswith(f"`inspan undo {second.run_id}` first.")
    repository.change(second, "undo")
    repository.change(first, "undo")
    assert (repository.top / "kept.txt").read_text() == "one\ntwo\nthree\n"


def test_a_run_that_worked_there_at_the_same_time_is_told(repository: UndoRepository) -> None:
    first = repository.run(lambda: repository.write("kept.txt", "first\n"))
    second = repository.run(lambda: repository.write("new.txt", "x"), indexed=True)
    assert plan_undo(repository.state, first, direction="undo").notes == []
    snapshot = load_snapshot(first.path)
    later = load_snapshot(second.path).after_at
    save_snapshot(first.path, Snapshot(top=snapshot.top, before=snapshot.before, after=snapshot.after, after_at=later))
    (note,) = plan_undo(repository.state, first, direction="undo").notes
    assert note.startswith(f"Run {second.run_id} worked there at the same time")


def test_the_second_time_there_is_nothing_to_do(repository: UndoRepository) -> None:
    run = repository.run(lambda: repository.write("kept.txt", "x"))
    repository.change(run, "undo")
    again = repository.change(run, "undo")
    assert (again.files, again.unchanged) == ([], ["kept.txt"])
    assert [each.direction for each in read_undo_records(run)] == ["undo"]


def test_what_was_undone_by_hand_counts_as_undone(repository: UndoRepository) -> None:
    def act() -> None:
        repository.write("kept.txt", "x")
        repository.write("new.txt", "x")

    run = repository.run(act)
    repository.git("checkout", "-q", "kept.txt")
    plan = repository.change(run, "undo")
    assert ([each.path for each in plan.files], plan.unchanged) == (["new.txt"], ["kept.txt"])
    assert repository.change(run, "undo").files == []


def test_paths_choose_and_a_part_can_be_completed(repository: UndoRepository) -> None:
    run = repository.run(lambda: [repository.write(name, "x\n") for name in ("a/1", "a/2", "b")])
    plan = repository.change(run, "undo", "a")
    assert plan.files == [
        FileStep(path=path, change="deleted", lines_added=0, lines_removed=1) for path in ("a/1", "a/2")
    ]
    rest = repository.change(run, "undo")
    assert ([each.path for each in rest.files], rest.unchanged) == (["b"], ["a/1", "a/2"])
    assert [(each.direction, each.files) for each in read_undo_records(run)] == [("undo", 2), ("undo", 1)]


def test_paths_that_choose_nothing_are_refused(repository: UndoRepository) -> None:
    run = repository.run(lambda: repository.write("new.txt", "x"))
    with pytest.raises(BadInput) as caught:
        repository.change(run, "undo", "nwe.txt")
    assert caught.value.message == f"PATHS 'nwe.txt': run {run.run_id} changed no such file."
    with pytest.raises(BadInput, match="outside of the work tree"):
        repository.change(run, "undo", "/nowhere")


def test_a_run_that_changed_nothing_has_nothing_to_undo(repository: UndoRepository) -> None:
    run = repository.run(lambda: None)
    plan = repository.change(run, "undo")
    assert (plan.files, plan.unchanged) == ([], [])
    assert not os.path.exists(run.file("undo.json"))


def test_a_run_that_lives_is_refused(repository: UndoRepository) -> None:
    run = repository.run(lambda: repository.write("new.txt", "x"))
    lock = lock_run(run)
    try:
        with pytest.raises(RunBusy):
            repository.change(run, "undo")
    finally:
        os.close(lock)


def test_two_at_once_exclude_each_other(repository: UndoRepository) -> None:
    run = repository.run(lambda: repository.write("new.txt", "x"))
    lock = file_locks.take(run.file("undo.lock"))
    try:
        with pytest.raises(RunBusy, match="another process"):
            repository.change(run, "undo")
    finally:
        file_locks.release(lock)
    assert "new.txt" in repository.list_tree()


@pytest.mark.parametrize(
    ("snapshot", "why"),
    [
        (Snapshot(problem="No snapshot was taken."), "No snapshot was taken."),
        (Snapshot(top="/", before="1"), "The run was lost before its second snapshot."),
        (Snapshot(top="/nowhere", before="1", after="2"), "The work tree /nowhere is gone."),
        (Snapshot(top="/", before="1" * 40, after="2" * 40), "its .git was deleted, replaced or damaged."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_run_without_usable_snapshots_is_refused(repository: UndoRepository, snapshot: Snapshot, why: str) -> None:
    run = repository.run(lambda: repository.write("new.txt", "x"))
    save_snapshot(run.path, snapshot)
    refusal = _expect_refusal(repository, run)
    assert why in refusal.message
    assert refusal.next_step == f"`inspan diff {run.run_id}` shows what is known of them."


def test_without_git_there_is_a_sentence(repository: UndoRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    run = repository.run(lambda: repository.write("new.txt", "x"))
    monkeypatch.setenv("PATH", str(repository.root / "nothing"))
    assert "There is no git program on PATH." in _expect_refusal(repository, run).message


@pytest.mark.parametrize("name", ["update-index", "checkout-index", "ls-files", "cat-file", "check-attr"])
def test_a_git_that_fails_changes_nothing(
    repository: UndoRepository, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    run = repository.run(lambda: [repository.write("kept.txt", "x"), repository.write("new.txt", "y")])
    broken = f'test "$3" = {name} && {{ echo fatal: no >&2; exit 128; }}; exec "$GIT" "$@"'
    monkeypatch.setenv("PATH", wrap_git(repository.root / "programs", broken))
    before = repository.list_tree()
    with pytest.raises(UndoRefused, match="failed: fatal: no"):
        repository.change(run, "undo")
    assert repository.list_tree() == before


def test_an_empty_folder_in_the_place_of_a_file_gives_way(repository: UndoRepository) -> None:
    before = repository.list_tree()
    run = repository.run(lambda: _replace_file_by_empty_folder(repository))
    repository.change(run, "undo")
    assert repository.list_tree() == before


def test_a_file_with_two_names_is_undone_and_applied(repository: UndoRepository) -> None:
    os.link(repository.top / "kept.txt", repository.top / "twin.txt")
    os.link(repository.top / "kept.txt", repository.root / "outside.txt")
    repository.commit()
    before = repository.list_tree()
    run = repository.run(lambda: repository.write("kept.txt", "changed\n"))
    after = repository.list_tree()
    repository.change(run, "undo")
    assert repository.list_tree() == before
    assert (repository.root / "outside.txt").read_text() == "changed\n"
    repository.change(run, "apply")
    assert repository.list_tree() == after


def _forge_content(repository: UndoRepository) -> None:
    repository.overwrite_object("HEAD:kept.txt", "blob", b"forged\n")
    repository.write("kept.txt", "changed\n")


def _forge_tree(repository: UndoRepository) -> None:
    """The tree of the commit becomes the one that the run leaves: as if nothing had been changed."""
    repository.write("kept.txt", "changed\n")
    new = repository.git("hash-object", "-w", "kept.txt").strip()
    gone = repository.git("rev-parse", "HEAD:gone.txt").strip()
    entries = [("gone.txt", gone), ("kept.txt", new)]
    content = b"".join(f"100644 {name}\0".encode() + bytes.fromhex(identity) for name, identity in entries)
    repository.overwrite_object("HEAD^{tree}", "tree", content)


@pytest.mark.parametrize("forge", [_forge_content, _forge_tree])
def test_objects_that_the_run_wrote_over_are_not_believed(
    repository: UndoRepository, forge: Callable[[UndoRepository], None]
) -> None:
    with pytest.raises(ForgedSnapshot, match="not what its name says"):
        repository.run(lambda: forge(repository))


def test_forged_contents_are_not_written_where_the_snapshots_still_need_the_repository(
    repository: UndoRepository,
) -> None:
    run = repository.run(lambda: repository.write("kept.txt", "changed\n"), packed=False)
    repository.overwrite_object("HEAD:kept.txt", "blob", b"forged\n")
    with pytest.raises(UndoRefused, match="not what its name says"):
        repository.change(run, "undo")
    assert (repository.top / "kept.txt").read_text() == "changed\n"


def test_a_file_that_grew_beyond_measure_is_not_read(repository: UndoRepository) -> None:
    run = repository.run(lambda: repository.write("kept.txt", "changed\n"))
    os.truncate(repository.top / "kept.txt", 1 << 42)
    with pytest.raises(UndoRefused, match="changed since the run"):
        repository.change(run, "undo")


def test_a_large_file_of_the_repository_is_applied_again(repository: UndoRepository) -> None:
    (repository.top / "large").write_bytes(bytes(git_tree.LARGE_BYTES + 1))
    repository.commit()
    run = repository.run(lambda: _remove(repository, "large"))
    repository.change(run, "undo")
    assert (repository.top / "large").stat().st_size == git_tree.LARGE_BYTES + 1
    assert [each.path for each in repository.change(run, "apply").files] == ["large"]


def test_files_that_change_between_question_and_answer_are_not_touched(repository: UndoRepository) -> None:
    run = repository.run(lambda: [repository.write("kept.txt", "x"), repository.write("new.txt", "y")])
    plan = plan_undo(repository.state, run, direction="undo")
    _remove(repository, "new.txt")
    with pytest.raises(UndoRefused, match="changed meanwhile"):
        carry_out(repository.state, run, plan)
    assert (repository.top / "kept.txt").read_text() == "x"


def test_the_folder_of_the_run_stays_though_it_becomes_empty(
    repository: UndoRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository.top / "here").mkdir()
    run = repository.run(lambda: [repository.write("here/new", "x"), repository.write("there/new", "x")])
    monkeypatch.chdir(repository.top / "here")
    repository.change(run, "undo")
    assert (repository.top / "here").is_dir()
    assert not (repository.top / "there").exists()


def test_a_socket_in_a_folder_keeps_it(repository: UndoRepository) -> None:
    run = repository.run(lambda: repository.write("d/new", "x"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/cwd/{os.path.relpath(repository.top / 'd/s')}")
        repository.change(run, "undo")
    assert list(repository.list_tree()) == ["d", "d/s", "gone.txt", "kept.txt"]


def test_nothing_is_left_behind_in_the_run_folder(repository: UndoRepository) -> None:
    run = repository.run(lambda: repository.write("kept.txt", "x"))
    before = sorted(os.listdir(run.path))
    inside = sorted(str(path) for path in Path(run.path, "snapshot").rglob("*"))
    repository.change(run, "undo")
    assert sorted(os.listdir(run.path)) == sorted([*before, "undo.json", "undo.lock"])
    assert sorted(str(path) for path in Path(run.path, "snapshot").rglob("*")) == inside


def test_a_record_that_cannot_be_read_is_none(repository: UndoRepository) -> None:
    run = repository.run(lambda: repository.write("kept.txt", "x"))
    for text in ("{", "{}", '{"done": 1}', "[]"):
        Path(run.file("undo.json")).write_text(text)
        assert read_undo_records(run) == []
    repository.change(run, "undo")
    assert read_undo_records(run) == [UndoRecord(at=read_undo_records(run)[0].at, direction="undo", files=1)]


def test_what_a_killed_process_left_half_done_is_put_back_first(repository: UndoRepository) -> None:
    run = repository.run(lambda: [repository.write("kept.txt", "x"), repository.write("new.txt", "y")])
    hold = repository.top / ".inspan-undo-1"
    hold.mkdir()
    (repository.top / "kept.txt").rename(hold / "0.old")
    (hold / "0.new").write_text("half")
    Path(run.file("undo")).mkdir()
    targets = [hold, repository.top / "kept.txt", repository.top / "new.txt"]
    Path(run.file("undo"), "journal").write_bytes(b"\0".join(os.fsencode(each) for each in targets))
    assert len(repository.change(run, "undo").files) == 2
    assert (repository.top / "kept.txt").read_text() == "one\ntwo\nthree\n"
    assert list(repository.list_tree()) == ["gone.txt", "kept.txt"]
