"""Containment: nothing that a run starts survives it, even when its supervisor is killed. It is no security boundary.

Three ways, best first: a pid namespace made by bubblewrap, one made by util-linux, and a small reaper process that
acts when its pipe from the supervisor closes. Which of them work here is probed once and remembered.
"""

import os
import sys
from collections.abc import Callable
from functools import cache

import msgspec

from inspan.contracts.sandbox import Box
from inspan.errors import BadInput, SandboxUnusable
from inspan.protocol.wire import UNREADABLE

from .programs import bwrap, find

_PROBE_S = 5.0


class Containment(msgspec.Struct, frozen=True, kw_only=True):
    """`depth` is how many processes stand between the one we start and the agent; `pipe` asks for a life line."""

    name: str
    wrap: Callable[[tuple[str, ...], Box], tuple[str, ...]]
    depth: int
    pipe: bool = False


def _bwrap(argv: tuple[str, ...], box: Box) -> tuple[str, ...]:
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
    return (bwrap(), *held, "--", *argv)


def _unshare(argv: tuple[str, ...], box: Box) -> tuple[str, ...]:
    namespace = ("--fork", "--pid", "--kill-child", "--mount-proc", f"--wd={box.cwd}")
    user = () if box.root else ("--user", "--map-current-user")
    return (find("setpriv"), "--pdeathsig", "KILL", find("unshare"), *user, *namespace, "--", *argv)


def _reaper(argv: tuple[str, ...], box: Box) -> tuple[str, ...]:
    script = os.path.join(os.path.dirname(__file__), "reaper.py")
    return (sys.executable, "-I", "-S", script, box.cwd, *argv)


WAYS = (
    Containment(name="bwrap", wrap=_bwrap, depth=2),
    Containment(name="unshare", wrap=_unshare, depth=1),
    Containment(name="reaper", wrap=_reaper, depth=1, pipe=True),
)
_here: dict[tuple[str, str], str] = {}
_BY_NAME = {way.name: way for way in WAYS}


def choose(cache: str, *, asked: str = "") -> Containment:
    """The best way that works on this machine, or the one that is asked for by name."""
    if asked:
        if asked not in _BY_NAME:
            known = ", ".join(_BY_NAME)
            raise BadInput("INSPAN_CONTAINMENT", asked, "no such containment.", next_step=f"Use one of: {known}.")
        return _BY_NAME[asked]
    key = _machine_key()
    name = _remembered(cache, key)
    if name not in _BY_NAME:
        name = next(way.name for way in WAYS if _works(way))
        if name == WAYS[0].name:  # A probe may fail for a passing reason: only the best answer is kept.
            _remember(cache, key, name)
    return _BY_NAME[name]


def _works(way: Containment) -> bool:
    if way.pipe:
        return True
    argv = way.wrap((find("true") or "/bin/true",), Box(cwd="/", root=os.geteuid() == 0))
    return bool(argv[0]) and not _problem(argv)


def probe(argv: tuple[str, ...], *, name: str, cache: str) -> None:
    """Runs a wrapped command that does nothing; raises `SandboxUnusable` with what the program said.

    That it worked is remembered until the machine starts anew; that it did not, never.
    """
    if not argv[0]:
        raise SandboxUnusable(f"The sandbox {name} needs bubblewrap.", next_step="Install the package bubblewrap.")
    key = f"{_machine_key()} {' '.join(argv)}"
    if _remembered(cache, key) == name:
        return
    problem = _problem(argv)
    if not problem:
        _remember(cache, key, name)
    if problem:
        raise SandboxUnusable(
            f"The sandbox {name} cannot be set up here: {problem}.",
            next_step="Allow unprivileged user namespaces, or choose --sandbox none.",
        )


def _problem(argv: tuple[str, ...]) -> str:
    """What went wrong when this was run, in the program's own words; empty when nothing did."""
    import subprocess  # Start-up time: what was probed once is remembered.

    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if not done.returncode:
        return ""
    return done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"


def _machine_key() -> str:
    return f"{_boot()} {os.geteuid()} {bwrap()} {find('unshare')}"


@cache
def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def _remembered(folder: str, key: str) -> str:
    """What worked before: in this process, or in another one since the machine was started."""
    if (folder, key) not in _here and (name := _known(folder).get(key, "")):
        _here[folder, key] = name
    return _here.get((folder, key), "")


def _known(cache: str) -> dict[str, str]:
    try:
        with open(os.path.join(cache, "containment.json"), "rb") as file:
            return msgspec.json.decode(file.read(), type=dict[str, str])
    except (OSError, *UNREADABLE):
        return {}


def _remember(cache: str, key: str, name: str) -> None:
    boot = key.partition(" ")[0]
    known = {old: value for old, value in _known(cache).items() if old.startswith(boot)}
    try:
        os.makedirs(cache, mode=0o700, exist_ok=True)
        draft = os.path.join(cache, f"containment.{os.getpid()}")
        with open(draft, "wb") as file:
            file.write(msgspec.json.encode(known | {key: name}))
        os.rename(draft, os.path.join(cache, "containment.json"))
    except OSError:
        pass  # A cache that cannot be written costs a probe next time, nothing else.
