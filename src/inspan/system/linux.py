"""What only Linux has: process descriptors, memory files, /proc. The same functions are in `portable.py`."""

import fcntl
import os

CHILD_SIGNAL = 17
_MODIFY, _MOVED_TO, _CREATE = 0x2, 0x80, 0x100
_PROC = "/proc"


def open_exit_fd(pid: int) -> int:
    """A descriptor that becomes readable when a child process has ended; the caller closes it. Raises `OSError`."""
    return os.pidfd_open(pid)


def create_memory_file(name: str) -> int:
    """A file without a path, for what a child is to read."""
    return os.memfd_create(name)


def open_pipe(*, blocking: bool = False) -> "tuple[int, int]":
    """The two ends of a pipe that no child inherits."""
    return os.pipe2(os.O_CLOEXEC | (0 if blocking else os.O_NONBLOCK))


def enlarge_pipe(fd: int, size_bytes: int) -> None:
    """Lets a pipe hold more, where the system allows it."""
    try:
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, size_bytes)
    except OSError:
        pass  # The system's allowance for pipes may be used up; then there are more, smaller reads.


def reserve_space(fd: int, size_bytes: int) -> None:
    """Makes a file so large that it can be written later on a full disk; raises `OSError`."""
    os.posix_fallocate(fd, 0, size_bytes)


def copy_content(source: int, target: int, size_bytes: int) -> None:
    """Copies the content of one open file into another."""
    while size_bytes and (sent := os.sendfile(target, source, None, size_bytes)):
        size_bytes -= sent


def open_folder_watch(path: str) -> int:
    """A descriptor that becomes readable when something in a folder is written, or -1: then it has to be polled."""
    import ctypes  # Start-up time: only a follower that has to wait needs it.

    try:
        libc = ctypes.CDLL(None, use_errno=True)
        fd: int = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, AttributeError):
        return -1
    if fd >= 0 and libc.inotify_add_watch(fd, os.fsencode(path), _MODIFY | _CREATE | _MOVED_TO) < 0:
        os.close(fd)
        return -1
    return fd


def list_open_fds() -> "list[int]":
    """The descriptors of this process, with one that the listing itself needs."""
    return [int(name) for name in os.listdir(f"{_PROC}/self/fd")]


def list_pids() -> "list[int]":
    """Every process that can be seen."""
    return [int(name) for name in os.listdir(_PROC) if name.isdigit()]


def list_children(pid: int) -> "list[int]":
    """The children of a process; all of them where it is stopped."""
    try:
        with open(f"{_PROC}/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        if not os.path.exists(f"{_PROC}/{pid}"):
            return []
        # A kernel without CONFIG_PROC_CHILDREN.
        return [other for other in list_pids() if _read_stat(other)[1:2] == [str(pid)]]


def read_process_state(pid: int) -> str:
    """The letter that the system has for it: T where it is stopped, Z where it has ended, X where there is none."""
    return (_read_stat(pid) or ["X"])[0]


def count_written_bytes(pid: int) -> int:
    """What a process has written so far, to files and pipes alike; 0 where nobody can tell."""
    try:
        with open(f"{_PROC}/{pid}/io", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("wchar:")), 0)
    except (OSError, ValueError):
        return 0


def has_variable(pid: int, name: str, value: str) -> bool:
    """Whether a process was started with this in its environment, as far as it can be read."""
    try:
        with open(f"{_PROC}/{pid}/environ", "rb", buffering=0) as file:
            return f"\0{name}={value}\0".encode() in b"\0" + file.readall() + b"\0"
    except OSError:
        return False


def list_values(name: str) -> set[str]:
    """What any process that can be read was started with under this name."""
    wanted, found = f"\0{name}=".encode(), set[str]()
    for pid in list_pids():
        try:
            with open(f"{_PROC}/{pid}/environ", "rb", buffering=0) as file:
                _, _, rest = (b"\0" + file.readall()).partition(wanted)
        except OSError:
            continue
        if rest:
            found.add(os.fsdecode(rest.partition(b"\0")[0]))
    return found


def list_holders(*paths: str) -> "list[int]":
    """The processes that have all of these files open, as far as they can be looked into."""
    wanted = {os.path.realpath(path) for path in paths}
    return [pid for pid in list_pids() if wanted <= _list_open_files(pid)]


def read_boot_id() -> str:
    """What is the same until the machine is started again; empty where nobody can tell."""
    try:
        with open(f"{_PROC}/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def _list_open_files(pid: int) -> "set[str]":
    folder, found = f"{_PROC}/{pid}/fd", set[str]()
    try:
        for name in os.listdir(folder):
            found.add(os.readlink(f"{folder}/{name}"))
    except OSError:
        pass  # It is another one's, or ends while it is looked at.
    return found


def _read_stat(pid: int) -> "list[str]":
    try:
        with open(f"{_PROC}/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []
