"""Starting an agent's process with pipes of our own. Imports next to nothing: a supervisor does this first of all."""

import os
import sys

from inspan.system.entry import (
    ABOVE_GIVEN,
    FILTER_FD,
    LINK_FD,
    SHELL_ENTRY,
    enter,
    make_filter_file,
    needs_python,
    open_named,
    pack,
    reset_signals,
)
from inspan.system.entry import __file__ as ENTRY
from inspan.system.platform import CHILD_SIGNAL, create_memory_file, list_children, list_open_fds, open_pipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from inspan.system.entry import Setup

_HANGUP, _INTERRUPT, _QUIT, _PIPE, _TERMINATE = 1, 2, 3, 13, 15
# Whoever started us may ignore any of these, and an ignored signal stays ignored in every child.
DEFAULT_SIGNALS = (_HANGUP, _INTERRUPT, _QUIT, _PIPE, _TERMINATE, CHILD_SIGNAL)
# Each of these ends a run in order. A supervisor is born with them blocked: until it can obey, they wait.
ENDING_SIGNALS = (_HANGUP, _INTERRUPT, _TERMINATE)
_LIVENESS_FD = 3
_FIRST_FREE = 3
_NOT_STARTED = 126


class Spawned:
    """A started process and our ends of its pipes; `life` is held open as long as it may live, -1 without one.

    `stdin` is -1 where all of it was given at the start; then `given` is what was given, where that is watched.
    By `link` come the listeners of a process with a network of its own; -1 where it has none.
    """

    __slots__ = ("given", "life", "link", "pid", "stderr", "stdin", "stdout")

    def __init__(
        self, *, pid: int, stdout: int, stderr: int, life: int, stdin: int = -1, given: int = -1, link: int = -1
    ) -> None:
        self.pid = pid
        self.link = link
        self.stdin = stdin
        self.given = given
        self.stdout = stdout
        self.stderr = stderr
        self.life = life


def spawn(
    argv: "list[str]",
    env: "Mapping[str, str]",
    *,
    stdin: "bytes | int | None",
    liveness_pipe: bool,
    watch: bool = False,
    setup: "Setup | None" = None,
    forks: bool = False,
) -> Spawned:
    """Starts `argv` in a session of its own; all of its stdin lies ready in memory. Raises `OSError`.

    A descriptor as `stdin`, as `write_memory_file` gives it, is closed in any case.
    Without a `stdin` it gets a pipe, of which we keep the other end. With `watch`, `was_read` can tell later whether
    anything of it was read. A `setup` is done on the way; where the caller has one thread and little memory it `forks`
    for that, which is quicker than starting another Python.
    """
    opened: list[int] = [stdin] if isinstance(stdin, int) else []
    try:
        stdout, stdout_end = _open_pipe(opened, blocking=False)
        stderr, stderr_end = _open_pipe(opened, blocking=False)
        life_end, life = _open_pipe(opened, blocking=True) if liveness_pipe else (-1, -1)
        given, kept = _open_pipe(opened, blocking=False) if stdin is None else (_give(opened, stdin), -1)
        link, link_end = _open_link(opened) if setup and setup["ports"] else (-1, -1)
        for fd in (stdout_end, stderr_end, *([given] if stdin is None else [])):
            os.set_blocking(fd, True)
        ends = [(given, 0), (stdout_end, 1), (stderr_end, 2), *([(life_end, _LIVENESS_FD)] if liveness_pipe else [])]
        ends += [(link_end, LINK_FD)] if link >= 0 else []
        before = len(opened)
        argv = open_named(argv, opened) if setup else argv
        ends += [(fd, fd) for fd in opened[before:]]  # They stay on their own numbers: the words say these.
        if setup and forks:
            pid = _fork_into(setup, argv, env, ends)
        else:
            ends += _open_filter(opened, setup) if setup and not needs_python(setup) else []
            argv = [*_choose_entry(setup), *argv] if setup else argv
            # First: a number that is closed may be one that the child is given something on.
            actions = [(os.POSIX_SPAWN_CLOSE, fd) for fd in _list_inherited()]
            actions += [(os.POSIX_SPAWN_DUP2, fd, number) for fd, number in ends]
            # A caller's blocked signals would stay blocked in all that the agent starts.
            pid = os.posix_spawn(
                argv[0], argv, env, file_actions=actions, setsid=True, setsigdef=DEFAULT_SIGNALS, setsigmask=()
            )
    except BaseException:
        for fd in opened:
            os.close(fd)
        raise
    watched = given if watch and stdin is not None else -1
    for fd, _ in ends:
        if fd != watched:
            os.close(fd)
    return Spawned(pid=pid, stdin=kept, stdout=stdout, stderr=stderr, life=life, given=watched, link=link)


