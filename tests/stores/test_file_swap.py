"""Replacing many files: all of them or none, wherever it fails, and after a kill at any step."""

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inspan.stores.file_swap import FileSwap, SwapError, recover_swap, swap_files

from .snapshot_repository import content

# Every change of a name in a swap of `_prepare`: four files move away, five come.
RENAMES = 9


def _prepare(root: Path) -> list[FileSwap]:
    """Files to replace, remove and make, one of each in folders that come and go."""
    for name, text in BEFORE.items():
        (root / "top" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "top" / name).write_text(text)
    (root / "new").mkdir()
    (root / "journal").mkdir()
    for name in ("a", "made", "c", "flat", "nest"):
        (root / "new" / name).write_text(f"new {name}")
    top, new = root / "top", root / "new"
    return [
        FileSwap(target=str(top / "a"), source=str(new / "a"), place=os.lstat(top / "a")),
        FileSwap(target=str(top / "gone/deep/b"), place=os.lstat(top / "gone/deep/b")),
        FileSwap(target=str(top / "flat"), place=os.lstat(top / "flat")),
        FileSwap(target=str(top / "flat/c"), source=str(new / "c")),
        FileSwap(target=str(top / "x/y/made"), source=str(new / "made")),
        FileSwap(target=str(top / "flat/d"), source=str(new / "flat")),
        FileSwap(target=str(top / "nest"), source=str(new / "nest"), place=None),
        FileSwap(target=str(top / "nest/in/e"), place=os.lstat(top / "nest/in/e")),
    ]


def _swap(root: Path, swaps: list[FileSwap]) -> None:
    swap_files(str(root / "top"), swaps, folder=str(root / "journal"))


def _texts(root: Path) -> dict[str, str]:
    return {name: data.decode() for name, (_, data) in content(root / "top").items()}


BEFORE = {"a": "old a", "gone/deep/b": "old b", "flat": "old flat", "nest/in/e": "old e", "stays": "s"}
AFTER = {
    "a": "new a",
    "flat/c": "new c",
    "flat/d": "new flat",
    "nest": "new nest",
    "x/y/made": "new made",
    "stays": "s",
}


def _list_all(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in (root / "top").rglob("*"))


def test_all_files_are_replaced_made_and_removed(tmp_path: Path) -> None:
    _swap(tmp_path, _prepare(tmp_path))
    assert _texts(tmp_path) == AFTER
    assert "top/gone" not in _list_all(tmp_path)
    assert os.listdir(tmp_path / "journal") == []


# The last one is that of the journal, which makes the swap final.
@pytest.mark.parametrize("number", range(1, RENAMES + 2))
def test_a_failure_at_any_step_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    swaps = _prepare(tmp_path)
    before, names = _texts(tmp_path), _list_all(tmp_path)
    monkeypatch.setattr(os, "rename", _fail_at(number, os.rename))
    with pytest.raises(SwapError) as caught:
        _swap(tmp_path, swaps)
    assert (caught.value.errno, caught.value.problems) == (errno.EIO, [])
    assert (_texts(tmp_path), _list_all(tmp_path)) == (before, names)
    assert os.listdir(tmp_path / "journal") == []


def _fail_at(number: int, rename: Callable[..., Any]) -> Callable[..., Any]:
    calls = iter(range(1, 1000))

    def fail(source: str, target: str, **folders: int) -> None:
        if next(calls) == number:
            raise OSError(errno.EIO, "Input/output error", source)
        rename(source, target, **folders)

    return fail


def test_an_interrupt_leaves_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swaps = _prepare(tmp_path)
    before, rename = _texts(tmp_path), os.rename
    calls = iter((True, True))

    def interrupt(source: str, target: str, **folders: int) -> None:
        if not next(calls, False):
            monkeypatch.setattr(os, "rename", rename)
            raise KeyboardInterrupt
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", interrupt)
    with pytest.raises(KeyboardInterrupt):
        _swap(tmp_path, swaps)
    assert _texts(tmp_path) == before


def test_what_cannot_be_put_back_is_told_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swaps = _prepare(tmp_path)
    rename = os.rename

    def fail(source: str, target: str, **folders: int) -> None:
        if source.endswith((".new", ".old")):
            raise OSError(errno.EIO, "Input/output error", source)
        rename(source, target, **folders)

    with monkeypatch.context() as broken:
        broken.setattr(os, "rename", fail)
        with pytest.raises(SwapError) as caught:
            _swap(tmp_path, swaps)
    assert len(caught.value.problems) == 4
    recover_swap(str(tmp_path / "journal"))
    assert _texts(tmp_path) == BEFORE
    assert os.listdir(tmp_path / "journal") == []


