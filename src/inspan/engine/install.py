"""Installing an agent's program into inspan's own folder: pinned, from its package, touching nothing else."""

import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress

import msgspec

from inspan.contracts.driver import Driver
from inspan.errors import AgentMissing, AgentTooOld
from inspan.stores.paths import cache_home, data_home

from .node import REQUIREMENT, launcher, node_folder, node_program, npm_command
from .program import (
    Program,
    dotted,
    installed_folder,
    installed_program,
    locate,
    on_this_machine,
    version_of,
)

_INSTALL_S = 1800.0
_TELLING = ("ENOSPC", "ETARGET", "E404", "ENOTFOUND", "ECONNREFUSED", "No matching", "error:", "ERROR:")


def install(driver: Driver) -> Program:
    """Puts the driver's version in place and gives the program as it is; raises `AgentMissing` or `AgentTooOld`."""
    if driver.built_in or driver.hosted:
        return locate(driver)
    if not driver.install.package:
        step = f"Install {driver.program!r}, or set {driver.program_variable} to the program."
        if driver.family:
            step = f"Install its program, and name the command that starts it: -a '{driver.name}:COMMAND'."
        raise AgentMissing(f"{driver.title} is installed by you: inspan has no package for it.", next_step=step)
    if version_of(driver.install.version) < driver.oldest:
        raise AgentTooOld(
            f"{driver.title} {driver.install.version} is too old; it takes {dotted(driver.oldest)}.",
            next_step=f"`inspan agents install {driver.name}` has a version that works.",
        )
    target = installed_folder(driver)
    before = _stamp(target)
    try:
        with _alone():
            if _stamp(target) in (before, ()):  # Else another process has put it there in the meantime.
                _placed_whole(driver, target)
    except OSError as error:
        raise AgentMissing(
            f"{driver.title} cannot be installed into {target}: {error.strerror or error}.",
            next_step="Check its owner and free space, or set XDG_DATA_HOME to another folder.",
        ) from error
    return locate(msgspec.structs.replace(driver, pinned=True))


@contextmanager
def _alone() -> Generator[None, None, None]:
    """Holds every other installer of this data folder off; a draft that is there now is nobody's."""
    folder = os.path.join(data_home(), "agents")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns


def _placed_whole(driver: Driver, target: str) -> None:
    """The new one takes the old one's place once it is whole; until then, and if it never is, the old one stays."""
    draft, old = f"{target}.draft", f"{target}.old"
    _clear(draft, old)
    try:
        _placed(driver, draft)
        with suppress(FileNotFoundError):
            os.rename(target, old)
        os.rename(draft, target)
    finally:
        _clear(draft, old)


def _clear(*folders: str) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _placed(driver: Driver, folder: str) -> None:
    recipe = driver.install
    os.makedirs(folder, mode=0o700)
    program = os.path.join(folder, on_this_machine(recipe.program))
    if recipe.source == "wheel":
        said = _by_pip(recipe.requirement, folder, program)
        if said:
            raise _not_installed(driver, said)
    else:
        _by_npm(driver, folder, program)
    if not os.path.isfile(program):
        raise _not_installed(driver, "the package does not hold its program")
    os.chmod(program, 0o755)
    if recipe.node:
        _write_launcher(driver, folder)


def _write_launcher(driver: Driver, folder: str) -> None:
    """The launcher names the folder as it will be called, not the draft."""
    script = os.path.join(installed_folder(driver), on_this_machine(driver.install.program))
    path = installed_program(driver, folder)
    os.makedirs(os.path.dirname(path), mode=0o700)
    with open(path, "w", encoding="utf-8") as file:
        file.write(launcher(script))
    os.chmod(path, 0o755)


def _by_npm(driver: Driver, folder: str, program: str) -> None:
    _ensure_node(driver)
    recipe = driver.install
    package, wanted = on_this_machine(recipe.package), on_this_machine(recipe.requirement)
    if recipe.dependencies:
        said = _npm(folder, "install", "--omit=dev", wanted, gives=os.path.join(folder, "node_modules", package))
    else:
        said = _npm(folder, "pack", "--pack-destination", folder, wanted, gives=folder)
        if not said and recipe.companions:
            companions = map(on_this_machine, recipe.companions)
            said = _npm(folder, "install", *companions, gives=os.path.join(folder, "node_modules"))
        said = said or _unpack(folder, package)
    if said:
        raise _not_installed(driver, said)
    _refuse_other_version(driver, os.path.join(folder, "node_modules", package))


