"""Processes of inspan that count what they do together, and are killed when one of them comes to a point.

A point is the birth of such a process and each record that comes into a log; where asked for also each step that files
and processes are changed by, as the interpreter's audit hook tells it, before it is taken. Points are counted over all
processes, as long as there is somebody to kill. Run as a script, this stands before the first lines of a supervisor
or of a loop's process: it takes the place of the interpreter that they are started with.
"""

import fcntl
import os
import runpy
import shutil
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT, AT, VICTIM, STAGE = "KILL_ROOT", "KILL_AT", "KILL_VICTIM", "KILL_STAGE"
EVERYBODY = "everybody"
_BOOTS = {"/running/boot.py": "supervisor", "/loop/boot.py": "owner"}
_STEPS = frozenset(
    {
        *("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.symlink", "os.truncate", "shutil.rmtree"),
        *("os.posix_spawn", "subprocess.Popen"),
    }
)
_WRITES = os.O_WRONLY | os.O_RDWR
_write = os.write
_busy = False


def write_interpreter(root: Path, python: str) -> str:
    """What stands for the interpreter: everything but the two boot scripts it runs as it is."""
    path = root / "python"
    boots = "|".join(f"*{name}" for name in _BOOTS)
    path.write_text(f'#!/bin/sh\ncase "$3" in {boots}) exec {python} -I -S {__file__} "$3" "$4";; esac\n')
    with path.open("a") as file:
        file.write(f'exec {python} "$@"\n')
    path.chmod(0o755)
    return str(path)


def watch(role: str) -> None:
    """Makes this process one of those that are counted and killed."""
    root = os.environ[ROOT]
    sys.executable = os.path.join(root, "python")
    Path(root, "pids", f"{role}-{os.getpid()}").write_text(_read_birth(os.getpid()))
    os.write = _write_counted
    if os.environ.get("KILL_FINE"):
        sys.addaudithook(_hear)
    _pass_point(f"birth of {role}")


def list_living(root: Path, victim: str) -> list[int]:
    """The processes of a role that live."""
    named = [(path, *path.name.split("-")) for path in (root / "pids").iterdir()]
    meant = [(path, int(pid)) for path, role, pid in named if victim in (EVERYBODY, role)]
    return [pid for path, pid in meant if path.read_text() == _read_birth(pid)]


def kill_all(root: Path, pids: list[int], said: str, stage: str) -> None:
    """Kills them at once, and keeps what their logs say before that."""
    kept = root / f"kept-{stage}"
    kept.mkdir()
    for log in root.glob("state/inspan/projects/*/*/runs/*/events.jsonl"):
        shutil.copy(log, kept / log.parent.name)
    (root / f"killed-{stage}.draft").write_text(f"{said}\n{' '.join(map(str, pids))}\n")
    os.rename(root / f"killed-{stage}.draft", root / f"killed-{stage}")
    for pid in sorted(pids, key=os.getpid().__eq__):  # Itself comes last.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _read_birth(pid: int) -> str:
    """When a process was started, which tells it from a later one of that number; nothing for a dead one."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        threads = len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return ""
    # Its files and locks are let go of only with the last of its threads.
    return "" if words[0] in "ZX" and threads <= 1 else words[19]


def _write_counted(fd: int, data: "bytes | memoryview", /) -> int:
    """Records of a log are written one at a time."""
    end = bytes(data).find(b"\n") + 1
    if not end or not os.readlink(f"/proc/self/fd/{fd}").endswith("/events.jsonl"):
        return _write(fd, data)
    written = _write(fd, data[:end])
    _pass_point("record " + bytes(data[:70]).decode(errors="replace"))
    return written


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    writes = event == "open" and isinstance(arguments[2], int) and bool(arguments[2] & _WRITES)
    if (writes or event in _STEPS) and not _busy:
        _pass_point(f"{event} {arguments[0]!r}")


def _pass_point(said: str) -> None:
    root, victim, stage = Path(os.environ[ROOT]), os.environ[VICTIM], os.environ[STAGE]
    with _counting(root / f"points-{stage}") as count:
        pids = list_living(root, victim)
        if not pids:
            return
        _write(count, b".")
        if os.fstat(count).st_size == int(os.environ[AT]):
            kill_all(root, pids, said, stage)


@contextmanager
def _counting(path: Path) -> Generator[int]:
    """Nobody else passes a point meanwhile; what is done here is none."""
    global _busy
    _busy = True
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)
        _busy = False


def main() -> None:
    if sys.argv[1] == "command":
        sys.exit(_run_command(sys.argv[2:]))
    boot = sys.argv[1]
    sys.argv[:] = [boot, *sys.argv[2:]]
    watch(next(role for name, role in _BOOTS.items() if boot.endswith(name)))
    runpy.run_path(boot, run_name="__main__")


def _run_command(words: list[str]) -> int:
    """A command of inspan, which is watched where it is said when it is to be killed."""
    from inspan.cli.main import run  # The boot scripts find their modules by themselves.

    if os.environ.get(AT):
        watch("owner")
    return run(words)


if __name__ == "__main__":
    main()
