"""Starting a process with pipes of our own."""

import gc
import os
import resource
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import inspan
from inspan.system.platform import list_children
from inspan.transports.process import Spawned, find_agent_pid, spawn
from tests.api.run_env import descriptors


def _start(code: str, *, stdin: bytes = b"", liveness_pipe: bool = False) -> Spawned:
    return spawn([sys.executable, "-ISc", code], {"A": "b"}, stdin=stdin, liveness_pipe=liveness_pipe)


def _all_of(fd: int) -> bytes:
    pieces: list[bytes] = []
    while True:
        select.select([fd], [], [])
        piece = os.read(fd, 65536)
        if not piece:
            os.close(fd)
            return b"".join(pieces)
        pieces.append(piece)


def _wait_finished(process: Spawned) -> tuple[bytes, bytes, int]:
    out, err = _all_of(process.stdout), _all_of(process.stderr)
    return out, err, os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])


def test_a_process_gets_its_input_and_gives_its_outputs_and_its_code() -> None:
    code = (
        "import sys, os; print(sys.stdin.read()[::-1], dict(os.environ)['A']); print('x', file=sys.stderr); sys.exit(3)"
    )
    assert _wait_finished(_start(code, stdin=b"abc")) == (b"cba b\n", b"x\n", 3)


def test_an_input_larger_than_any_pipe_lies_ready_at_once() -> None:
    size = 10_000_000
    process = _start("import sys; print(len(sys.stdin.buffer.read()))", stdin=b"x" * size)
    assert _wait_finished(process) == (b"%d\n" % size, b"", 0)


def test_a_process_leads_a_session_of_its_own_with_signals_as_usual() -> None:
    code = """
import os, signal
print(os.getsid(0) == os.getpid(), [signal.getsignal(number) == signal.SIG_DFL for number in (1, 3, 15)])
"""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        out, _, _ = _wait_finished(_start(code))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert out == b"True [True, True, True]\n"


@pytest.mark.parametrize("liveness_pipe", [False, True])
def test_a_process_holds_only_the_descriptors_it_is_meant_to_have(liveness_pipe: bool) -> None:
    ours = {int(name) for name in os.listdir("/proc/self/fd")}
    strangers = {fd for fd in ours if fd > 2 and _is_inheritable(fd)}
    code = "import os; print(*(n for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n)))"
    process = _start(code, liveness_pipe=liveness_pipe)
    out, _, _ = _wait_finished(process)
    assert {int(word) for word in out.split()} - strangers == ({0, 1, 2, 3} if liveness_pipe else {0, 1, 2})
    if liveness_pipe:
        os.close(process.life)


def _is_inheritable(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False


def test_a_liveness_pipe_ends_when_its_holder_lets_go() -> None:
    process = _start("import os; os.write(1, b'up'); os.read(3, 1); os.write(1, b'gone')", liveness_pipe=True)
    select.select([process.stdout], [], [])
    assert os.read(process.stdout, 2) == b"up"
    os.close(process.life)
    assert _wait_finished(process)[0] == b"gone"


@pytest.mark.parametrize("liveness_pipe", [False, True])
def test_a_program_that_cannot_be_started_leaves_no_descriptor_open(tmp_path: Path, liveness_pipe: bool) -> None:
    before = descriptors()
    with pytest.raises(FileNotFoundError):
        spawn([str(tmp_path / "none")], {}, stdin=b"x", liveness_pipe=liveness_pipe)
    assert not descriptors() - before


def test_running_out_of_descriptors_leaves_none_open() -> None:
    gc.collect()  # What another test has left may not be closed meanwhile.
    before = sorted(os.listdir("/proc/self/fd"))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    refused = 0
    for limit in range(3, max(map(int, before)) + 10):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limits[1]))
        try:
            process = _start("pass", liveness_pipe=True)
        except OSError:
            refused += 1
        else:
            os.close(process.life)
            _wait_finished(process)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert sorted(os.listdir("/proc/self/fd")) == before
    assert refused


def test_the_agent_is_found_as_deep_as_told_and_nobody_stands_in_for_it() -> None:
    nest = "import os, time\nfor _ in range(2):\n  if os.fork(): time.sleep(1000)\nos.write(1, b'.'); time.sleep(1000)"
    process = _start(nest)
    try:
        select.select([process.stdout], [], [])
        chain = [find_agent_pid(process.pid, depth=depth) for depth in range(5)]
        assert chain[0] == process.pid
        assert len(set(chain[:3])) == 3
        assert chain[3:] == [None, None]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        os.waitpid(process.pid, 0)
        os.close(process.stdout)
        os.close(process.stderr)


def test_a_process_that_is_gone_has_no_children() -> None:
    process = _start("pass")
    _wait_finished(process)
    assert list_children(process.pid) == []
    assert find_agent_pid(process.pid, depth=3) is None


def test_a_process_gets_its_own_descriptors_though_ours_are_closed() -> None:
    script = """
import os, sys
sys.path[:0] = [PATH]
import inspan
from inspan.transports.process import spawn
report = os.dup2(1, 50)
for number in range(3): os.close(number)
code = "import sys; print(sys.stdin.read()[::-1]); print('x', file=sys.stderr); sys.exit(open(3).read(1) == '')"
process = spawn([sys.executable, "-ISc", code], {}, stdin=b"abc", liveness_pipe=True)
held = (process.stdout, process.stderr, process.life)
os.close(process.life)
status = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
said = (os.read(process.stdout, 100), os.read(process.stderr, 100))
os.write(report, repr((min(held) > 2, status, said)).encode())
"""
    path = str(Path(inspan.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", script.replace("PATH", repr(path))], capture_output=True, text=True, check=True
    )
    assert done.stdout == "(True, 1, (b'cba\\n', b'x\\n'))"


def test_a_process_has_no_signal_blocked_though_we_have() -> None:
    code = "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))"
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGUSR1))
    try:
        out, _, _ = _wait_finished(_start(code))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert out == b"set()\n"
