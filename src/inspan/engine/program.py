"""Finding an agent's program and its version, and refusing what cannot work before anything is started."""

import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import cache

import msgspec

from inspan import __version__
from inspan.contracts.driver import Driver
from inspan.errors import AgentMissing, AgentTooOld, NotAnAgent
from inspan.protocol.wire import UNREADABLE
from inspan.sandboxes.programs import find
from inspan.stores.paths import cache_home, data_home

_VERSION_S = 20.0
_here: dict[str, str] = {}


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program that can do the work, and where it was found."""

    path: str
    version: str
    source: str


def locate(driver: Driver, env: Mapping[str, str] = os.environ) -> Program:
    """The agent's program: named by variable, on PATH, installed by inspan, or carried by a wheel; checked.

    Raises `AgentMissing`, `NotAnAgent` or `AgentTooOld`, each with the next step.
    """
    if driver.built_in:
        return Program(path=sys.executable, version=__version__, source="built in")
    tried: list[str] = []
    for source, path in _candidates(driver, env):
        tried.append(f"{path or 'nothing'} ({source})")
        if path and (os.path.exists(path) or source == driver.program_variable):
            path = os.path.abspath(path)  # The agent is started in another folder.
            return Program(path=path, version=_checked_version(driver, path, env), source=source)
    raise AgentMissing(
        f"{driver.title} was not found; looked for {driver.program!r} at: {'; '.join(tried)}.",
        next_step=f"`inspan agents install {driver.name}`, or set {driver.program_variable} to the program.",
    )


def installed_folder(driver: Driver) -> str:
    """Where `inspan agents install` puts this agent; nothing else is touched by it."""
    return os.path.join(data_home(), "agents", driver.name, driver.install.version)


@cache
def carried(path: str) -> str:
    """The full path of a file that a package of this Python environment carries, or an empty string."""
    for folder in (sysconfig.get_paths()["platlib"], *sys.path):
        candidate = os.path.join(folder, path)
        if folder and os.path.isfile(candidate):
            return candidate
    return ""


def _candidates(driver: Driver, env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    named = env.get(driver.program_variable, "")
    if named:
        yield driver.program_variable, named
        return
    yield "PATH", find(driver.program, path=env.get("PATH", ""))
    yield "inspan agents install", os.path.join(installed_folder(driver), driver.install.program)
    yield "this Python environment", carried(driver.install.program)


def _checked_version(driver: Driver, path: str, env: Mapping[str, str]) -> str:
    _refuse_no_program(driver, path)
    said = _remembered(path) or _ask(driver, path, env)
    match = driver.version_words.search(said)
    if not match:
        raise NotAnAgent(
            f"{path} does not answer as {driver.title}: `--version` printed {said[:120]!r}.",
            next_step=f"Point {driver.program_variable} at the real program, or `inspan agents install {driver.name}`.",
        )
    _remember(path, said)
    version = tuple(int(part) for part in match.groups())
    if version < driver.oldest:
        raise AgentTooOld(
            f"{driver.title} {_dotted(version)} at {path} is too old; it takes {_dotted(driver.oldest)}.",
            next_step=f"Upgrade it, or `inspan agents install {driver.name}` for {driver.install.version}.",
        )
    return _dotted(version)


def _refuse_no_program(driver: Driver, path: str) -> None:
    hint = f"Point {driver.program_variable} at the program, or unset it."
    if not os.path.exists(path):
        raise AgentMissing(f"{driver.program_variable} names {path}, which does not exist.", next_step=hint)
    if os.path.isdir(path) or not os.access(path, os.X_OK):
        raise NotAnAgent(f"{path} is not an executable file.", next_step=f"chmod +x it, or: {hint}")


def _ask(driver: Driver, path: str, env: Mapping[str, str]) -> str:
    import subprocess  # Start-up time: a version that was asked once is remembered.

    lean = {name: env[name] for name in ("PATH", "HOME", "LANG") if name in env}
    try:
        done = subprocess.run(
            [path, "--version"],
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
            next_step=f"`inspan agents install {driver.name}`.",
        ) from error
    return (done.stdout + done.stderr).decode(errors="replace").strip()


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)


def _stamp(path: str) -> str:
    found = os.stat(path)
    return f"{os.path.realpath(path)} {found.st_mtime_ns} {found.st_size}"


def _cache_path() -> str:
    return os.path.join(cache_home(), "versions.json")


def _cached() -> dict[str, str]:
    try:
        with open(_cache_path(), "rb") as file:
            return msgspec.json.decode(file.read(), type=dict[str, str])
    except (OSError, *UNREADABLE):
        return {}


def _remembered(path: str) -> str:
    stamp = _stamp(path)
    if stamp not in _here and (said := _cached().get(stamp, "")):
        _here[stamp] = said
    return _here.get(stamp, "")


def _remember(path: str, said: str) -> None:
    if _here.get(_stamp(path)) == said:
        return
    known = _cached()
    _here[_stamp(path)] = said
    draft = f"{_cache_path()}.{os.getpid()}"
    try:
        os.makedirs(cache_home(), mode=0o700, exist_ok=True)
        with open(draft, "wb") as file:
            file.write(msgspec.json.encode(known | {_stamp(path): said}))
        os.rename(draft, _cache_path())
    except OSError:
        pass  # A cache that cannot be written costs one `--version` next time, nothing else.
