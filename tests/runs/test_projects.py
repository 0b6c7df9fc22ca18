"""Which project a folder belongs to: one for every worktree of a repository, and found without starting git."""

import os
import subprocess
from pathlib import Path

import pytest

from inspan.runs.projects import Scope, project_of, scope_of, top_of
from tests.stores.snapshot_repository import IDENTITY


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *IDENTITY, *arguments], cwd=folder, check=True, capture_output=True)


def _make_repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    _git(folder, "init", "-q")
    (folder / "file").write_text("one\n")
    _git(folder, "add", "-A")
    _git(folder, "commit", "-qm", "first")
    return folder


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return _make_repository(tmp_path / "app")


def test_a_linked_worktree_is_of_its_repositorys_project(repository: Path, tmp_path: Path) -> None:
    before = project_of(str(repository))
    _git(repository, "worktree", "add", "-q", str(tmp_path / "elsewhere"), "-b", "other")
    (tmp_path / "elsewhere" / "deep").mkdir()
    assert project_of(str(tmp_path / "elsewhere" / "deep")) == project_of(str(repository)) == before
    assert top_of(str(tmp_path / "elsewhere")) == str(repository)


def test_the_worktrees_of_a_bare_repository_are_of_one_project(repository: Path, tmp_path: Path) -> None:
    _git(tmp_path, "clone", "-q", "--bare", str(repository), "app.git")
    for name in ("one", "two"):
        _git(tmp_path / "app.git", "worktree", "add", "-q", str(tmp_path / name), "-b", name)
    assert project_of(str(tmp_path / "one")) == project_of(str(tmp_path / "two"))
    assert top_of(str(tmp_path / "one")) == str(tmp_path / "app.git")
    assert scope_of(str(tmp_path / "one")).linked == (str(tmp_path / "one"), str(tmp_path / "two"))


def test_a_submodule_is_a_project_of_its_own_and_so_are_its_worktrees(repository: Path, tmp_path: Path) -> None:
    _git(repository, "submodule", "add", "-q", str(_make_repository(tmp_path / "library")), "inner")
    inner = repository / "inner"
    _git(inner, "worktree", "add", "-q", str(tmp_path / "of inner"), "-b", "other")
    assert top_of(str(inner)) == top_of(str(tmp_path / "of inner")) == str(inner)
    assert project_of(str(inner)) != project_of(str(repository))


@pytest.mark.parametrize("pointer", ["gitdir: /nowhere/at/all\n", "gitdir: ", "no pointer\n", ""])
def test_a_worktree_whose_repository_is_gone_is_a_project_of_its_own(tmp_path: Path, pointer: str) -> None:
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / ".git").write_text(pointer)
    assert top_of(str(tmp_path / "left")) == str(tmp_path / "left")


def test_a_pipe_in_the_place_of_git_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".git")
    assert top_of(str(tmp_path)) == str(tmp_path)


def test_a_moved_repository_keeps_its_worktrees_once_git_has_repaired_them(repository: Path, tmp_path: Path) -> None:
    _git(repository, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "other")
    repository.rename(tmp_path / "moved")
    assert top_of(str(tmp_path / "linked")) == str(tmp_path / "linked")
    _git(tmp_path / "moved", "worktree", "repair", str(tmp_path / "linked"))
    assert project_of(str(tmp_path / "linked")) == project_of(str(tmp_path / "moved"))


def test_runs_under_another_name_are_found_from_every_worktree(repository: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    _git(repository, "worktree", "add", "-q", str(linked), "-b", "other")
    for here in (repository, linked):
        for there in (repository, linked):
            assert scope_of(str(here)).matches("another", str(there))
    assert not scope_of(str(repository)).matches("another", str(tmp_path / "linkedness"))


def test_a_scope_without_a_folder_means_the_runs_of_its_project_alone(repository: Path) -> None:
    scope = Scope(project="p")
    assert (scope.matches("p", ""), scope.matches("q", str(repository))) == (True, False)


def test_no_program_is_started_to_find_a_project(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _git(repository, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "other")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert scope_of(str(tmp_path / "linked")).top == str(repository)
