"""Which folders inspan uses, after the XDG rules; nothing is created by looking them up."""

import os
import stat
import zlib
from collections.abc import Mapping
from contextlib import suppress

from inspan.errors import StateUnusable

_SOCKET_PATH_BYTES = 107


def state_home(env: Mapping[str, str] = os.environ) -> str:
    """The folder of everything durable."""
    return os.path.join(_absolute(env, "XDG_STATE_HOME") or _below_home(env, ".local/state"), "inspan")


def cache_home(env: Mapping[str, str] = os.environ) -> str:
    """The folder of what can be thrown away at any time."""
    return os.path.join(_absolute(env, "XDG_CACHE_HOME") or _below_home(env, ".cache"), "inspan")


def data_home(env: Mapping[str, str] = os.environ) -> str:
    """The folder of the agents that inspan installed."""
    return os.path.join(_absolute(env, "XDG_DATA_HOME") or _below_home(env, ".local/share"), "inspan")


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


def private_folder(path: str) -> str:
    """Makes the folder, readable by its owner alone, or raises `StateUnusable` with the next step."""
    try:
        found = _made(path)
    except OSError as error:
        raise unusable(path, error) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise StateUnusable(
            f"The folder {path} is not a folder of yours.",
            next_step="Remove it, or point XDG_RUNTIME_DIR elsewhere.",
        )
    return path


def _made(path: str) -> os.stat_result:
    with suppress(FileNotFoundError):
        found = os.lstat(path)
        if stat.S_ISDIR(found.st_mode):
            return found
    os.makedirs(path, mode=0o700, exist_ok=True)
    return os.lstat(path)


def unusable(path: str, error: OSError) -> StateUnusable:
    """The sentence for a file of the state folder that the system refuses."""
    return StateUnusable(
        f"Cannot use {path}: {error.strerror or error}.",
        next_step="Check its owner and free space, or set XDG_STATE_HOME to another folder.",
    )


def _absolute(env: Mapping[str, str], name: str) -> str:
    """The XDG rules say to ignore a relative path: it would be another folder for each working folder."""
    path = env.get(name, "")
    return path if os.path.isabs(path) else ""


def _below_home(env: Mapping[str, str], path: str) -> str:
    return os.path.join(env.get("HOME") or os.path.expanduser("~"), path)
