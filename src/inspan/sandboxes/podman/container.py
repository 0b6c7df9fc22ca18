"""A command line that runs in a container: what podman and docker have in common, and where they differ.

A reaper holds either: it ends with us, and then removes what is left of the container. One of podman's is a child of
ours, whatever podman does to detach it: it joins our control groups and our network, the processes are known by the
ids that podman tells, and no daemon is needed. One of docker's is a child of its daemon.
"""

import os
import resource
import subprocess
import sys
from functools import partial

import msgspec

from inspan.containment.containment import hold
from inspan.containment.programs import find_bwrap
from inspan.contracts.sandbox import Box, Isolation, Sandbox
from inspan.errors import BadInput, SandboxUnusable
from inspan.sandboxes.bwrap.git_guard import pin_files, protect_git
from inspan.system import entry
from inspan.system.loader import is_loader_variable
from inspan.system.programs import find_helper

from .trial import end_sentence, start_trial

_CHECK_S = 20.0
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
_BOTH_VERSIONS = f"{_GROUPS}/unified/cgroup.controllers"
_HIDE_GROUPS = ("--die-with-parent", "--dev-bind", "/", "/", "--tmpfs", _GROUPS, "--")
# As in the box of bubblewrap: root is an ordinary user inside. What else an image has belongs to others.
_BOXED_ID = 1000
_ROOTS_MAP = (f"0:1:{_BOXED_ID}", f"{_BOXED_ID}:0:1", f"{_BOXED_ID + 1}:{_BOXED_ID + 1}:{65535 - _BOXED_ID}")
_RUNTIMES = ("crun", "krun", "crun-vm")
_MOST_PIDS = "/proc/sys/kernel/pid_max"
_ASKED = "{{.Host.OCIRuntime.Name}} {{len .Host.IDMappings.UIDMap}}"
_NEEDS = (
    "See what `podman info` says. An ordinary user needs the package uidmap, and a row in /etc/subuid and in "
    "/etc/subgid; bwrap needs neither."
)
_TMPFS = "rw,mode=1777"


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
        depth=partial(_count_depth, engine),
        maps_root=not engine.daemon,
        joins_groups=not engine.daemon,
        describe=partial(_describe, engine),
    )


def _wrap(engine: Engine, argv: tuple[str, ...], box: Box) -> tuple[str, ...]:
    program = find_helper(engine.program)
    words = (
        *(program, "run", "--rm", "--interactive", "--pull", "never", "--name", box.name),
        *("--cap-drop", "all", "--security-opt", "no-new-privileges", "--read-only", "--tmpfs", f"/tmp:{_TMPFS}"),
        *("--network", _choose_network(box), "--workdir", box.cwd, "--entrypoint", argv[0], "--ulimit=core=0:0"),
        *_list_own(engine, box),
        *_list_volumes(box),
        *_list_variables(box),
        box.image,
        *argv[1:],
    )
    if engine.daemon:
        return hold(words, cwd=box.cwd, then=(program, "rm", "--force", box.name))
    forget = (program, "rm", "--force", "--ignore", box.name)
    started = _precede((*_enter_network(box), *_hide_groups()), words, box)
    return hold(started, cwd=box.cwd, then=_precede(_hide_groups(), forget, box))


def _precede(before: tuple[str, ...], words: tuple[str, ...], box: Box) -> tuple[str, ...]:
    """What stands before podman's own command needs powers that an ordinary user has among podman's users alone."""
    if not before or box.root:
        return (*before, *words)
    return (words[0], "unshare", *before, *words)


def _enter_network(box: Box) -> tuple[str, ...]:
    """A user namespace of our own would leave an ordinary user's podman without the other users that it needs; so the
    network is made where it has them.
    """
    if box.root or not _joins_ours(box):
        return ()
    setup: entry.Setup = {
        "groups": [],
        "isolated": True,
        "ports": list(box.listeners),
        "filter": b"",
        "scoped": False,
    }
    return (sys.executable, "-I", "-S", entry.__file__, entry.pack(setup))


def _hide_groups() -> tuple[str, ...]:
    return (find_bwrap(), *_HIDE_GROUPS) if os.path.exists(_BOTH_VERSIONS) else ()


