"""Finding an agent's program and its version, and refusing what cannot work before anything is started."""

import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import cache

import msgspec

from inspan import __version__
from inspan.contracts.driver import Driver
from inspan.errors import AgentMissing, AgentTooOld, AgentUnusable, NotAnAgent
from inspan.sandboxes.programs import find
from inspan.stores.paths import data_home

from .remembered import remembered

_VERSION_S = 20.0
_MACHINES = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program that can do the work, and where it was found."""

    path: str
    version: str
    source: str


def locate(driver: Driver, env: Mapping[str, str] = os.environ) -> Program:
    """The agent's program: named by variable, on PATH, installed by inspan, or carried by a wheel; checked.

    Raises `AgentMissing`, `NotAnAgent` or `AgentTooOld`, each with the next step.
    """
    if driver.built_in or driver.hosted:
        return Program(path=sys.executable, version=__version__, source="built in")
    tried: list[str] = []
    refused: AgentUnusable | None = None
    for source, path in _candidates(driver, env):
        tried.append(f"{path or 'nothing'} ({source})")
        if path and (os.path.exists(path) or source == driver.program_variable):
            path = os.path.abspath(path)  # The agent is started in another folder.
            try:
                return Program(path=path, version=_checked_version(driver, path, env), source=source)
            except AgentUnusable as error:
                if source != "PATH":
                    raise
                refused = error  # What merely lies around does not keep one from the one that was installed.
    raise refused or AgentMissing(
        f"{driver.title} was not found; looked for {driver.program!r} at: {'; '.join(tried)}.",
        next_step=f"`inspan agents install {_installed_as(driver)}`, or set {driver.program_variable} to the program."
        if driver.install.package
        else "Put it on PATH, or name it by its whole path.",
    )


def installed_folder(driver: Driver) -> str:
    """Where `inspan agents install` puts this agent; nothing else is touched by it."""
    return os.path.join(data_home(), "agents", driver.program, driver.install.version)


def installed_program(driver: Driver, folder: str) -> str:
    """The program in a folder that it was installed into."""
    if driver.install.node:
        return os.path.join(folder, "bin", driver.program)
    return os.path.join(folder, on_this_machine(driver.install.program))


def on_this_machine(name: str) -> str:
    """The name of a package or file with this machine's platform in it."""
    machine = os.uname()
    platform = f"{machine.sysname.lower()}-{_MACHINES.get(machine.machine, machine.machine)}"
    return name.replace("{platform}", platform)


@cache
def carried(path: str) -> str:
    """The full path of a file that a package of this Python environment carries, or an empty string."""
    for folder in (sysconfig.get_paths()["platlib"], *sys.path):
        candidate = os.path.join(folder, path)
        if folder and os.path.isfile(candidate):
            return candidate
    return ""


def _candidates(driver: Driver, env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    installed = installed_program(driver, installed_folder(driver))
    if driver.pinned:
        yield "inspan agents install", installed
        return
    named = env.get(driver.program_variable, "")
    if named:
        yield driver.program_variable, named
        return
    yield "PATH", find(driver.program, path=env.get("PATH", ""))
    if driver.install.package:
        yield "inspan agents install", installed
    if driver.install.source == "wheel" and driver.install.package:
        yield "this Python environment", carried(driver.install.program)


def _checked_version(driver: Driver, path: str, env: Mapping[str, str]) -> str:
    _refuse_no_program(driver, path)
    if not driver.install.package and not driver.oldest:
        return ""  # Nothing is known of it, not even what it does when it is asked for its version.
    if driver.install.node:
        from .node import refuse_old_node  # Start-up time: few agents are run by it.

        refuse_old_node(driver, path, env)
    said = remembered(path, lambda: ask(driver, path, env), worth=lambda said: bool(_version_in(driver, said)))
    version = _version_in(driver, said)
    if not version:
        raise NotAnAgent(
            f"{path} does not answer as {driver.title}: `--version` printed {said[:120]!r}.",
            next_step=f"Point {driver.program_variable} at the real program, or "
            f"`inspan agents install {_installed_as(driver)}`.",
        )
    if version < driver.oldest:
        raise AgentTooOld(
            f"{driver.title} {dotted(version)} at {path} is too old; it takes {dotted(driver.oldest)}.",
            next_step=f"Upgrade it, or `inspan agents install {_installed_as(driver)}` for {driver.install.version}.",
        )
    return dotted(version)


def _version_in(driver: Driver, said: str) -> tuple[int, ...]:
    match = driver.version_words.search(said)
    return tuple(int(part) for part in match.groups()) if match else ()


def _refuse_no_program(driver: Driver, path: str) -> None:
    hint = f"Point {driver.program_variable} at the program, or unset it."
    if not os.path.exists(path):
        raise AgentMissing(f"{driver.program_variable} names {path}, which does not exist.", next_step=hint)
    if os.path.isdir(path) or not os.access(path, os.X_OK):
        raise NotAnAgent(f"{path} is not an executable file.", next_step=f"chmod +x it, or: {hint}")


def ask(driver: Driver, path: str, env: Mapping[str, str], *, words: tuple[str, ...] = ("--version",)) -> str:
    """What the program prints for these words; raises `NotAnAgent` for what cannot be started."""
    import subprocess  # Start-up time: a version that was asked once is remembered.

    lean = {name: env[name] for name in ("PATH", "HOME", "LANG") if name in env} | dict(driver.asked_with)
    try:
        done = subprocess.run(
            [path, *words],
            env=lean,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"nothing within {_VERSION_S:.0f} s"
    except OSError as error:
        raise NotAnAgent(
            f"{path} cannot be started: {error.strerror}.",
            next_step=f"`inspan agents install {_installed_as(driver)}`.",
        ) from error
    return (done.stdout + done.stderr).decode(errors="replace").strip()


def version_of(text: str) -> tuple[int, ...]:
    """The numbers that a version begins with."""
    numbers = re.match(r"[0-9]+(\.[0-9]+)*", text)
    return tuple(int(part) for part in numbers[0].split(".")) if numbers else ()


def dotted(version: tuple[int, ...]) -> str:
    """A version as it is written."""
    return ".".join(str(part) for part in version)


def _installed_as(driver: Driver) -> str:
    """What `inspan agents install` is to be given: a channel may have a program of its own."""
    channel = driver.channels[0]
    return f"{driver.name} --channel {channel.name}" if channel.program else driver.name
