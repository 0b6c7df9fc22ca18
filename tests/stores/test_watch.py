"""Waiting for a file to grow: woken by the system, or by looking again soon."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from inspan.stores.watch import FolderWatch

_LONG_S = 60.0


def _create(folder: Path) -> None:
    (folder / "new").touch()


def _append(folder: Path) -> None:
    with (folder / "log").open("ab") as file:
        file.write(b"more")


def _rename(folder: Path) -> None:
    (folder / "outside").rename(folder / "watched" / "inside")


@pytest.mark.parametrize("change", [_create, _append])
def test_a_change_that_came_before_the_wait_is_not_missed(tmp_path: Path, change: Callable[[Path], None]) -> None:
    (tmp_path / "log").touch()
    with FolderWatch(str(tmp_path)) as watch:
        change(tmp_path)
        assert _measure_wait(watch) < _LONG_S / 2


def test_a_file_that_is_moved_in_wakes(tmp_path: Path) -> None:
    (tmp_path / "watched").mkdir()
    (tmp_path / "outside").touch()
    with FolderWatch(str(tmp_path / "watched")) as watch:
        _rename(tmp_path)
        assert _measure_wait(watch) < _LONG_S / 2


def test_a_change_during_the_wait_wakes(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    with FolderWatch(str(tmp_path)) as watch:
        writer = threading.Timer(0.1, _append, [tmp_path])
        writer.start()
        waited = _measure_wait(watch)
        writer.join()
    assert waited < _LONG_S / 2


def test_one_wait_takes_all_changes_so_that_the_next_one_waits(tmp_path: Path) -> None:
    with FolderWatch(str(tmp_path)) as watch:
        for number in range(100):
            (tmp_path / str(number)).touch()
        watch.wait(_LONG_S)
        started = time.monotonic()
        watch.wait(0.2)
        assert time.monotonic() - started >= 0.2


def test_a_wait_without_a_change_ends_when_told(tmp_path: Path) -> None:
    with FolderWatch(str(tmp_path)) as watch:
        started = time.monotonic()
        watch.wait(0.1)
        assert time.monotonic() - started >= 0.1


def test_where_the_system_cannot_watch_it_looks_again_soon(tmp_path: Path) -> None:
    with FolderWatch(str(tmp_path / "not there")) as watch:
        assert _measure_wait(watch) < _LONG_S / 2


def _measure_wait(watch: FolderWatch) -> float:
    started = time.monotonic()
    watch.wait(_LONG_S)
    return time.monotonic() - started