_KILL = """
import os, sys, pickle
from pathlib import Path
from tests.stores.test_file_swap import _prepare, _swap
root, number = Path(sys.argv[1]), int(sys.argv[2])
swaps = _prepare(root)
rename, count = os.rename, 0
def kill(source, target, **folders):
    global count
    count += 1
    if count == number:
        os._exit(9)
    rename(source, target, **folders)
os.rename = kill
_swap(root, swaps)
"""


@pytest.mark.parametrize("number", range(1, RENAMES + 2))
def test_after_a_kill_at_any_step_each_file_is_whole_and_nothing_is_left(tmp_path: Path, number: int) -> None:
    here = Path(__file__).parents[2]
    killed = subprocess.run([sys.executable, "-c", _KILL, str(tmp_path), str(number)], cwd=here, check=False)
    assert killed.returncode == 9
    recover_swap(str(tmp_path / "journal"))
    found = _texts(tmp_path)
    assert found["a"] in ("old a", "new a") and found["stays"] == "s"
    assert set(found.values()) <= {*BEFORE.values(), *AFTER.values()}
    assert (found.get("nest/in/e"), found.get("nest")) in [("old e", None), (None, "new nest")]
    assert not [name for name in _list_all(tmp_path) if ".inspan-undo" in name]
    assert os.listdir(tmp_path / "journal") == []
    if number < RENAMES:
        assert found.get("flat") == "old flat" or found.get("flat/c") == "new c"
        assert found.get("gone/deep/b") == "old b"


def test_a_file_that_changes_meanwhile_is_not_touched(tmp_path: Path) -> None:
    swaps = _prepare(tmp_path)
    (tmp_path / "top/gone/deep/b").write_text("by somebody else")
    before = _texts(tmp_path)
    with pytest.raises(SwapError, match="changed meanwhile"):
        _swap(tmp_path, swaps)
    assert _texts(tmp_path) == before


def test_a_file_that_comes_up_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    swaps = _prepare(tmp_path)
    (tmp_path / "top/x/y").mkdir(parents=True)
    (tmp_path / "top/x/y/made").write_text("by somebody else")
    before = _texts(tmp_path)
    with pytest.raises(SwapError, match="came up meanwhile"):
        _swap(tmp_path, swaps)
    assert _texts(tmp_path) == before


@pytest.mark.parametrize("fails", [False, True])
def test_an_empty_folder_gives_way_to_a_file_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    swaps = _prepare(tmp_path)
    (tmp_path / "top/x/y/made").mkdir(parents=True, mode=0o700)
    names = _list_all(tmp_path)
    if not fails:
        _swap(tmp_path, swaps)
        assert _texts(tmp_path) == AFTER
        return
    monkeypatch.setattr(os, "rename", _fail_at(RENAMES, os.rename))
    with pytest.raises(SwapError, match="Input/output error"):
        _swap(tmp_path, swaps)
    assert _list_all(tmp_path) == names
    assert (tmp_path / "top/x/y/made").stat().st_mode & 0o777 == 0o700


def test_two_names_of_one_file_are_replaced(tmp_path: Path) -> None:
    swaps = _prepare(tmp_path)
    os.link(tmp_path / "top/a", tmp_path / "top/b")
    places = {name: os.lstat(tmp_path / "top" / name) for name in ("a", "b")}
    pair = [FileSwap(target=str(tmp_path / "top" / name), source=swaps[0].source, place=places[name]) for name in "ab"]
    _swap(tmp_path, pair)
    assert (tmp_path / "top/a").read_text() == (tmp_path / "top/b").read_text() == "new a"


def test_a_file_that_is_replaced_runs_as_its_owner_no_more(tmp_path: Path) -> None:
    swaps = _prepare(tmp_path)
    (tmp_path / "top/a").chmod(0o4711)
    (tmp_path / "new/a").chmod(0o4755)
    _swap(tmp_path, [FileSwap(target=swaps[0].target, source=swaps[0].source, place=os.lstat(tmp_path / "top/a"))])
    assert (tmp_path / "top/a").stat().st_mode & 0o7777 == 0o700


