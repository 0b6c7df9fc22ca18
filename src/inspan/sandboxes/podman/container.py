"""A command line that runs in a container: what podman and docker have in common, and where they differ.

A container of podman's is a child of ours, whatever podman does to detach it: it dies with us, and joins our control
groups and our network. One of docker's is a child of its daemon: docker is told the limits, and to remove it by name.
"""

import os
import resource
import subprocess
from functools import partial

import msgspec

from inspan.containment.containment import METHODS
from inspan.containment.programs import find_bwrap, find_program
from inspan.contracts.sandbox import Box, Isolation, Sandbox
from inspan.errors import BadInput, SandboxUnusable
from inspan.sandboxes.bwrap.git_guard import pin_files, protect_git
from inspan.system.loader import is_loader_variable

_CHECK_S = 20.0
_REAPER = METHODS[-1]
# Each of these programs reads its own settings and finds its images by them.
_HOST_VARIABLES = (
    "CONTAINERS_CONF",
    "CONTAINERS_REGISTRIES_CONF",
    "CONTAINERS_STORAGE_CONF",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "HOME",
    "PATH",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
)
# crun 1.8 refuses machines with control groups of both versions, also where it is told to make none: they are hidden.
_GROUPS = "/sys/fs/cgroup"
_HELD = ("--unshare-pid", "--die-with-parent", "--dev-bind", "/", "/", "--proc", "/proc", "--tmpfs", _GROUPS)


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """A program that runs containers; by itself, or through a `daemon`."""

    program: str
    daemon: bool = False


def build_sandbox(engine: Engine) -> Sandbox:
    """The sandbox that this program makes."""
    return Sandbox(
        name=engine.program,
        boundary=True,
        wrap=partial(_wrap, engine),
        isolate=partial(_isolate, engine),
        check=partial(_check, engine),
        container=True,
        host_variables=_HOST_VARIABLES,
        forget=partial(_forget, engine),
    )


def _wrap(engine: Engine, argv: tuple[str, ...], box: Box) -> tuple[str, ...]:
    words = (
        *(find_program(engine.program), "run", "--rm", "--interactive", "--pull", "never", "--name", box.name),
        *("--cap-drop", "all", "--security-opt", "no-new-privileges", "--read-only", "--tmpfs", "/tmp:rw,mode=1777"),
        *("--network", _choose_network(engine, box), "--workdir", box.cwd, "--entrypoint", argv[0]),
        *_list_own(engine, box),
        *_list_volumes(box),
        *_list_variables(box),
        box.image,
        *argv[1:],
    )
    if engine.daemon:
        return words
    # A user namespace of bubblewrap's would leave an ordinary user's podman without the other users that it needs.
    return (find_bwrap(), *_HELD, "--", *words) if box.root else _REAPER.wrap(words, box)


def _list_own(engine: Engine, box: Box) -> list[str]:
    if engine.daemon:
        return ["--user", f"{os.getuid()}:{os.getgid()}", "--log-driver", "none"]
    ours = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    # By itself it asks for more than we may have.
    limits = [f"--ulimit={name}={_lowest(limit)}:{_lowest(limit)}" for name, limit in ours.items()]
    owner = [] if box.root else ["--userns", "keep-id"]
    return ["--cgroups", "disabled", "--no-hosts", "--log-driver", "none", *limits, *owner]


def _lowest(limit: int) -> int:
    """The lower one of the two that hold for us: a container cannot be given more."""
    return min(resource.getrlimit(limit))


def _choose_network(engine: Engine, box: Box) -> str:
    """The host's is, behind our entry, the one that was made for the box."""
    return "host" if box.network.is_open or _joins_ours(engine, box) else "none"


def _joins_ours(engine: Engine, box: Box) -> bool:
    return box.root and not engine.daemon


def _isolate(engine: Engine, box: Box) -> Isolation | None:
    return Isolation(network=not box.network.is_open) if _joins_ours(engine, box) else None


def _list_volumes(box: Box) -> list[str]:
    """The working folder and what may be read, by the paths that they have outside; git's own as in any box."""
    mounts = [(path, "ro") for path in box.readable]
    mounts += [(box.cwd, "ro" if box.read_only else "rw"), *((path, "rw") for path in box.writable)]
    guarded = [mount for git in box.repositories for mount in protect_git(git, box)]
    mounts += [(mount[-1], "ro" if mount[0] == "--ro-bind" else "rw") for mount in (*guarded, *pin_files(box))]
    inside = [path for path in box.hidden if os.path.isdir(path) and _is_shown(path, mounts)]
    words = [word for path, mode in dict(mounts).items() for word in ("--volume", f"{path}:{path}:{mode}")]
    return [*words, *(word for path in inside for word in ("--tmpfs", path))]


def _is_shown(path: str, mounts: list[tuple[str, str]]) -> bool:
    return any(f"{os.path.realpath(path)}/".startswith(f"{shown.rstrip('/')}/") for shown, _ in mounts)


def _list_variables(box: Box) -> list[str]:
    """By name alone: nobody reads a value in a list of processes. What the program itself obeys is named with it."""
    return [f"--env={name}={value}" if _is_obeyed(name) else f"--env={name}" for name, value in box.env.items()]


def _is_obeyed(name: str) -> bool:
    return name in _HOST_VARIABLES or is_loader_variable(name)


def _forget(engine: Engine, box: Box) -> tuple[str, ...]:
    words = (find_program(engine.program), "rm", "--force", box.name)
    if engine.daemon:
        return words
    return (find_bwrap(), *_HELD, "--", *words, "--ignore") if box.root else (*words, "--ignore")


def _check(engine: Engine, box: Box) -> None:
    program = find_program(engine.program)
    if not program:
        step = f"Install {engine.program}, or use bwrap."
        raise SandboxUnusable(f"The sandbox {engine.program} needs {engine.program}.", next_step=step)
    if box.root and not engine.daemon and not find_bwrap():
        step = "Install the package bubblewrap."
        raise SandboxUnusable("The sandbox podman needs bubblewrap to end with us.", next_step=step)
    if box.network.reach not in ("none", "open") and not _joins_ours(engine, box):
        who = "docker's daemon" if engine.daemon else "an ordinary user's podman"
        step = "Use none or open, or the sandbox bwrap."
        raise BadInput("net", str(box.network), f"{who} cannot start containers in a network of ours.", next_step=step)
    for path in (box.cwd, *box.readable):
        if ":" in path:
            step = "Use a path without one."
            raise BadInput("cwd", path, f"{engine.program} takes no path with a colon.", next_step=step)
    _check_image(program, box.image)


def _check_image(program: str, image: str) -> None:
    name = os.path.basename(program)
    if not image or image.startswith("-"):
        step = f"Name one of those that `{name} images` lists."
        raise BadInput("image", image, f"the sandbox {name} needs an image.", next_step=step)
    try:
        argv = (program, "image", "inspect", "--format", "ok", image)
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_CHECK_S, check=False)
        problem = done.stderr.decode(errors="replace").strip() if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if problem:
        message = f"The image {image} cannot be used: {problem.rstrip('.')}."
        raise SandboxUnusable(message, next_step=f"Get it with `{name} pull {image}`: a run does not.")
