"""Which folders inspan uses, after the XDG rules; nothing is created by looking them up."""

import errno
import os
import stat
import zlib
from collections.abc import Mapping
from contextlib import suppress

from inspan.errors import BadInput, StateUnusable
from inspan.system.paths import find_home

STATE_VARIABLE = "INSPAN_STATE"
"""Names the state folder itself; it goes before XDG_STATE_HOME."""

ROOTS_VARIABLE = "INSPAN_ROOTS"
"""Folders, between colons, below which alone a run with a sandbox works. A server sets it for what it starts."""

FREE_SPACE_HINT = "Check its owner and free space, or set XDG_STATE_HOME to another folder."
_RUNTIME_HINT = "Remove what lies there, or set XDG_RUNTIME_DIR to a folder of yours."
_DESCRIPTOR_HINTS = {
    errno.EMFILE: "Let this process have more open files (`ulimit -n`), or close some.",
    errno.ENFILE: "Let the system have more open files (`sysctl fs.file-max`), or close some.",
}
_SOCKET_PATH_BYTES = 107


def state_home(env: Mapping[str, str] = os.environ) -> str:
    """The folder of everything durable; raises `BadInput` where a variable of ours names one that depends on where it
    is read."""
    if given := env.get(STATE_VARIABLE, ""):
        if not os.path.isabs(given):
            raise BadInput(STATE_VARIABLE, given, "it is not a whole path.", next_step="Begin it with /.")
        return given
    return os.path.join(_read_absolute(env, "XDG_STATE_HOME") or _join_home(env, ".local/state"), "inspan")


def cache_home(env: Mapping[str, str] = os.environ) -> str:
    """The folder of what can be thrown away at any time."""
    return os.path.join(_read_absolute(env, "XDG_CACHE_HOME") or _join_home(env, ".cache"), "inspan")


def data_home(env: Mapping[str, str] = os.environ) -> str:
    """The folder of the agents that inspan installed."""
    return os.path.join(_read_absolute(env, "XDG_DATA_HOME") or _join_home(env, ".local/share"), "inspan")


def runtime_home(env: Mapping[str, str] = os.environ) -> str:
    """A short folder for sockets, private to the user."""
    given = env.get("XDG_RUNTIME_DIR", "")
    longest = _SOCKET_PATH_BYTES - len("/inspan/00000000-20260101-000000000-0000000.sock")
    if given and len(given.encode()) <= longest and os.path.isdir(given):
        return os.path.join(given, "inspan")
    return f"/tmp/inspan-{os.getuid()}"


def socket_path(run_folder: str, run_id: str) -> str:
    """The control socket of a run; two state folders never share one."""
    return os.path.join(runtime_home(), f"{zlib.crc32(run_folder.encode()):08x}-{run_id}.sock")


def make_private_folder(path: str) -> str:
    """Makes the folder, readable by its owner alone, or raises `StateUnusable` with the next step."""
    try:
        found = _make_folder(path)
    except OSError as error:
        raise state_error(path, error) from error
    if not _is_own(found):
        whose = f": it belongs to {_format_owner(found)}" if found.st_uid != os.getuid() else ""
        variable = "XDG_RUNTIME_DIR" if path == runtime_home() else "XDG_STATE_HOME"
        raise StateUnusable(
            f"The folder {path} is not a folder of yours{whose}.",
            next_step=f"Have it removed, or set {variable} to a folder of yours.",
        )
    return path


def is_private(path: str) -> bool:
    """Whether there is such a folder and it is ours; what lies in another's folder is not to be trusted."""
    try:
        return _is_own(os.lstat(path))
    except OSError:
        return False


def _is_own(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _format_owner(found: os.stat_result) -> str:
    import pwd  # Start-up time: only a refusal needs it.

    try:
        return f"{pwd.getpwuid(found.st_uid).pw_name} (uid {found.st_uid})"
    except KeyError:
        return f"uid {found.st_uid}"


def _make_folder(path: str) -> os.stat_result:
    with suppress(FileNotFoundError):
        found = os.lstat(path)
        if stat.S_ISDIR(found.st_mode):
            return found
    os.makedirs(path, mode=0o700, exist_ok=True)
    return os.lstat(path)


def open_nonblocking(path: str, flags: int) -> int:
    """An opener for what should be a file: a pipe in its place would keep its reader waiting for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def state_error(path: str, error: OSError) -> StateUnusable:
    """The sentence for a file of the state folder that the system refuses."""
    hint = _RUNTIME_HINT if path == runtime_home() else FREE_SPACE_HINT
    return StateUnusable(
        f"Cannot use {path}: {error.strerror or error}.", next_step=_DESCRIPTOR_HINTS.get(error.errno or 0, hint)
    )


def _read_absolute(env: Mapping[str, str], name: str) -> str:
    """The XDG rules say to ignore a relative path: it would be another folder for each working folder."""
    path = env.get(name, "")
    return path if os.path.isabs(path) else ""


def _join_home(env: Mapping[str, str], path: str) -> str:
    return os.path.join(find_home(env), path)