def _count_depth(engine: Engine, box: Box) -> int:
    """Podman passes a signal on to the container, but not to what `podman unshare` has started."""
    if engine.daemon:
        return 1
    hidden = bool(_hide_groups())
    return 1 + hidden + 2 * (not box.root and (hidden or _joins_ours(box)))


def _list_own(engine: Engine, box: Box) -> list[str]:
    if engine.daemon:
        return ["--user", f"{os.getuid()}:{os.getgid()}", "--log-driver", "none"]
    # By itself it asks for more than we may have; its own limit of processes it lowers to the machine's.
    ours = {"nofile": _lowest(resource.RLIMIT_NOFILE), "nproc": _lowest(resource.RLIMIT_NPROC, _read_most_pids())}
    limits = [f"--ulimit={name}={limit}:{limit}" for name, limit in ours.items()]
    # Our own pipes go in: what conmon would copy through its socket is lost, now and then and in silence, where the
    # program ends first (podman 4.3, conmon 2.1.6: 2 of 600 short commands on a busy machine, with exit code 0).
    return ["--cgroups", "disabled", "--no-hosts", "--log-driver", "passthrough", *limits, *_list_owner(box)]


def _list_owner(box: Box) -> list[str]:
    """Whoever starts it owns what is written; inside it is an ordinary user in any case."""
    if not box.root:
        return ["--userns", "keep-id"]
    maps = [f"--{kind}={each}" for kind in ("uidmap", "gidmap") for each in _ROOTS_MAP]
    return [*maps, "--user", f"{_BOXED_ID}:{_BOXED_ID}"]


def _lowest(limit: int, *others: int) -> int:
    """The lowest one of those that hold for us: a container cannot be given more."""
    known = [each for each in (*resource.getrlimit(limit), *others) if each != resource.RLIM_INFINITY]
    return min(known, default=resource.RLIM_INFINITY)


