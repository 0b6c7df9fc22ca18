"""Finding an agent's program and its version, and refusing what cannot work before anything is started."""

import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache

import msgspec

from inspan import __version__
from inspan.contracts.driver import Driver
from inspan.errors import AgentMissing, AgentTooOld, AgentUnusable, NotAnAgent, StateUnusable
from inspan.stores.paths import cache_home, data_home, make_private_folder
from inspan.system.programs import find_program, leads_through, strip_path

from .probe_cache import memoize_output

_VERSION_S = 20.0
_MACHINES = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program that can do the work, and where it was found.

    `package` is the file of the Python package that its channel goes through, and `package_version` that one's version.
    """

    path: str
    version: str
    source: str
    package: str = ""
    package_version: str = ""


def locate_program(driver: Driver, env: Mapping[str, str] = os.environ, *, avoid: Sequence[str] = ()) -> Program:
    """The agent's program: named by variable, on PATH, installed by inspan, or carried by a wheel; checked.

    Raises `AgentMissing`, `NotAnAgent` or `AgentTooOld`, each with the next step; the first also where this Python
    lacks the package that the channel goes through.

    It is asked for its version, and so is started, outside of every sandbox. With folders to `avoid`, neither it nor
    what it starts is looked for there on PATH: an agent could have put it there.
    """
    if driver.built_in or driver.program.hosted:
        return Program(path=sys.executable, version=__version__, source="built in")
    found = _find_program(driver, env, avoid)
    if not driver.channels[0].package:
        return found
    from .packages import find_package  # Start-up time: few channels go through one.

    path, version = find_package(driver)
    return msgspec.structs.replace(found, package=path, package_version=version)


def _find_program(driver: Driver, env: Mapping[str, str], avoid: Sequence[str]) -> Program:
    avoid = () if os.sep in driver.program.command else avoid  # Whoever names a path means it.
    avoided = find_program(driver.program.command, path=env.get("PATH", "")) if avoid else ""
    env = {**env, "PATH": strip_path(env.get("PATH", ""), avoid=avoid)} if avoid else env
    tried: list[str] = []
    refused: AgentUnusable | None = None
    for source, path in _list_candidates(driver, env, avoid):
        tried.append(f"{source} ({path})" if source == driver.program_variable else source)
        if path and (os.path.exists(path) or source == driver.program_variable):
            with suppress(FileNotFoundError):  # The current folder is gone, and with it what is named from there.
                path = os.path.abspath(path)  # The agent is started in another folder.
            try:
                return Program(path=path, version=_check_version(driver, path, env), source=source)
            except AgentUnusable as error:
                if source != "PATH":
                    raise
                refused = error  # What merely lies around does not keep one from the one that was installed.
    if avoided and not refused and leads_through(os.path.abspath(avoided), avoid):
        raise _refuse_avoided(driver, avoided)
    raise refused or AgentMissing(
        f"{driver.title} was not found; looked for {driver.program.command!r} in: {', '.join(tried)}.",
        next_step=f"`inspan agents install {_install_target(driver)}`, or set {driver.program_variable} to the program."
        if driver.program.install.package
        else "Put it on PATH, or name it by its whole path.",
    )


def _refuse_avoided(driver: Driver, path: str) -> NotAnAgent:
    install = f"`inspan agents install {_install_target(driver)}`, or " if driver.program.install.package else ""
    return NotAnAgent(
        f"{driver.title} was found at {path} alone, in a folder that an agent may write to: what an earlier run left "
        "there would be started outside of the sandbox.",
        next_step=f"{install or 'Install it elsewhere, or '}set {driver.program_variable}={path} if it is meant.",
    )


def install_folder(driver: Driver) -> str:
    """Where `inspan agents install` puts this agent; nothing else is touched by it."""
    return os.path.join(data_home(), "agents", driver.program.command, driver.program.install.version)


def program_path(driver: Driver, folder: str) -> str:
    """The program in a folder that it was installed into."""
    if driver.program.install.node:
        return os.path.join(folder, "bin", driver.program.command)
    return os.path.join(folder, fill_platform(driver.program.install.program))


def fill_platform(name: str) -> str:
    """The name of a package or file with this machine's platform in it."""
    machine = os.uname()
    platform = f"{machine.sysname.lower()}-{_MACHINES.get(machine.machine, machine.machine)}"
    return name.replace("{platform}", platform)


@cache
def find_bundled_file(path: str) -> str:
    """The full path of a file that a package of this Python environment carries, or an empty string."""
    for folder in (sysconfig.get_paths()["platlib"], *sys.path):
        candidate = os.path.join(folder, path)
        if folder and os.path.isfile(candidate):
            return candidate
    return ""


