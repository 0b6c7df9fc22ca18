"""A parent that lets nothing outlive it, run as a script: `reaper.py CWD ARGV…` with its life line on descriptor 3.

It adopts every orphan below it. When the agent ends, or the supervisor's end of the life line closes, it kills all of
its descendants and leaves with the agent's exit code. `reaper.py --then N WORD… CWD ARGV…` has a command of N words
that is run afterwards, unless the agent ended by itself: to remove what a killed one could not.
"""

import os
import select
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from inspan.system.platform import list_children, open_exit_fd, open_pipe

_LIVENESS_FD = 3
_SUBREAPER = 36
_FIRST_SIGNAL_CODE = 128
_MARKS = ("JRUN_ID", "JCOMMAND_ID")


def main() -> int:
    _adopt_orphans()
    os.set_inheritable(_LIVENESS_FD, False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    then, (cwd, *argv) = _split(sys.argv[1:])
    os.chdir(cwd)
    defaults = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)
    try:
        child = os.posix_spawnp(argv[0], argv, os.environ, setsigdef=defaults)
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr)
        return 127 if isinstance(error, FileNotFoundError) else 126
    cut_off = _wait_for(child)
    code = _end_all(child)
    if then and (cut_off or code >= _FIRST_SIGNAL_CODE):
        _run_quietly(then)
    return code


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """The command for afterwards, if there is one, and the rest."""
    if words[0] != "--then":
        return [], words
    end = 2 + int(words[1])
    return words[2:end], words[end:]


def _run_quietly(argv: list[str]) -> None:
    """Without the run's marks: whoever looks for what is left of the run must not end it."""
    env = {name: value for name, value in os.environ.items() if name not in _MARKS}
    nowhere = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
    try:
        os.waitpid(os.posix_spawnp(argv[0], argv, env, file_actions=nowhere), 0)
    except (OSError, ChildProcessError):
        pass


def _adopt_orphans() -> None:
    import ctypes  # Start-up time: an agent waits for it.

    if ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0):
        raise SystemExit("reaper: the system does not let it adopt orphans")


def _wait_for(child: int) -> bool:
    """Waits until the agent has ended or the supervisor is gone, reaping orphans meanwhile; True for the latter."""
    woken, wake = open_pipe()
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _on_child_signal)
    agent = open_exit_fd(child)
    poll = select.poll()
    for fd in (_LIVENESS_FD, agent, woken):
        poll.register(fd, select.POLLIN)
    _reap_orphans(child)
    while not (ready := {fd for fd, _ in poll.poll()} - {woken}):
        os.read(woken, 4096)
        _reap_orphans(child)
    return _LIVENESS_FD in ready


def _on_child_signal(number: int, frame: object) -> None:
    """Python tells of a signal on the wake-up pipe only where it has a handler."""


def _reap_orphans(child: int) -> None:
    """Lets go of whatever else has ended; the agent's own status stays for the end."""
    look = os.WEXITED | os.WNOHANG | os.WNOWAIT
    while (found := os.waitid(os.P_ALL, 0, look)) and found.si_pid != child:
        os.waitpid(found.si_pid, 0)


def _end_all(child: int) -> int:
    """Kills until nothing is left, and gives the agent's exit code.

    Whatever loses its parent becomes our child: killing children until there are none reaches everything below,
    also what forks while it is killed. What has become another user's is beyond us, and is not waited for.
    """
    code, ours = 1, True
    while ours:
        killed = [_kill(pid) for pid in list_children(os.getpid())]
        ours = not killed or any(killed)
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == child:
                    code = os.waitstatus_to_exitcode(ended[1])
        except ChildProcessError:
            break
    return 128 - code if code < 0 else code


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except PermissionError:
        return False
    except ProcessLookupError:
        pass
    return True


if __name__ == "__main__":
    sys.exit(main())
