"""Which program a name on PATH stands for, and which folders of PATH are left out."""

import os
from pathlib import Path

import pytest

from inspan.system import programs


def _make_program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A work tree with a folder in it that is worked in, and a system with a `tool`."""
    work = tmp_path / "project" / "part"
    work.mkdir(parents=True)
    (tmp_path / "project" / ".git").mkdir()
    _make_program(tmp_path / "system" / "tool")
    monkeypatch.chdir(work)
    return work


def _find(project: Path, *entries: str) -> str:
    system = project.parent.parent / "system"
    path = os.pathsep.join((*entries, str(system)))
    found = programs.find_program("tool", path=path, avoid=programs.list_exposed_folders(str(project)))
    assert found == programs.find_helper("tool", path=path)
    return os.path.relpath(found, project.parent.parent)


@pytest.mark.parametrize("entry", ["{work}", "{work}/bin", "{top}/bin", "{work}/../bin", ".", "", "bin"])
def test_nothing_is_taken_from_where_an_agent_works(project: Path, entry: str) -> None:
    for folder in (project, project / "bin", project.parent / "bin"):
        _make_program(folder / "tool")
    assert _find(project, entry.format(work=project, top=project.parent)) == "system/tool"


def test_a_link_into_that_folder_counts_as_what_it_leads_to(project: Path) -> None:
    outside = project.parent.parent
    _make_program(project / "bin" / "tool")
    (outside / "linked").symlink_to(project / "bin")
    (outside / "own").mkdir()
    (outside / "own" / "tool").symlink_to("../project/part/bin/tool")
    assert _find(project, f"{outside}/linked", f"{outside}/own") == "system/tool"


def test_a_link_that_only_passes_through_it_counts_too(project: Path) -> None:
    outside = project.parent.parent
    _make_program(outside / "other" / "tool")
    (project / "way").symlink_to(outside / "other")
    (outside / "linked").symlink_to(project / "way")
    assert _find(project, f"{outside}/linked") == "system/tool"


def test_a_folder_beside_it_is_an_ordinary_one(project: Path) -> None:
    _make_program(project.parent.parent / "project-tools" / "tool")
    assert _find(project, f"{project.parent.parent}/project-tools") == "project-tools/tool"


@pytest.mark.parametrize("entry", ["other/.venv/bin", "other/node_modules/.bin"])
def test_helpers_are_not_taken_from_the_programs_of_any_project(project: Path, entry: str) -> None:
    outside = project.parent.parent
    _make_program(outside / entry / "tool")
    path = f"{outside / entry}:{outside}/system"
    assert programs.find_helper("tool", path=path) == f"{outside}/system/tool"
    assert programs.helper_path(path) == f"{outside}/system"
    assert programs.find_program("tool", path=path) == f"{outside / entry}/tool"


def test_a_folder_that_was_exposed_stays_so_for_this_process(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make_program(tmp_path / "library" / "bin" / "tool")
    path = f"{tmp_path}/library/bin:{tmp_path}/system"
    monkeypatch.setenv("PATH", path)
    monkeypatch.setattr(programs, "_exposed", dict[str, None]())
    assert programs.find_helper("tool") == f"{tmp_path}/library/bin/tool"
    programs.expose_folders([f"{tmp_path}/library", f"{tmp_path}/elsewhere"])
    assert programs.find_helper("tool") == f"{tmp_path}/system/tool"
    assert programs.helper_path() == f"{tmp_path}/system"
    assert programs.list_kept_exposed() == [f"{tmp_path}/library"]


def test_the_work_tree_of_a_whole_home_is_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    (tmp_path / "work").mkdir()
    assert programs.list_exposed_folders(str(tmp_path / "work")) == (str(tmp_path / "work"),)
    assert programs.list_exposed_folders("/") == ()


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert not programs.leads_through(str(tmp_path / "a" / "bin"), ["/nowhere"])


def test_a_program_without_a_name_is_not_there_and_takes_nothing_from_the_others(project: Path) -> None:
    path = str(project.parent.parent / "system")
    avoid = programs.list_exposed_folders(str(project))
    assert programs.find_program("", path=path, avoid=avoid) == ""
    assert programs.find_helper("tool", path=path, avoid=avoid) == os.path.join(path, "tool")
