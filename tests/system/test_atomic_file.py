"""A file that is replaced is the old one or the new one, whoever writes it at once and whatever goes wrong."""

import os
import stat
import threading
from pathlib import Path

import pytest

from inspan.system.atomic_file import replace_file


def test_a_new_file_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        replace_file(str(tmp_path / "file"), b"new")
    finally:
        os.umask(before)
    assert (tmp_path / "file").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


def test_a_mode_that_is_asked_for_is_given_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        replace_file(str(tmp_path / "file"), b"new", mode=0o664)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o664


def test_threads_that_write_at_once_leave_one_whole_file_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = [bytes([ord("a") + number]) * 200_000 for number in range(8)]
    start = threading.Barrier(len(contents))
    errors = list[OSError]()

    def write(content: bytes) -> None:
        start.wait()
        for _ in range(10):
            try:
                replace_file(str(path), content)
            except OSError as error:
                errors.append(error)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert path.read_bytes() in contents
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("sync", [False, True])
def test_what_cannot_be_put_in_place_leaves_the_old_one_and_no_draft(tmp_path: Path, sync: bool) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "inside").touch()
    with pytest.raises(OSError, match="taken"):
        replace_file(str(tmp_path / "taken"), b"new", sync=sync)
    assert os.listdir(tmp_path) == ["taken"]


def test_a_link_is_replaced_and_what_it_points_to_stays(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"other")
    (tmp_path / "link").symlink_to("other")
    replace_file(str(tmp_path / "link"), b"new")
    assert ((tmp_path / "link").read_bytes(), (tmp_path / "other").read_bytes()) == (b"new", b"other")