def _npm(folder: str, order: str, *words: str, gives: str) -> str:
    """Runs inspan's npm in the folder; scripts of packages would run as the user, and none of these agents needs them.

    The `.npmrc` of the folder that the user stands in is somebody's project: it has no say in where agents come from.
    """
    env = {"npm_config_cache": os.path.join(cache_home(), "npm"), **os.environ, "npm_config_update_notifier": "false"}
    always = ("--prefix", folder, "--no-global", "--ignore-scripts", "--no-save", "--no-package-lock")
    quiet = ("--no-audit", "--no-fund", "--loglevel=error")
    return _said([*npm_command(), order, *always, *quiet, *words], gives, env, cwd=folder)


def _refuse_other_version(driver: Driver, package: str) -> None:
    """npm gives an older version without a word where the newest wants another Node, and a tag can move."""
    try:
        with open(os.path.join(package, "package.json"), "rb") as file:
            got = str(msgspec.json.decode(file.read(), type=dict[str, object]).get("version", "none"))
    except (OSError, msgspec.MsgspecError) as error:
        raise _not_installed(driver, f"its package.json cannot be read: {error}") from error
    wanted = driver.install.release or driver.install.version
    if got != wanted:
        raise _not_installed(driver, f"version {wanted} was asked for and npm gave {got}")


def _unpack(folder: str, package: str) -> str:
    """Puts what npm fetched where npm would have; gives what is wrong with it."""
    target = os.path.join(folder, "node_modules", package)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    for name in os.listdir(folder):
        if name.endswith(".tgz"):
            try:
                with tarfile.open(os.path.join(folder, name)) as archive:
                    archive.extractall(folder, filter="data")
            except tarfile.TarError as error:
                return f"its archive cannot be unpacked: {error}"
            os.remove(os.path.join(folder, name))
    os.rename(os.path.join(folder, "package"), target)
    return ""


def _ensure_node(driver: Driver) -> None:
    """Puts inspan's own Node in place, if it is not there yet."""
    target = node_folder()
    if os.access(node_program(), os.X_OK):
        return
    draft = f"{target}.draft"
    _clear(draft, target)
    os.makedirs(draft, mode=0o700)
    try:
        said = _by_pip(REQUIREMENT, draft, os.path.join(draft, os.path.relpath(node_program(), target)))
        if said:
            raise _not_installed(driver, f"it needs {REQUIREMENT}, and that said {said}")
        os.rename(draft, target)
    finally:
        _clear(draft)


def _by_pip(requirement: str, folder: str, program: str) -> str:
    said = "no installer was found"
    for installer in _installers():
        # In that folder: uv reads the settings of whatever project the user stands in.
        said = _said([*installer, "--no-deps", "--target", folder, requirement], program, os.environ, cwd=folder)
        if not said:
            break
    return said


def _said(argv: Sequence[str], wanted: str, env: Mapping[str, str], *, cwd: str) -> str:
    """Runs an installer; gives the line that tells what went wrong, and nothing when what is wanted is there."""
    try:
        done = subprocess.run(
            argv,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_INSTALL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0 and os.path.exists(wanted):
        return ""
    lines = [line.strip().removeprefix("npm error ") for line in (done.stderr or done.stdout).splitlines()]
    lines = [line for line in lines if line and "complete log of this run" not in line]
    telling = (line for line in lines if any(word in line for word in _TELLING))
    return next(telling, lines[-1] if lines else f"exit code {done.returncode} and no word")


def _not_installed(driver: Driver, said: str) -> AgentMissing:
    requirement = on_this_machine(driver.install.requirement)
    return AgentMissing(
        f"{driver.title} could not be installed as {requirement}: {said.rstrip('.')}.",
        next_step=f"Check the package index, or install it by hand and set {driver.program_variable}.",
    )


def _installers() -> list[list[str]]:
    """uv where it can be had, then pip."""
    beside = os.path.join(os.path.dirname(sys.executable), "uv")
    uv = beside if os.path.exists(beside) else shutil.which("uv")
    found = [[uv, "pip", "install", "--quiet", "--python", sys.executable]] if uv else []
    return [*found, [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]]
