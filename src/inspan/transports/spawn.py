"""Starting an agent's process with pipes of our own. Imports nothing but `os`: a supervisor does this first of all."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_HANGUP, _INTERRUPT, _QUIT, _PIPE, _TERMINATE, _CHILD = 1, 2, 3, 13, 15, 17
# Whoever started us may ignore any of these, and an ignored signal stays ignored in every child.
DEFAULTS = (_HANGUP, _INTERRUPT, _QUIT, _PIPE, _TERMINATE, _CHILD)
_LIFE_LINE = 3


class Spawned:
    """A started process and our ends of its pipes; `life` is held open as long as it may live, -1 without one.

    `stdin` is -1 where all of it was given at the start.
    """

    __slots__ = ("life", "pid", "stderr", "stdin", "stdout")

    def __init__(self, *, pid: int, stdout: int, stderr: int, life: int, stdin: int = -1) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.life = life


def spawn(argv: "list[str]", env: "Mapping[str, str]", *, stdin: "bytes | None", life_line: bool) -> Spawned:
    """Starts `argv` in a session of its own; all of its stdin lies ready in memory. Raises `OSError`.

    Without a `stdin` it gets a pipe, of which we keep the other end.
    """
    opened: list[int] = []
    try:
        stdout, stdout_end = _pipe(opened, os.O_NONBLOCK)
        stderr, stderr_end = _pipe(opened, os.O_NONBLOCK)
        life_end, life = _pipe(opened, 0) if life_line else (-1, -1)
        given, kept = _pipe(opened, os.O_NONBLOCK) if stdin is None else (_in_memory(opened, stdin), -1)
        for fd in (stdout_end, stderr_end, *([given] if stdin is None else [])):
            os.set_blocking(fd, True)
        ends = [(given, 0), (stdout_end, 1), (stderr_end, 2), *([(life_end, _LIFE_LINE)] if life_line else [])]
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for fd, number in ends]
        pid = os.posix_spawn(argv[0], argv, env, file_actions=actions, setsid=True, setsigdef=DEFAULTS)
    except BaseException:
        for fd in opened:
            os.close(fd)
        raise
    for fd, _ in ends:
        os.close(fd)
    return Spawned(pid=pid, stdin=kept, stdout=stdout, stderr=stderr, life=life)


def agent_pid(root: int, *, depth: int) -> int:
    """The agent below the process that was started, `depth` children down; the deepest one there is."""
    pid = root
    for _ in range(depth):
        children = _children(pid)
        if not children:
            return pid
        pid = children[0]
    return pid


def _pipe(opened: "list[int]", flags: int) -> "tuple[int, int]":
    pair = os.pipe2(os.O_CLOEXEC | flags)
    opened += pair
    return pair


def _in_memory(opened: "list[int]", data: bytes) -> int:
    fd = os.memfd_create("stdin")
    opened.append(fd)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []
