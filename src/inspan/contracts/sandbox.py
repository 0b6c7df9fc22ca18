"""A sandbox turns an agent's command line into one that runs inside it, and is a place to run commands in."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from inspan.protocol.network import NetworkPolicy
from inspan.protocol.task import Task


class GitFolders(msgspec.Struct, frozen=True, kw_only=True):
    """A work tree's git data: `common` is `git_dir`, but for a linked worktree, and `top` without a work tree.

    Of what a box may write besides: `files` are those that decide what git runs (pointers to git data, settings,
    programs), `hooks` are folders of hooks. They need not be there.
    """

    top: str
    git_dir: str
    common: str
    files: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """What a sandbox must know: what may be written, what must not be seen, what must stay readable.

    `read_only` takes the working folder out of what may be written. A `private` box sees the operating system, its own
    folders and what is `readable`, and nothing else; `home` is then an empty folder. `programs` are the folders of
    programs that it may start; the git data of `repositories` is protected from what would run later, outside, and
    `pinned` are files and folders that stay as they are; of those that are not there, `made_files` and `made_folders`
    are made first, empty. With `nesting`, an agent can make a sandbox of its own inside.

    `git_data` is all that was found, whether it is protected or not.

    `real` says of the folders that are worked in where they were when they were looked at: what a link leads to since
    is not shown.

    `ports` are those of the host's loopback that it may reach where it has no network of its own.

    `env` are variables for what runs in it and not for the sandbox's own program, which starts outside. `listeners` are
    the ports on which it finds what is ours, in a network of its own.

    For sandboxes that run a container: the `image` that it is made of, and its `name`; `env` is then all that what runs
    in it gets.
    """

    cwd: str
    read_only: bool = False
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    root: bool = False
    private: bool = False
    home: str = ""
    programs: tuple[str, ...] = ()
    repositories: tuple[GitFolders, ...] = ()
    pinned: tuple[str, ...] = ()
    git_data: tuple[str, ...] = ()
    made_files: tuple[str, ...] = ()
    made_folders: tuple[str, ...] = ()
    real: dict[str, str] = {}
    network: NetworkPolicy = NetworkPolicy()
    nesting: bool = False
    ports: tuple[int, ...] = ()
    listeners: tuple[int, ...] = ()
    image: str = ""
    name: str = ""
    env: dict[str, str] = {}


class Isolation(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be set up on the way into a box: a network of its own, a filter for system calls, and no sockets of
    the host that have no path. The network is made `inside` where the box's own command line does it, further on.
    """

    network: bool = False
    inside: bool = False
    filter: bytes = b""
    scoped: bool = False


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """`wrap` gives the new argv; `boundary` says whether it holds against an agent that wants out; `isolate` tells
    what else it takes. One that `holds` ends whatever was started in it; another needs containment around it.
    `check` raises `SandboxUnusable` or `BadInput` where such a box cannot be had on this machine.

    One that runs a `container` takes what it runs from an image, and is held by a reaper, who also removes what is left
    of a box that was killed. Its program reads `host_variables` itself, so the process is started with the caller's;
    `depth` is how many children below the reaper the process is that passes signals on. Root is an ordinary user in it
    where it `maps_root`, and limits hold it where it `joins_groups`. `describe` tells what works here, tried without an
    image, and raises what `check` does.
    """

    name: str
    boundary: bool
    wrap: Callable[[tuple[str, ...], Box], tuple[str, ...]]
    isolate: Callable[[Box], Isolation | None] = lambda _: None
    check: Callable[[Box], None] = lambda _: None
    holds: bool = True
    container: bool = False
    host_variables: tuple[str, ...] = ()
    depth: Callable[[Box], int] = lambda _: 1
    maps_root: bool = True
    joins_groups: bool = True
    describe: Callable[[Box], str] = lambda _: ""


class ExecResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a command: `exit_code` as a shell gives it (127 where there is no such program, 128 and the signal),
    what it wrote, how long it took.

    Of a stream that is over the limit, the beginning and the end are kept with a line between them that says so;
    `dropped_bytes` is how much of both streams was left out. `refused_hosts` are those that the network of the sandbox
    did not let it reach, and `out_of_memory` says that something of it was killed at the sandbox's limit.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    duration_s: float
    timed_out: bool = False
    dropped_bytes: int = 0
    refused_hosts: tuple[str, ...] = ()
    out_of_memory: bool = False


class OpenSandbox(Protocol):
    """A sandbox that is open: whoever opened it tears it down. Every path counts from `work_dir`."""

    @property
    def name(self) -> str: ...

    @property
    def work_dir(self) -> str: ...

    def exec(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_s: float | None = 600.0,
    ) -> Awaitable[ExecResult]:
        """Runs a command to its end; nothing of it is left afterwards."""
        ...

    def upload(self, files: Mapping[str, bytes | str]) -> Awaitable[None]:
        """Writes files, with the folders they lie in."""
        ...

    def snapshot(self) -> Awaitable[str]:
        """Keeps the files as they are now; gives a name for `restore`."""
        ...

    def restore(self, snapshot: str) -> Awaitable[None]:
        """Puts the files back as they were."""
        ...

    def teardown(self) -> Awaitable[None]:
        """Lets go of what it holds; idempotent."""
        ...


class RunSandbox(OpenSandbox, Protocol):
    """An open sandbox in which agents can be started, too."""

    def confine(self, task: Task) -> Task:
        """The task for a run that works in it; raises `BadInput` for one that cannot."""
        ...
