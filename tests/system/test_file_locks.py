"""Locks on files: let go of though somebody has a copy, handed on, and left behind by a forked child."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from inspan.system import file_locks

_FORKS = """
import os, sys, time
from inspan.system import file_locks, forking
lock = file_locks.take(sys.argv[1])
plain = os.open(os.devnull, os.O_RDONLY)
forking.own(plain)
forking.close(plain)
plain = os.open(sys.argv[1], os.O_RDONLY)  # On the number of what was closed, and nobody's business.
if os.fork() == 0:
    gone, stays = (os.readlink(f"/proc/self/fd/{fd}") for fd in (lock, plain))
    file_locks.release(lock)  # As a child does that goes on in the code of its parent.
    print(gone, stays == sys.argv[1], flush=True)
    os._exit(0)
os.wait()
print(file_locks.is_held(sys.argv[1]), os.readlink(f"/proc/self/fd/{lock}") == sys.argv[1])
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "lock")


def test_a_lock_is_had_by_one_at_a_time(path: str) -> None:
    lock = file_locks.take(path)
    assert file_locks.is_held(path)
    with pytest.raises(BlockingIOError):
        file_locks.take(path)
    file_locks.release(lock)
    assert not file_locks.is_held(path)
    with file_locks.lock_file(path):
        assert file_locks.is_held(path)
    assert not file_locks.is_held(path)


def test_a_folder_can_be_locked_and_what_is_not_there_is_not_held(tmp_path: Path) -> None:
    with file_locks.lock_file(str(tmp_path), folder=True), pytest.raises(BlockingIOError):
        file_locks.take(str(tmp_path), folder=True)
    assert not file_locks.is_held(str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_a_lock_that_is_let_go_of_is_free_though_another_process_has_a_copy(path: str) -> None:
    lock = file_locks.take(path)
    with _copied(lock):
        file_locks.release(lock)
        assert not file_locks.is_held(path)


def test_a_lock_that_is_handed_on_is_held_for_as_long_as_the_other_process_lives(path: str) -> None:
    lock = file_locks.take(path)
    with _copied(lock):
        file_locks.hand_on(lock)
        assert file_locks.is_held(path)
    assert not file_locks.is_held(path)


def test_no_lock_lies_where_somebody_may_print(path: str) -> None:
    script = (
        "import os, sys; from inspan.system import file_locks\nos.close(0)\nsys.exit(file_locks.take(sys.argv[1]) < 3)"
    )
    assert subprocess.run([sys.executable, "-c", script, path], check=False).returncode == 0


def test_a_forked_child_leaves_the_locks_behind_and_nothing_else(path: str) -> None:
    done = subprocess.run([sys.executable, "-c", _FORKS, path], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["/dev/null True", "True True"]


@contextmanager
def _copied(fd: int) -> Generator[None]:
    """Another process that has the same open file, until the end."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[fd]) as process:
        assert os.path.exists(f"/proc/{process.pid}")
        yield
