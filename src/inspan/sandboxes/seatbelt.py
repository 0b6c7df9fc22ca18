"""The macOS sandbox: a profile for `sandbox-exec` that denies everything but what the box says. Never run so far.

Written from what is known of the profile language; macOS was not at hand. It has neither processes nor a network of its
own: containment ends what it starts, and of the host's loopback it reaches the gateway's port alone.
"""

import os
import sys
from collections.abc import Iterable, Iterator

from inspan.contracts.sandbox import Box, Sandbox
from inspan.errors import BadInput, SandboxUnusable

_PROGRAM = "/usr/bin/sandbox-exec"
_PLATFORM = "darwin"
_SYSTEM = (
    "/System",
    "/usr",
    "/bin",
    "/sbin",
    "/opt",
    "/Library",
    "/Applications",
    "/etc",
    "/private/etc",
    "/private/var/db/timezone",
    "/private/var/select",
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/dtracehelper")
_TEMPORARY = ("/private/tmp", "/private/var/tmp")
_ALWAYS = (
    "(version 1)",
    "(deny default)",
    "(allow process-exec)",
    "(allow process-fork)",
    "(allow signal (target same-sandbox))",
    "(allow sysctl-read)",
    "(allow file-read-metadata)",
    '(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))',
)
# What git runs later, outside of the box, and what it takes from elsewhere.
_GIT_FILES = (
    "config",
    "config.worktree",
    "commondir",
    "hooks",
    "modules",
    "worktrees",
    "remotes",
    "branches",
    "objects/info/alternates",
    "objects/info/http-alternates",
)


def build_profile(box: Box) -> str:
    """The profile of this box. Of two rules about a path, the later one counts: what is denied stands last."""
    writable = () if box.read_only else (box.cwd,)
    rules = [
        *_ALWAYS,
        *_write_rules("allow file-read*", (*_SYSTEM, *_DEVICES, *box.programs, *box.readable, box.cwd, *box.writable)),
        *_write_rules("allow file-read* file-write*", (*writable, *box.writable, *_TEMPORARY)),
        *_write_rules("allow file-write*", _DEVICES),
        *_write_rules("deny file-write*", _list_protected(box)),
        *_write_rules("deny file-read* file-write*", box.hidden),
        *_list_network_rules(box),
    ]
    return "\n".join(rules) + "\n"


def _write_rules(start: str, paths: Iterable[str]) -> Iterator[str]:
    for path in dict.fromkeys(each for given in paths for each in (given, os.path.realpath(given))):
        yield f"({start} (subpath {quote(path)}))"


def quote(path: str) -> str:
    """A path as the profile language has it; raises `BadInput` for one that it cannot have."""
    if "\0" in path or "\n" in path or "\r" in path:
        step = "Use a path without it."
        raise BadInput("cwd", path, "a profile takes no path with a line end or a NUL in it.", next_step=step)
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _list_protected(box: Box) -> Iterator[str]:
    for git in box.repositories:
        for folder in dict.fromkeys((git.common, git.git_dir)):
            yield from (os.path.join(folder, name) for name in _GIT_FILES)
        yield from (*git.files, *git.hooks)
    yield from box.pinned


def _list_network_rules(box: Box) -> Iterator[str]:
    if box.network.is_open:
        yield "(allow network*)"
        yield "(allow system-socket)"
    elif box.network.reach == "gateway":
        yield from (f'(allow network-outbound (remote ip "localhost:{port}"))' for port in box.ports)


def _wrap(argv: tuple[str, ...], box: Box) -> tuple[str, ...]:
    return (_PROGRAM, "-p", build_profile(box), "--", *argv)


def _check(box: Box) -> None:
    if sys.platform != _PLATFORM:
        step = "Use bwrap here."
        raise SandboxUnusable(f"The sandbox seatbelt is macOS's own; this is {sys.platform}.", next_step=step)
    if box.network.reach == "allow":
        step = "Use gateway or open for a run, none or open for commands."
        raise BadInput("net", str(box.network), "seatbelt gives a box no network of its own.", next_step=step)


SANDBOX = Sandbox(name="seatbelt", boundary=True, wrap=_wrap, check=_check, holds=False)
