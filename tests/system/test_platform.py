"""The two ways of doing what differs between operating systems do the same."""

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from inspan.system import linux, portable

either = pytest.mark.parametrize("system", [linux, portable], ids=["linux", "portable"])
_SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]
_WAIT_S = 30.0


def test_both_have_the_same_functions() -> None:
    def names(module: ModuleType) -> set[str]:
        own = [getattr(module, name) for name in dir(module) if name[0] != "_"]
        return {value.__name__ for value in own if getattr(value, "__module__", "") == module.__name__}

    assert names(linux) == names(portable)
    assert len(names(linux)) > 10


@either
@pytest.mark.parametrize("before", [True, False], ids=["has ended", "ends later"])
def test_the_end_of_a_child_is_seen_on_a_descriptor(system: Any, before: bool) -> None:
    child = subprocess.Popen(_SLEEPS)
    if before:
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    fd = system.open_exit_fd(child.pid)
    try:
        if not before:
            assert select.select([fd], [], [], 0.05)[0] == []
            child.kill()
        assert select.select([fd], [], [], _WAIT_S)[0] == [fd]
        assert child.wait(0) == -signal.SIGKILL  # It was left to be reaped.
    finally:
        os.close(fd)
        child.kill()
        child.wait()


@either
def test_a_memory_file_is_read_by_a_child_and_has_no_path(system: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    fd = system.create_memory_file("words")
    os.write(fd, b"hello")
    os.lseek(fd, 0, os.SEEK_SET)
    assert not os.get_inheritable(fd)
    assert subprocess.run(["cat"], stdin=fd, capture_output=True, check=True).stdout == b"hello"
    assert list(tmp_path.iterdir()) == []
    os.close(fd)


@either
@pytest.mark.parametrize("blocking", [True, False])
def test_a_pipe_is_inherited_by_nobody(system: Any, blocking: bool) -> None:
    ends = system.open_pipe(blocking=blocking)
    system.enlarge_pipe(ends[0], 1 << 18)
    os.write(ends[1], b"x")
    assert os.read(ends[0], 2) == b"x"
    for fd in ends:
        assert (os.get_inheritable(fd), os.get_blocking(fd)) == (False, blocking)
        os.close(fd)


@either
def test_processes_are_found_with_their_parent_state_and_variables(system: Any) -> None:
    run_id = f"20990101-000000000-{os.getpid()}"  # Another worker may be at this test, too.
    child = subprocess.Popen(_SLEEPS, env={"JRUN_ID": run_id})
    try:
        assert child.pid in system.list_pids()
        assert child.pid in system.list_children(os.getpid())
        deadline = time.monotonic() + _WAIT_S
        while not system.has_variable(child.pid, "JRUN_ID", run_id):
            assert time.monotonic() < deadline  # Until it has become the other program.
        assert not system.has_variable(child.pid, "JRUN_ID", "20990101-000000000-")
        assert run_id in system.list_values("JRUN_ID")
        assert system.read_process_state(child.pid) in "SRD"
        child.send_signal(signal.SIGSTOP)
        while system.read_process_state(child.pid) != "T":
            assert time.monotonic() < deadline
    finally:
        child.kill()
        child.wait()
    assert system.read_process_state(child.pid) == "X"
    assert not system.has_variable(child.pid, "JRUN_ID", run_id)
    assert child.pid not in system.list_children(os.getpid())
    assert run_id not in system.list_values("JRUN_ID")


@either
def test_a_process_is_found_by_the_files_that_it_has_open(system: Any, tmp_path: Path) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    with open(one, "w"), open(other, "w"):
        assert system.list_holders(one, other) == [os.getpid()]
    with open(one):
        assert (system.list_holders(one), system.list_holders(one, other)) == ([os.getpid()], [])


@either
def test_room_is_reserved_and_content_is_copied(system: Any, tmp_path: Path) -> None:
    data = os.urandom(3 * 1024 * 1024 + 7)
    (tmp_path / "a").write_bytes(data)
    with open(tmp_path / "a", "rb") as source, open(tmp_path / "b", "wb") as target:
        system.copy_content(source.fileno(), target.fileno(), len(data))
    assert (tmp_path / "b").read_bytes() == data
    with open(tmp_path / "c", "wb") as reserved:
        system.reserve_space(reserved.fileno(), 12_288)
    assert (tmp_path / "c").stat().st_size == 12_288


@either
def test_the_machine_and_this_process_are_described(system: Any) -> None:
    assert system.read_boot_id() == system.read_boot_id() != ""
    with open(os.devnull) as file:
        assert file.fileno() in system.list_open_fds()
