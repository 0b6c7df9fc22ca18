"""The bubblewrap box: a read-only machine, a private /tmp, and only the working and config folders writable."""

import os

from inspan.contracts.sandbox import Box, Sandbox

from .programs import bwrap

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
    hidden = [word for path in box.hidden if os.path.isdir(path) for word in ("--tmpfs", path)]
    readable = [word for path in box.readable for word in ("--ro-bind", path, path)]
    writable = [word for path in (box.cwd, *box.writable) for word in ("--bind", path, path)]
    return (bwrap(), *held, *machine, *hidden, *readable, *writable, "--chdir", box.cwd, "--", *argv)


def _missing() -> str:
    return "" if bwrap() else "bubblewrap is not installed"


SANDBOX = Sandbox(name="bwrap", boundary=True, wrap=_wrap, missing=_missing)
