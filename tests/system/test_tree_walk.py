"""Folders are looked through and deleted however deep they go, and no link in them leads elsewhere."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from inspan.system.platform import list_open_fds
from inspan.system.tree_walk import delete_folder, ignore_error, raise_error, walk_paths, walk_tree
from tests.deep_tree import DEEP, nest_folders

_MOST_OPEN = 30


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    with nest_folders(tmp_path / "deep", file="last") as top:
        yield top


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two folders, one in the other, with a file each, and a link to a folder outside."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/theirs").write_text("kept")
    top = tmp_path / "tree"
    (top / "a/b").mkdir(parents=True)
    (top / "a/one").write_text("")
    (top / "a/b/two").write_text("")
    (top / "a/link").symlink_to(tmp_path / "outside")
    return top


@pytest.mark.parametrize("inner_first", [False, True])
def test_a_folder_is_seen_once_before_or_after_those_in_it(tree: Path, inner_first: bool) -> None:
    walk = walk_tree(str(tree), inner_first=inner_first)
    found = [("/".join(each.names), each.folders, sorted(each.others)) for each in walk]
    wanted: list[tuple[str, list[str], list[str]]] = [
        ("", ["a"], []),
        ("a", ["b"], ["link", "one"]),
        ("a/b", [], ["two"]),
    ]
    assert found == (wanted[::-1] if inner_first else wanted)


@pytest.mark.parametrize("inner_first", [False, True])
def test_of_the_deepest_tree_few_folders_are_open_at_a_time(deep: Path, inner_first: bool) -> None:
    before = len(list_open_fds())
    depths: list[int] = []
    for each in walk_tree(str(deep), inner_first=inner_first, on_error=raise_error):
        depths.append(len(each.names))
        if len(each.names) % 500 == 0:
            assert len(list_open_fds()) - before < _MOST_OPEN
    assert sorted(depths) == list(range(DEEP + 1))
    assert len(list_open_fds()) == before


def test_a_walk_that_is_given_up_leaves_nothing_open(deep: Path) -> None:
    before = len(list_open_fds())
    walk = walk_tree(str(deep), inner_first=True)
    next(walk)
    walk.close()
    assert len(list_open_fds()) == before


def test_by_paths_it_goes_as_far_as_a_path_does(deep: Path) -> None:
    found = [path for path, _, _ in walk_paths(str(deep))]
    assert 1000 < len(found) < DEEP
    assert all(os.path.isdir(path) for path in found)


def test_the_deepest_tree_is_deleted(deep: Path) -> None:
    delete_folder(str(deep))
    assert not deep.exists()
    delete_folder(str(deep))  # Twice is no error.


def test_no_link_is_followed(tree: Path, tmp_path: Path) -> None:
    delete_folder(str(tree))
    assert not tree.exists()
    assert (tmp_path / "outside/theirs").read_text() == "kept"
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(NotADirectoryError):
        delete_folder(str(tmp_path / "link"))
    delete_folder(str(tmp_path / "link"), on_error=ignore_error)
    assert (tmp_path / "outside/theirs").read_text() == "kept"


def test_folders_that_their_owner_may_not_write_to_go_too(tree: Path) -> None:
    for name, mode in (("a/b", 0), ("a", 0o500)):
        (tree / name).chmod(mode)
    delete_folder(str(tree))
    assert not tree.exists()


def test_whoever_moves_a_folder_meanwhile_leads_nobody_elsewhere(deep: Path, tmp_path: Path) -> None:
    with nest_folders(tmp_path / "elsewhere", depth=0) as elsewhere:  # Which is taken away, too.
        walk = walk_tree(str(deep), on_error=raise_error)
        for each in walk:
            if len(each.names) == 100:
                os.rename(deep / "/".join(each.names[:50]), elsewhere / "d")
                each.folders.clear()
                break
        with pytest.raises(OSError, match="moved"):
            list(walk)
