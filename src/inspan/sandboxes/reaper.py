"""A parent that lets nothing outlive it, run as a script: `reaper.py CWD ARGV…` with its life line on descriptor 3.

It adopts every orphan below it. When the agent ends, or the supervisor's end of the life line closes, it kills all of
its descendants and leaves with the agent's exit code.
"""

import os
import select
import signal
import sys

_LIFE_LINE = 3
_SUBREAPER = 36


def main() -> int:
    _adopt_orphans()
    os.set_inheritable(_LIFE_LINE, False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.chdir(sys.argv[1])
    argv = sys.argv[2:]
    defaults = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)
    try:
        child = os.posix_spawnp(argv[0], argv, os.environ, setsigdef=defaults)
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr)
        return 127 if isinstance(error, FileNotFoundError) else 126
    _wait_for(child)
    _kill_descendants()
    return _reap(child)


def _adopt_orphans() -> None:
    import ctypes

    if ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0):
        raise SystemExit("reaper: the system does not let it adopt orphans")


def _wait_for(child: int) -> None:
    """Waits until the agent has ended or the supervisor is gone, reaping orphans meanwhile."""
    poll = select.poll()
    poll.register(_LIFE_LINE, select.POLLIN | select.POLLHUP)
    poll.register(os.pidfd_open(child), select.POLLIN)
    poll.poll()


def _kill_descendants() -> None:
    me = os.getpid()
    while below := _descendants(me):
        for pid in below:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if not _alive(below):
            return


def _alive(pids: list[int]) -> bool:
    """Whether any of them is more than a zombie that waits for us."""
    return any(_state(pid) not in ("Z", "X", "") for pid in pids)


def _descendants(root: int) -> list[int]:
    parents = {pid: _parent(pid) for pid in _pids()}
    below = {root}
    grew = True
    while grew:
        found = {pid for pid, parent in parents.items() if parent in below} - below
        below |= found
        grew = bool(found)
    return sorted(below - {root})


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _parent(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def _state(pid: int) -> str:
    fields = _stat(pid)
    return fields[0] if fields else ""


def _reap(child: int) -> int:
    code = 1
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return code
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            code = 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main())