def write_memory_file(data: bytes) -> int:
    """All of a process's stdin, lying ready in memory; the caller closes the descriptor."""
    fd = move_fd_up(create_memory_file("stdin"))
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
        os.utime(fd, ns=(0, 0))
    except BaseException:
        os.close(fd)
        raise
    return fd


def was_read(fd: int) -> "bool | None":
    """Whether anybody has read of what a process was given; None where there was nothing, or nobody can tell.

    Whoever reads on moves the place that is shared; whoever opens it anew, maps it or reads at a place of its own
    leaves the time of that.
    """
    status = os.fstat(fd)
    if not status.st_size:
        return None
    if os.lseek(fd, 0, os.SEEK_CUR) or status.st_atime_ns:
        return True
    os.pread(fd, 1, 0)
    return False if os.fstat(fd).st_atime_ns else None


def find_agent_pid(root: int, *, depth: int) -> "int | None":
    """The agent below the process that was started, `depth` children down; None while, or once, there is none.

    Whoever stands between is no stand-in for it: what holds an agent may not yet have bound it to its own life.
    """
    pid = root
    for _ in range(depth):
        below = list_children(pid)
        if not below:
            return None
        pid = below[0]
    return pid


def move_fd_up(fd: int) -> int:
    """The same open file on a number above the standard ones, closed on exec; `fd` itself where it is one already.

    A program whose own standard descriptors are closed is given those numbers for whatever it opens next.
    """
    if fd >= _FIRST_FREE:
        return fd
    copies = [fd]
    try:
        while copies[-1] < _FIRST_FREE:
            copies.append(os.dup(copies[-1]))
        return copies.pop()
    finally:
        for low in copies:
            os.close(low)


def _list_inherited() -> "list[int]":
    """What a child would inherit though nobody gave it anything: a folder that is open leads out of every box."""
    found: list[int] = []
    for fd in list_open_fds():
        try:
            if fd > 2 and os.get_inheritable(fd):
                found.append(fd)
        except OSError:
            continue  # The listing's own is closed by now.
    return found


def _choose_entry(setup: "Setup") -> "tuple[str, ...]":
    return (sys.executable, "-I", "-S", ENTRY, pack(setup)) if needs_python(setup) else SHELL_ENTRY


def _open_filter(opened: "list[int]", setup: "Setup") -> "list[tuple[int, int]]":
    """The filter, on a number that no child is given anything on, and the number on which it is looked for."""
    if not setup["filter"]:
        return []
    import fcntl  # Start-up time: only a box needs it.

    made = make_filter_file(setup["filter"])
    try:
        opened.append(fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, ABOVE_GIVEN))
    finally:
        os.close(made)
    return [(opened[-1], FILTER_FD)]


def _fork_into(setup: "Setup", argv: "list[str]", env: "Mapping[str, str]", ends: "list[tuple[int, int]]") -> int:
    """A child that does the setup and becomes the program."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        for fd, number in ends:
            os.dup2(fd, number)
            os.set_inheritable(number, True)  # A copy is; one that stays on its number is not.
        reset_signals(DEFAULT_SIGNALS)
        enter(setup, argv, dict(env))
    finally:
        os._exit(_NOT_STARTED)


def _open_link(opened: "list[int]") -> "tuple[int, int]":
    """Two ends of a link, on numbers that no child is given anything on."""
    import fcntl  # Start-up time: only a network of its own needs these.
    import socket

    for made in socket.socketpair():
        with made:
            opened.append(fcntl.fcntl(made.fileno(), fcntl.F_DUPFD_CLOEXEC, ABOVE_GIVEN))
    return opened[-2], opened[-1]


def _open_pipe(opened: "list[int]", *, blocking: bool) -> "tuple[int, int]":
    pair = open_pipe(blocking=blocking)
    opened += (read := move_fd_up(pair[0]), write := move_fd_up(pair[1]))
    return read, write


def _give(opened: "list[int]", stdin: "bytes | int") -> int:
    if isinstance(stdin, int):
        return stdin
    opened.append(write_memory_file(stdin))
    return opened[-1]
