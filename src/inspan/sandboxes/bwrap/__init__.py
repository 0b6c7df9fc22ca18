"""The bubblewrap box: a read-only machine, or what the work needs of it; a private /tmp; a network of its own."""

import os

from inspan.containment.programs import find_bwrap
from inspan.contracts.sandbox import Box, Isolation, Sandbox
from inspan.system.entry import FILTER_FD, OPEN, supports_scopes
from inspan.system.paths import is_within

from .git_guard import pin_files, protect_git
from .syscall_filter import build_filter
from .view import Mount, cover, hide_credentials, hide_sockets, show_machine, show_system

_BOXED_ID = "1000"
_NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")


def _wrap(argv: tuple[str, ...], box: Box) -> tuple[str, ...]:
    # As root without its own user namespace and with capabilities, a remount leads straight out of the box.
    user = _BOXED_ID if box.root else str(os.getuid())
    group = _BOXED_ID if box.root else str(os.getgid())
    held = [*_NAMESPACES, "--uid", user, "--gid", group, "--cap-drop", "ALL", "--die-with-parent"]
    held += [] if box.nesting else ["--disable-userns"]
    held += ["--seccomp", str(FILTER_FD)] if build_filter(nesting=box.nesting) else []
    machine = show_system(box) if box.private else show_machine()
    held += [word for name, value in _list_variables(box).items() for word in ("--setenv", name, value)]
    return (find_bwrap(), *held, *_flatten(machine), *_mount_folders(box), "--chdir", box.cwd, "--", *argv)


def _list_variables(box: Box) -> dict[str, str]:
    """From a part of a repository git looks for the whole by going up, and stops where another file system begins."""
    is_part = any(box.cwd != git.top for git in box.repositories)
    return {**({"GIT_DISCOVERY_ACROSS_FILESYSTEM": "1"} if is_part else {}), **box.env}


def _mount_folders(box: Box) -> list[str]:
    """Outer folders first: a working folder that holds the state folder must not uncover what is hidden in it."""
    mounts: list[Mount] = [
        *(("--ro-bind", path, path) for path in box.readable),
        ("--ro-bind" if box.read_only else "--bind", box.cwd, box.cwd),
        *(("--bind", path, path) for path in box.writable),
        *(mount for git in box.repositories for mount in protect_git(git, box)),
        *pin_files(box),
        *(cover(path) for path in box.hidden if os.path.isdir(path)),
        *hide_credentials(box),
        *hide_sockets(box),
    ]
    mounts.sort(key=lambda mount: os.path.realpath(mount[-1]).rstrip("/").count("/"))
    mounts = [_hold_source(mount, box) for mount in mounts]
    return [*_flatten(mounts), *(("--remount-ro", "/") if box.private else ())]


def _hold_source(mount: Mount, box: Box) -> Mount:
    """The same by a descriptor, where somebody who works in the same folders could put a link in the way meanwhile."""
    if mount[0] not in ("--bind", "--ro-bind"):
        return mount
    option, source, place = mount
    around = [each for each in (box.cwd, *box.writable, *box.readable) if is_within(source, each)]
    if not (folder := max(around, key=len, default="")):
        return mount
    # Of what lies in a folder, all names were looked at: none of them was a link.
    path = os.path.join(box.real.get(folder) or os.path.realpath(folder), os.path.relpath(source, folder))
    return (f"{option}-fd", f"{OPEN}{os.path.normpath(path)}", place)


def _flatten(mounts: "list[Mount]") -> list[str]:
    return [word for mount in mounts for word in mount]


def _isolate(box: Box) -> Isolation:
    return Isolation(
        network=not box.network.is_open,
        filter=build_filter(nesting=box.nesting),
        scoped=box.private and box.network.is_open and supports_scopes(),  # Others see the sockets with a path, too.
    )


SANDBOX = Sandbox(name="bwrap", boundary=True, wrap=_wrap, isolate=_isolate)
