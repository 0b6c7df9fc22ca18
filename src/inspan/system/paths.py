"""How two paths lie to each other, by their names alone: links are the caller's to follow. And where home is."""

import os
from collections.abc import Mapping


def find_home(env: Mapping[str, str]) -> str:
    """The user's home. As the XDG rules have it for their variables, one that is empty or relative is ignored: it would
    be another folder for each working folder. Then it is the account's own, and `/` for a
    user who has no account either, as a container may run one."""
    home = env.get("HOME", "")
    if os.path.isabs(home):
        return home
    import pwd  # Start-up time: nearly everybody has HOME.

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return os.sep


def expand_home(path: str, env: Mapping[str, str]) -> str:
    """The path with a leading `~` as the home of this environment."""
    if path == "~" or path.startswith("~/"):
        return find_home(env).rstrip(os.sep) + path[1:]
    return os.path.expanduser(path)


def is_within(path: str, folder: str) -> bool:
    """Whether a path is that of a folder, or of something in it."""
    return f"{path}{os.sep}".startswith(f"{folder.rstrip(os.sep)}{os.sep}")


def is_below(path: str, folder: str) -> bool:
    """Whether a path is that of something in a folder."""
    return is_within(path, folder) and path.rstrip(os.sep) != folder.rstrip(os.sep)
