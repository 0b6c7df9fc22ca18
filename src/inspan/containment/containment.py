"""Containment: nothing that a run starts survives it, even when its supervisor is killed. It is no security boundary.

Three ways, best first: a pid namespace made by bubblewrap, one made by util-linux, and a small reaper process that
acts when its pipe from the supervisor closes. Which of them work here is probed once and remembered.
"""

import os
import sys
from collections.abc import Callable
from functools import cache

import msgspec

from inspan.contracts.sandbox import Box, Isolation, Sandbox
from inspan.errors import BadInput, SandboxUnusable
from inspan.stores.cache_file import load_cached, save_cached
from inspan.system import entry
from inspan.system.platform import read_boot_id
from inspan.system.programs import find_helper

from .programs import find_bwrap

_PROBE_S = 20.0
# With these, whoever runs the machine allows user namespaces or forbids them.
_SWITCHES = (
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
)


class Containment(msgspec.Struct, frozen=True, kw_only=True):
    """`agent_depth` is how many processes stand between the one we start and the agent; `liveness_pipe` asks for a
    pipe whose end tells that the supervisor is gone.
    """

    name: str
    wrap: Callable[[tuple[str, ...], Box], tuple[str, ...]]
    agent_depth: int
    liveness_pipe: bool = False


def _wrap_bwrap(argv: tuple[str, ...], box: Box) -> tuple[str, ...]:
    held = (
        "--unshare-pid",
        "--die-with-parent",
        "--dev-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--chdir",
        box.cwd,
    )
    return (find_bwrap(), *held, "--", *argv)


def _wrap_unshare(argv: tuple[str, ...], box: Box) -> tuple[str, ...]:
    namespace = ("--fork", "--pid", "--kill-child", "--mount-proc", f"--wd={box.cwd}")
    user = () if box.root else ("--user", "--map-current-user")
    return (find_helper("setpriv"), "--pdeathsig", "KILL", find_helper("unshare"), *user, *namespace, "--", *argv)


def _wrap_reaper(argv: tuple[str, ...], box: Box) -> tuple[str, ...]:
    return hold(argv, cwd=box.cwd)


def hold(argv: tuple[str, ...], *, cwd: str, then: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The command under a reaper, who runs the other one `then` if the first did not end by itself."""
    script = os.path.join(os.path.dirname(__file__), "reaper.py")
    afterwards = ("--then", str(len(then)), *then) if then else ()
    return (sys.executable, "-I", "-S", script, *afterwards, cwd, *argv)


METHODS = (
    Containment(name="bwrap", wrap=_wrap_bwrap, agent_depth=2),
    Containment(name="unshare", wrap=_wrap_unshare, agent_depth=1),
    Containment(name="reaper", wrap=_wrap_reaper, agent_depth=1, liveness_pipe=True),
)
_memory: dict[tuple[str, str], str] = {}
_BY_NAME = {method.name: method for method in METHODS}


def choose_containment(cache: str, *, asked: str = "") -> Containment:
    """The best method that works on this machine, or the one that is asked for by name."""
    if asked:
        if asked not in _BY_NAME:
            known = ", ".join(_BY_NAME)
            raise BadInput("INSPAN_CONTAINMENT", asked, "unknown containment.", next_step=f"Use one of: {known}.")
        return _BY_NAME[asked]
    key = _machine_key()
    name = _recall(cache, key)
    if name not in _BY_NAME:
        name = next(method.name for method in METHODS if _works(method))
        if name == METHODS[0].name:  # A probe may fail for a passing reason: only the best answer is kept.
            _remember(cache, key, name)
    return _BY_NAME[name]


def _works(method: Containment) -> bool:
    if method.liveness_pipe:
        return True
    argv = method.wrap((find_helper("true") or "/bin/true",), Box(cwd="/", root=os.geteuid() == 0))
    return bool(argv[0]) and not run_probe(argv)


def probe(sandbox: Sandbox, box: Box, *, cache: str) -> None:
    """Runs a wrapped command that does nothing; raises `SandboxUnusable` with what the program said.

    That it worked is remembered until the machine starts anew; that it did not, never.
    """
    name, argv = sandbox.name, sandbox.wrap(("/bin/true",), box)
    if not argv[0]:
        raise SandboxUnusable(f"The sandbox {name} needs bubblewrap.", next_step="Install the package bubblewrap.")
    key = f"{_machine_key()} {box.network.reach} {' '.join(argv)}"
    if _recall(cache, key) == name:
        return
    problem = run_probe((*_enter_alone(sandbox.isolate(box)), *argv))
    if not problem:
        _remember(cache, key, name)
    if problem:
        raise SandboxUnusable(
            f"The sandbox {name} cannot be set up here: {problem.rstrip('.')}.",
            next_step=_find_step(problem),
        )


def _find_step(problem: str) -> str:
    if "nknown option" in problem:
        return "Install a newer bubblewrap: one with --bind-fd, such as 0.10 or the 0.8 of Debian 12."
    return "Allow unprivileged user namespaces; `inspan doctor` shows what works here."


def _enter_alone(isolation: Isolation | None) -> tuple[str, ...]:
    """The command that sets up the same for a probe, in whose network nobody listens."""
    if isolation is None:
        return ()
    setup: entry.Setup = {
        "groups": [],
        "isolated": isolation.network,
        "ports": [],
        "filter": isolation.filter,
        "scoped": isolation.scoped,
    }
    return (sys.executable, "-I", "-S", entry.__file__, entry.pack(setup))


def run_probe(argv: tuple[str, ...]) -> str:
    """What went wrong when this was run, in the program's own words; empty when nothing did."""
    import subprocess  # Start-up time: what was probed once is remembered.

    opened: list[int] = []
    try:
        words = entry.open_named(list(argv), opened)
        null = subprocess.DEVNULL
        done = subprocess.run(words, stdin=null, capture_output=True, pass_fds=opened, timeout=_PROBE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    finally:
        for fd in opened:
            os.close(fd)
    if not done.returncode:
        return ""
    return done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"


@cache
def _boot_id() -> str:
    return read_boot_id()


def _machine_key() -> str:
    programs = (_identify(find_bwrap()), _identify(find_helper("unshare")))
    return " ".join((_boot_id(), str(os.geteuid()), *programs, *map(_read_switch, _SWITCHES)))


def _identify(program: str) -> str:
    """A program at a path may be another one tomorrow."""
    try:
        found = os.stat(program)
    except OSError:
        return program
    return f"{program}:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"


def _read_switch(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read(32).strip()
    except OSError:
        return "-"


def _recall(folder: str, key: str) -> str:
    """What worked before: in this process, or in another one since the machine was started."""
    if (folder, key) not in _memory and (name := _load(folder).get(key, "")):
        _memory[folder, key] = name
    return _memory.get((folder, key), "")


def _load(cache: str) -> dict[str, str]:
    return load_cached(os.path.join(cache, "containment.json"), dict[str, str]) or {}


def _remember(cache: str, key: str, name: str) -> None:
    boot = key.partition(" ")[0]
    known = {old: value for old, value in _load(cache).items() if old.startswith(boot)}
    save_cached(os.path.join(cache, "containment.json"), known | {key: name})