def _read_most_pids() -> int:
    try:
        with open(_MOST_PIDS, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return resource.RLIM_INFINITY


def _choose_network(box: Box) -> str:
    """The host's is, behind our entry, the one that was made for the box."""
    return "host" if box.network.is_open or _joins_ours(box) else "none"


def _joins_ours(box: Box) -> bool:
    """Whether something of ours is to be reached from a network that has nothing else."""
    return box.network.reach in ("gateway", "allow")


def _isolate(engine: Engine, box: Box) -> Isolation | None:
    if engine.daemon or not _joins_ours(box):
        return None
    return Isolation(network=True, inside=not box.root)


def _list_volumes(box: Box) -> list[str]:
    """The working folder and what may be read, by the paths that they have outside; git's own as in any box."""
    mounts = [(path, "ro") for path in (*box.programs, *box.readable)]
    mounts += [(box.cwd, "ro" if box.read_only else "rw"), *((path, "rw") for path in box.writable)]
    guarded = [mount for git in box.repositories for mount in protect_git(git, box)]
    mounts += [(mount[-1], "ro" if mount[0] == "--ro-bind" else "rw") for mount in (*guarded, *pin_files(box))]
    inside = [path for path in box.hidden if os.path.isdir(path) and _is_shown(path, mounts)]
    words = [word for path, mode in dict(mounts).items() for word in ("--volume", f"{path}:{path}:{mode}")]
    if box.env.get("HOME") == box.home and box.home and not _is_shown(box.home, mounts):
        words += ["--tmpfs", f"{box.home}:{_TMPFS}"]
    return [*words, *(word for path in inside for word in ("--tmpfs", path))]


def _is_shown(path: str, mounts: list[tuple[str, str]]) -> bool:
    return any(f"{os.path.realpath(path)}/".startswith(f"{shown.rstrip('/')}/") for shown, _ in mounts)


def _list_variables(box: Box) -> list[str]:
    """By name alone: nobody reads a value in a list of processes. What the program itself obeys is named with it."""
    return [f"--env={name}={value}" if _is_obeyed(name) else f"--env={name}" for name, value in box.env.items()]


def _is_obeyed(name: str) -> bool:
    return name in _HOST_VARIABLES or is_loader_variable(name)


def _describe(engine: Engine, box: Box) -> str:
    program = _find_engine(engine)
    if engine.daemon:
        told, problem = _ask(program, "info", "--format", "{{.ServerVersion}}")
        if problem:
            step = "Start docker's daemon, or use podman, which needs none, or bwrap."
            raise SandboxUnusable(f"{program} does not answer: {problem}", next_step=step)
        return f"{program}, daemon {told}; with --image and --net open"
    _check_podman(program, root=box.root)
    words = (program, "run", "--rm", "--network", "none", *_list_own(engine, box))
    if problem := start_trial(lambda rest: _precede(_hide_groups(), (*words, *rest), box)):
        raise _refuse_trial(problem)
    return f"works, with {program} {'as root' if box.root else 'as an ordinary user'}; with --image"


def _refuse_trial(problem: str) -> SandboxUnusable:
    """Bubblewrap may stand before podman, and says then what is wrong with itself."""
    if _hide_groups() and problem.startswith("bwrap: "):
        message = f"podman needs bubblewrap here, to hide control groups from crun, and that cannot start: {problem}"
        return SandboxUnusable(message, next_step="See the sandbox bwrap: what it needs, podman needs here, too.")
    return SandboxUnusable(f"podman cannot start a container here: {problem}", next_step=_NEEDS)


def _find_engine(engine: Engine) -> str:
    program = find_helper(engine.program)
    if not program:
        step = f"Install {engine.program}, or use bwrap."
        raise SandboxUnusable(f"The sandbox {engine.program} needs {engine.program}.", next_step=step)
    return program


def _check(engine: Engine, box: Box) -> None:
    program = _find_engine(engine)
    if _joins_ours(box) and engine.daemon:
        step = "Use open, or the sandbox podman or bwrap; for commands also none."
        why = "docker's daemon cannot start containers in a network of ours."
        raise BadInput("net", str(box.network), why, next_step=step)
    for path in (box.cwd, *box.readable, *box.writable, *box.programs):
        if ":" in path:
            step = "Use a path without one."
            raise BadInput("cwd", path, f"{engine.program} takes no path with a colon.", next_step=step)
    if not engine.daemon:
        _check_podman(program, root=box.root)
    _check_image(program, box.image)


def _check_podman(program: str, *, root: bool) -> None:
    """That podman answers, and can start a container the way that we do it."""
    told, problem = _ask(program, "info", "--format", _ASKED)
    if problem:
        raise SandboxUnusable(f"podman does not work here: {problem}", next_step=_NEEDS)
    runtime, _, ranges = told.partition(" ")
    if not root and ranges in ("0", "1"):
        raise SandboxUnusable("podman has no users for the containers of this user.", next_step=_NEEDS)
    if (runtime := os.path.basename(runtime)) not in _RUNTIMES:
        step = "Install the package crun; podman then uses it, or name it in containers.conf."
        message = f"podman starts containers by {runtime} here, which moves them out of the control groups of a run."
        raise SandboxUnusable(message, next_step=step)
    if os.path.exists(_BOTH_VERSIONS) and not find_bwrap():
        message = "This machine has control groups of both versions, and crun works with one."
        raise SandboxUnusable(message, next_step="Install the package bubblewrap: it hides them from crun.")


def _check_image(program: str, image: str) -> None:
    name = os.path.basename(program)
    if not image or image.startswith("-"):
        step = f"Name one of those that `{name} images` lists."
        raise BadInput("image", image, f"the sandbox {name} needs an image.", next_step=step)
    _, problem = _ask(program, "image", "inspect", "--format", "ok", image)
    if problem:
        message = f"The image {image} cannot be used: {problem}"
        raise SandboxUnusable(message, next_step=f"Get it with `{name} pull {image}`: a run does not.")


def _ask(program: str, *words: str) -> tuple[str, str]:
    """What it answers, and what its problem was, as a sentence; one of the two is empty."""
    try:
        argv = (program, *words)
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_CHECK_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", end_sentence(str(error))
    if not done.returncode:
        return done.stdout.decode(errors="replace").strip(), ""
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return "", end_sentence(said[-1] if said else f"exit code {done.returncode}")
