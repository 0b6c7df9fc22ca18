"""The functions of `linux.py` on any Unix: threads or kqueue, files that were unlinked, the output of `ps`.

They were run on Linux, where `INSPAN_PORTABLE=1` chooses them. On macOS they were never run.
"""

import os
import select
import signal
import subprocess
import threading
from itertools import count
from typing import Any

from inspan.system.programs import find_helper

CHILD_SIGNAL = int(signal.SIGCHLD)
_numbers = count()


def open_exit_fd(pid: int) -> int:
    """A descriptor that becomes readable when a child process has ended; the caller closes it. Raises `OSError`."""
    if hasattr(select, "kqueue"):
        return _open_kqueue(pid)
    readable, written = os.pipe()
    threading.Thread(target=_write_at_exit, args=(pid, written), daemon=True).start()
    return readable


def _write_at_exit(pid: int, written: int) -> None:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        pass  # It was reaped already.
    try:
        os.write(written, b"\0")  # Closing it alone would not do where a forked child has a copy.
    except BrokenPipeError:
        pass
    os.close(written)


def _open_kqueue(pid: int) -> int:
    bsd: Any = select
    kqueue = bsd.kqueue()
    event = bsd.kevent(pid, filter=bsd.KQ_FILTER_PROC, flags=bsd.KQ_EV_ADD, fflags=bsd.KQ_NOTE_EXIT)
    try:
        kqueue.control([event], 0)
    except ProcessLookupError:  # It has ended already.
        readable, written = os.pipe()
        os.close(written)
        return readable
    return os.dup(kqueue.fileno())


def create_memory_file(name: str) -> int:
    """A file without a path, for what a child is to read. It may be on a disk for a moment, readable by its owner."""
    folder = os.environ.get("TMPDIR") or "/tmp"
    path = os.path.join(folder, f".inspan-{name}-{os.getpid()}-{next(_numbers)}-{os.urandom(8).hex()}")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.unlink(path)
    return fd


def open_pipe(*, blocking: bool = False) -> tuple[int, int]:
    """The two ends of a pipe that no child inherits."""
    ends = os.pipe()
    for fd in ends:
        os.set_blocking(fd, blocking)
    return ends


def enlarge_pipe(fd: int, size_bytes: int) -> None:
    """Pipes keep their size here: there are more, smaller reads."""


def reserve_space(fd: int, size_bytes: int) -> None:
    """Makes a file so large that it can be written later on a full disk; raises `OSError`."""
    os.pwrite(fd, b"\0" * size_bytes, 0)
    os.fsync(fd)


def copy_content(source: int, target: int, size_bytes: int) -> None:
    """Copies the content of one open file into another."""
    while size_bytes and (data := os.read(source, min(size_bytes, 1024 * 1024))):
        size_bytes -= len(data)
        while data:
            data = data[os.write(target, data) :]


def open_folder_watch(path: str) -> int:
    """A folder is polled here."""
    return -1


def list_open_fds() -> list[int]:
    """The descriptors of this process, with one that the listing itself needs."""
    return [int(name) for name in os.listdir("/dev/fd")]


def list_pids() -> list[int]:
    """Every process that can be seen."""
    return [int(line) for line in _run_ps("-A", "-o", "pid=")]


def list_children(pid: int) -> list[int]:
    """The children of a process; all of them where it is stopped."""
    pairs = (line.split() for line in _run_ps("-A", "-o", "pid=,ppid="))
    return [int(child) for child, parent in pairs if int(parent) == pid]


def read_process_state(pid: int) -> str:
    """The letter that the system has for it: T where it is stopped, Z where it has ended, X where there is none."""
    return next((line.strip()[:1] for line in _run_ps("-o", "state=", "-p", str(pid))), "X")


def count_written_bytes(pid: int) -> int:
    """What a process has written so far, to files and pipes alike; 0 where nobody can tell."""
    return 0


def has_variable(pid: int, name: str, value: str) -> bool:
    """Whether a process was started with this in its environment, as far as it can be read."""
    return any(f" {name}={value} " in f" {line} " for line in _run_ps("eww", "-o", "command=", "-p", str(pid)))


def list_values(name: str) -> set[str]:
    """What any process that can be read was started with under this name."""
    lines = _run_ps("-A", "eww", "-o", "command=")
    return {word.partition("=")[2] for line in lines for word in line.split() if word.startswith(f"{name}=")}


def list_holders(*paths: str) -> list[int]:
    """The processes that have all of these files open, as far as they can be looked into."""
    found = [{int(line) for line in _run("lsof", "/usr/sbin/lsof", "-t", "--", path)} for path in paths]
    return sorted(set[int].intersection(*found)) if found else []


def read_boot_id() -> str:
    """What is the same until the machine is started again; empty where nobody can tell."""
    return next(iter(_run_ps("-o", "lstart=", "-p", "1")), "")


def _run_ps(*arguments: str) -> list[str]:
    return _run("ps", "/bin/ps", *arguments)


def _run(program: str, usual: str, *arguments: str) -> list[str]:
    try:
        done = subprocess.run([find_helper(program) or usual, *arguments], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.decode(errors="replace").splitlines()
