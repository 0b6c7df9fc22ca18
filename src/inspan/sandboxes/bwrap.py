"""The bubblewrap box: a read-only machine, a private /tmp, and only the working and config folders writable."""

import os

from inspan.containment.programs import find_bwrap
from inspan.contracts.sandbox import Box, Sandbox

_BOXED_ID = "1000"


def _wrap(argv: tuple[str, ...], box: Box) -> tuple[str, ...]:
    # As root without its own user namespace and with capabilities, a remount leads straight out of the box.
    user = _BOXED_ID if box.root else str(os.getuid())
    group = _BOXED_ID if box.root else str(os.getgid())
    held = [
        "--unshare-user",
        "--uid",
        user,
        "--gid",
        group,
        "--cap-drop",
        "ALL",
        "--unshare-pid",
        "--die-with-parent",
    ]
    machine = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    return (find_bwrap(), *held, *machine, *_mounts(box), "--chdir", box.cwd, "--", *argv)


def _mounts(box: Box) -> list[str]:
    """Outer folders first: a working folder that holds the state folder must not uncover what is hidden in it."""
    mounts = [
        *(("--ro-bind", path, path) for path in box.readable),
        ("--ro-bind" if box.read_only else "--bind", box.cwd, box.cwd),
        *(("--bind", path, path) for path in box.writable),
        *(("--tmpfs", path) for path in box.hidden if os.path.isdir(path)),
    ]
    mounts.sort(key=lambda mount: os.path.realpath(mount[1]).rstrip("/").count("/"))
    return [word for mount in mounts for word in mount]


SANDBOX = Sandbox(name="bwrap", boundary=True, wrap=_wrap)
