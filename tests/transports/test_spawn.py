"""Starting a process with pipes of our own."""

import os
import resource
import select
import signal
import sys
from pathlib import Path

import pytest

from inspan.transports.spawn import Spawned, agent_pid, spawn
from tests.house import until


def _start(code: str, *, stdin: bytes = b"", life_line: bool = False) -> Spawned:
    return spawn([sys.executable, "-ISc", code], {"A": "b"}, stdin=stdin, life_line=life_line)


def _all_of(fd: int) -> bytes:
    pieces: list[bytes] = []
    while True:
        select.select([fd], [], [])
        piece = os.read(fd, 65536)
        if not piece:
            os.close(fd)
            return b"".join(pieces)
        pieces.append(piece)


def _finished(process: Spawned) -> tuple[bytes, bytes, int]:
    out, err = _all_of(process.stdout), _all_of(process.stderr)
    return out, err, os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])


def test_a_process_gets_its_input_and_gives_its_outputs_and_its_code() -> None:
    code = (
        "import sys, os; print(sys.stdin.read()[::-1], dict(os.environ)['A']); print('x', file=sys.stderr); sys.exit(3)"
    )
    assert _finished(_start(code, stdin=b"abc")) == (b"cba b\n", b"x\n", 3)


def test_an_input_larger_than_any_pipe_lies_ready_at_once() -> None:
    size = 10_000_000
    process = _start("import sys; print(len(sys.stdin.buffer.read()))", stdin=b"x" * size)
    assert _finished(process) == (b"%d\n" % size, b"", 0)


def test_a_process_leads_a_session_of_its_own_with_signals_as_usual() -> None:
    code = """
import os, signal
print(os.getsid(0) == os.getpid(), [signal.getsignal(number) == signal.SIG_DFL for number in (1, 3, 15)])
"""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        out, _, _ = _finished(_start(code))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert out == b"True [True, True, True]\n"


@pytest.mark.parametrize("life_line", [False, True])
def test_a_process_holds_only_the_descriptors_it_is_meant_to_have(life_line: bool) -> None:
    ours = {int(name) for name in os.listdir("/proc/self/fd")}
    strangers = {fd for fd in ours if fd > 2 and _inherited(fd)}
    code = "import os; print(*(n for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n)))"
    process = _start(code, life_line=life_line)
    out, _, _ = _finished(process)
    assert {int(word) for word in out.split()} - strangers == ({0, 1, 2, 3} if life_line else {0, 1, 2})
    if life_line:
        os.close(process.life)


def _inherited(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False


def test_a_life_line_ends_when_its_holder_lets_go() -> None:
    process = _start("import os; os.write(1, b'up'); os.read(3, 1); os.write(1, b'gone')", life_line=True)
    select.select([process.stdout], [], [])
    assert os.read(process.stdout, 2) == b"up"
    os.close(process.life)
    assert _finished(process)[0] == b"gone"


@pytest.mark.parametrize("life_line", [False, True])
def test_a_program_that_cannot_be_started_leaves_no_descriptor_open(tmp_path: Path, life_line: bool) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError):
        spawn([str(tmp_path / "none")], {}, stdin=b"x", life_line=life_line)
    assert os.listdir("/proc/self/fd") == before


def test_running_out_of_descriptors_leaves_none_open() -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    refused = 0
    for limit in range(3, max(map(int, before)) + 10):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limits[1]))
        try:
            process = _start("pass", life_line=True)
        except OSError:
            refused += 1
        else:
            os.close(process.life)
            _finished(process)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert sorted(os.listdir("/proc/self/fd")) == before
    assert refused


def test_the_agent_is_found_as_deep_as_told_and_no_deeper_than_there_is() -> None:
    nest = "import os, time\nfor _ in range(2):\n  if os.fork(): time.sleep(1000)\nos.write(1, b'.'); time.sleep(1000)"
    process = _start(nest)
    try:
        select.select([process.stdout], [], [])
        chain = [agent_pid(process.pid, depth=depth) for depth in range(5)]
        assert chain[0] == process.pid
        assert len(set(chain)) == 3
        assert chain[2:] == [chain[2]] * 3
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        os.waitpid(process.pid, 0)
        os.close(process.stdout)
        os.close(process.stderr)


def test_a_process_that_is_gone_has_no_children() -> None:
    process = _start("pass")
    _finished(process)
    assert until(lambda: agent_pid(process.pid, depth=3), "pid") == process.pid