def test_a_folder_that_is_in_use_stays(tmp_path: Path) -> None:
    swaps = _prepare(tmp_path)
    swap_files(str(tmp_path / "top"), swaps, folder=str(tmp_path / "journal"), kept=[str(tmp_path / "top/gone/deep")])
    assert (tmp_path / "top/gone/deep").is_dir()


def test_a_draft_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    swaps = _prepare(tmp_path)
    (tmp_path / "new/made").unlink()
    before, names = _texts(tmp_path), _list_all(tmp_path)
    with pytest.raises(SwapError):
        _swap(tmp_path, swaps)
    assert (_texts(tmp_path), _list_all(tmp_path)) == (before, names)


def test_recovering_where_nothing_was_begun_does_nothing(tmp_path: Path) -> None:
    recover_swap(str(tmp_path / "nowhere"))
    assert os.listdir(tmp_path) == []


def test_a_disk_that_is_full_is_told_by_the_file_that_did_not_fit(tmp_path: Path) -> None:
    top, source = tmp_path / "top", tmp_path / "elsewhere"
    top.mkdir()
    source.write_bytes(b"x" * 2_000_000)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
    try:
        with pytest.raises(SwapError) as caught:
            swap_files(str(top), [FileSwap(target=str(top / "new"), source=str(source))], folder=str(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (caught.value.filename, os.listdir(top)) == (str(top / "new"), [])


# Before one of its accesses to files, somebody who works in the tree moves each folder and puts a link in its place.
_FLIP = """
import os, shutil, sys
from pathlib import Path
from inspan.stores.file_swap import FileSwap, SwapError, recover_swap
from tests.stores.snapshot_repository import content
from tests.stores.test_file_swap import _prepare, _swap
base, act = Path(sys.argv[1]), sys.argv[2]
calls, moment, top, outside = 0, 0, Path(), Path()

def flip():
    for folder in [each for each in top.iterdir() if each.is_dir() and not each.is_symlink()]:
        for name in ("in", "deep", "y"):
            (outside / folder.name / name).mkdir(parents=True, exist_ok=True)
        hold = [f"{n}.{end}" for n in range(9) for end in ("old", "new")]
        for name in hold if folder.name.startswith(".inspan") else ("b", "deep/b", "in/e", "c"):
            (outside / folder.name / name).write_text("of somebody else")
        os.rename(folder, folder.with_name(f"was-{folder.name}"))
        os.symlink(outside / folder.name, folder)

def watch(event, _):
    global calls, known
    if moment and event.startswith(("os.", "open", "shutil.")):
        calls += 1
        if calls == moment:
            flip()
            known = content(outside)

def attempt(run):
    global moment, calls
    calls, moment = 0, number
    try:
        run()
    except OSError:
        pass
    moment = 0

sys.addaudithook(watch)
rename, number, reached = os.rename, 1, True
while reached:
    root = base / str(number)
    top, outside = root / "top", root / "outside"
    outside.mkdir(parents=True)
    swaps, known = _prepare(root), {}
    if act == "fail":
        (top / "z").mkdir()
        (top / "z/up").write_text("came up")
        swaps.append(FileSwap(target=str(top / "z/up"), source=swaps[0].source))
    if act == "recover":
        def die(*_, **__): raise SystemExit
        os.rename = lambda *names, **folders: die() if "journal" in names[0] else rename(*names, **folders)
        from inspan.stores import file_swap
        keep, file_swap._take_back = file_swap._take_back, lambda *_: ["killed"]
        try:
            _swap(root, swaps)
        except SystemExit:
            pass
        os.rename, file_swap._take_back = rename, keep
        attempt(lambda: recover_swap(str(root / "journal")))
    else:
        attempt(lambda: _swap(root, swaps))
    reached = calls >= number
    now = content(outside)
    if now != known:
        changed = sorted(set(now.items()) ^ set(known.items()))
        sys.exit(f"{act}: changed outside when led there before access {number}: {changed}")
    if taken := [name for name, each in content(top).items() if b"of somebody else" in each]:
        sys.exit(f"{act}: taken from outside when led there before access {number}: {taken}")
    shutil.rmtree(root)
    number += 1
print(number)
"""


@pytest.mark.parametrize("act", ["swap", "fail", "recover"])
def test_a_link_in_the_place_of_a_folder_leads_nothing_outside_at_any_moment(tmp_path: Path, act: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FLIP, str(tmp_path), act],
        cwd=Path(__file__).parents[2],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > RENAMES  # That many moments were tried.