def _list_candidates(driver: Driver, env: Mapping[str, str], avoid: Sequence[str]) -> Iterator[tuple[str, str]]:
    installed = program_path(driver, install_folder(driver))
    if driver.program.pinned:
        yield "inspan agents install", installed
        return
    named = env.get(driver.program_variable, "")
    if named:
        yield driver.program_variable, named
        return
    yield "PATH", find_program(driver.program.command, path=env.get("PATH", ""), avoid=avoid)
    if driver.program.install.package:
        yield "inspan agents install", installed
    if driver.program.install.source == "wheel" and driver.program.install.package:
        yield "this Python environment", find_bundled_file(driver.program.install.program)


def _check_version(driver: Driver, path: str, env: Mapping[str, str]) -> str:
    _check_executable(driver, path)
    if not driver.program.install.package and not driver.program.oldest:
        return ""  # Nothing is known of it, not even what it does when it is asked for its version.
    if driver.program.install.node:
        from .node import refuse_old_node  # Start-up time: few agents are run by it.

        refuse_old_node(driver, path, env)
    output = memoize_output(
        path, lambda: run_program(driver, path, env), is_valid=lambda output: bool(_extract_version(driver, output))
    )
    version = _extract_version(driver, output)
    if not version:
        raise NotAnAgent(
            f"{path} does not answer as {driver.title}: `--version` printed {output[:120]!r}.",
            next_step=f"Point {driver.program_variable} at the real program, or "
            f"`inspan agents install {_install_target(driver)}`.",
        )
    if version < driver.program.oldest:
        raise AgentTooOld(
            f"{driver.title} {format_version(version)} at {path} is too old; "
            f"the oldest supported version is {format_version(driver.program.oldest)}.",
            next_step=f"Upgrade it, or `inspan agents install {_install_target(driver)}` "
            f"for {driver.program.install.version}.",
        )
    return format_version(version)


def _extract_version(driver: Driver, output: str) -> tuple[int, ...]:
    match = driver.program.version_pattern.search(output)
    return tuple(int(part) for part in match.groups()) if match else ()


def _check_executable(driver: Driver, path: str) -> None:
    hint = f"Point {driver.program_variable} at the program, or unset it."
    if not os.path.exists(path):
        raise AgentMissing(f"{driver.program_variable} names {path}, which does not exist.", next_step=hint)
    if os.path.isdir(path) or not os.access(path, os.X_OK):
        raise NotAnAgent(f"{path} is not an executable file.", next_step=f"chmod +x it, or: {hint}")


def run_program(
    driver: Driver, path: str, env: Mapping[str, str], *, arguments: tuple[str, ...] = ("--version",)
) -> str:
    """What the program prints for these words; raises `NotAnAgent` for what cannot be started."""
    from tempfile import TemporaryDirectory  # Start-up time: a version that was asked once is remembered.

    lean = {name: env[name] for name in ("PATH", "HOME", "LANG") if name in env} | dict(driver.program.probe_env)
    # Some write settings and locks before they say anything: a question leaves nothing in the user's own.
    with TemporaryDirectory(prefix="probe-", dir=_find_room()) as own:
        if driver.state.config_variable:
            lean[driver.state.config_variable] = own
        return _run(driver, [path, *arguments], lean)


def _find_room() -> str | None:
    """A folder of ours, else the system's: some programs complain of settings in a temporary folder."""
    try:
        return make_private_folder(cache_home())
    except StateUnusable:
        return None


def _run(driver: Driver, argv: list[str], env: Mapping[str, str]) -> str:
    import subprocess  # Start-up time, as above.

    try:
        done = subprocess.run(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"nothing within {_VERSION_S:.0f} s"
    except OSError as error:
        raise NotAnAgent(
            f"{argv[0]} cannot be started: {error.strerror}.",
            next_step=f"`inspan agents install {_install_target(driver)}`.",
        ) from error
    return (done.stdout + done.stderr).decode(errors="replace").strip()


def parse_version(text: str) -> tuple[int, ...]:
    """The numbers that a version begins with."""
    numbers = re.match(r"[0-9]+(\.[0-9]+)*", text)
    return tuple(int(part) for part in numbers[0].split(".")) if numbers else ()


def format_version(version: tuple[int, ...]) -> str:
    """A version as it is written."""
    return ".".join(str(part) for part in version)


def _install_target(driver: Driver) -> str:
    """What `inspan agents install` is to be given: a channel may have a program of its own."""
    channel = driver.channels[0]
    return f"{driver.name} --channel {channel.name}" if channel.program else driver.name
