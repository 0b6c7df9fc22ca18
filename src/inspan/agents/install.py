"""Installing an agent's program into inspan's own folder: pinned, from its package, touching nothing else."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress

import msgspec

from inspan.contracts.driver import Driver
from inspan.errors import AgentMissing, AgentTooOld
from inspan.protocol.wire import DECODE_ERRORS
from inspan.stores.paths import cache_home, data_home
from inspan.system import file_locks
from inspan.system.platform import count_written_bytes

from .installers import NONE_FOUND, NONE_FOUND_STEP, list_installers
from .node import REQUIREMENT, build_launcher, node_folder, node_program, npm_command
from .program import (
    Program,
    fill_platform,
    format_version,
    install_folder,
    locate_program,
    parse_version,
    program_path,
)
from .unpack import BadArchive, unpack

_INSTALL_S = 1800.0
_LOOK_S = 0.2
_ERROR_MARKERS = ("ENOSPC", "ETARGET", "E404", "ENOTFOUND", "ECONNREFUSED", "No matching", "error:", "ERROR:")

Report = Callable[[str, int], None]
"""Told again and again, while an installer works: the package that it fetches, and the bytes it has written."""


def ignore_progress(package: str, written_bytes: int) -> None:
    """For callers that show none."""


def install(driver: Driver, *, report: Report = ignore_progress) -> Program:
    """Puts the driver's version in place and gives the program as it is; raises `AgentMissing` or `AgentTooOld`."""
    if driver.built_in or driver.program.hosted:
        return locate_program(driver)
    if not driver.program.install.package:
        step = f"Install {driver.program.command!r}, or set {driver.program_variable} to the program."
        if driver.family:
            step = f"Install its program, and name the command that starts it: -a '{driver.name}:COMMAND'."
        raise AgentMissing(
            f"{driver.title} cannot be installed by inspan, which has no package for it.", next_step=step
        )
    recipe = driver.program.install
    if parse_version(recipe.version) < driver.program.oldest:
        raise AgentTooOld(
            f"{driver.title} {recipe.version} is too old; "
            f"the oldest supported version is {format_version(driver.program.oldest)}.",
            next_step=f"`inspan agents install {driver.name}` has a version that works.",
        )
    target = install_folder(driver)
    before = _stamp(target)
    try:
        with lock_installs():
            if _stamp(target) in (before, ()):  # Else another process has put it there in the meantime.
                _install_atomically(driver, target, report=report)
    except OSError as error:
        raise AgentMissing(
            f"{driver.title} cannot be installed into {target}: {error.strerror or error}.",
            next_step="Check its owner and free space, or set XDG_DATA_HOME to another folder.",
        ) from error
    return locate_program(msgspec.structs.replace(driver, program=msgspec.structs.replace(driver.program, pinned=True)))


@contextmanager
def lock_installs() -> Generator[None, None, None]:
    """Holds every other installer of this data folder off; a draft that is there now is nobody's."""
    folder = os.path.join(data_home(), "agents")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with file_locks.lock_file(folder, folder=True):
        yield


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns


def _install_atomically(driver: Driver, target: str, *, report: Report) -> None:
    """The new one takes the old one's place once it is whole; until then, and if it never is, the old one stays."""
    draft, old = f"{target}.draft", f"{target}.old"
    _clear(draft, old)
    try:
        _install_into(driver, draft, report=report)
        with suppress(FileNotFoundError):
            os.rename(target, old)
        os.rename(draft, target)
    finally:
        _clear(draft, old)


def _clear(*folders: str) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _install_into(driver: Driver, folder: str, *, report: Report) -> None:
    recipe = driver.program.install
    os.makedirs(folder, mode=0o700)
    program = os.path.join(folder, fill_platform(recipe.program))
    if recipe.source == "wheel":
        output = _install_with_pip(recipe.requirement, folder, program, report=report)
        if output:
            raise _install_error(driver, output)
    else:
        _install_with_npm(driver, folder, report=report)
    if not os.path.isfile(program):
        raise _install_error(driver, "the package does not hold its program")
    os.chmod(program, 0o755)
    if recipe.node:
        _write_launcher(driver, folder)


def _write_launcher(driver: Driver, folder: str) -> None:
    """The launcher names the folder as it will be called, not the draft."""
    script = os.path.join(install_folder(driver), fill_platform(driver.program.install.program))
    path = program_path(driver, folder)
    os.makedirs(os.path.dirname(path), mode=0o700)
    with open(path, "w", encoding="utf-8") as file:
        file.write(build_launcher(script))
    os.chmod(path, 0o755)


def _install_with_npm(driver: Driver, folder: str, *, report: Report) -> None:
    _ensure_node(driver, report=report)
    recipe = driver.program.install
    package, wanted = fill_platform(recipe.package), fill_platform(recipe.requirement)
    if recipe.dependencies:
        expected = os.path.join(folder, "node_modules", package)
        output = _run_npm(folder, "install", "--omit=dev", wanted, expected=expected, report=report)
    else:
        output = _run_npm(folder, "pack", "--pack-destination", folder, wanted, expected=folder, report=report)
        if not output and recipe.extra_packages:
            companions = map(fill_platform, recipe.extra_packages)
            expected = os.path.join(folder, "node_modules")
            output = _run_npm(folder, "install", *companions, expected=expected, report=report)
        output = output or _unpack(folder, package)
    if output:
        raise _install_error(driver, output)
    _refuse_other_version(driver, os.path.join(folder, "node_modules", package))


def _run_npm(folder: str, order: str, *words: str, expected: str, report: Report) -> str:
    """Runs inspan's npm in the folder; scripts of packages would run as the user, and none of these agents needs them.

    The `.npmrc` of the folder that the user stands in is somebody's project: it has no say in where agents come from.
    """
    env = {"npm_config_cache": os.path.join(cache_home(), "npm"), **os.environ, "npm_config_update_notifier": "false"}
    always = ("--prefix", folder, "--no-global", "--ignore-scripts", "--no-save", "--no-package-lock")
    quiet = ("--no-audit", "--no-fund", "--loglevel=error")
    argv = [*npm_command(), order, *always, *quiet, *words]
    return _run_installer(argv, expected, env, cwd=folder, report=lambda written: report(words[-1], written))


def _refuse_other_version(driver: Driver, package: str) -> None:
    """npm gives an older version without a word where the newest wants another Node, and a tag can move."""
    try:
        with open(os.path.join(package, "package.json"), "rb") as file:
            got = str(msgspec.json.decode(file.read(), type=dict[str, object]).get("version", "none"))
    except (OSError, *DECODE_ERRORS) as error:
        raise _install_error(driver, f"its package.json cannot be read: {error}") from error
    wanted = driver.program.install.release or driver.program.install.version
    if got != wanted:
        raise _install_error(driver, f"version {wanted} was asked for and npm gave {got}")


def _unpack(folder: str, package: str) -> str:
    """Puts what npm fetched where npm would have; gives what is wrong with it."""
    target = os.path.join(folder, "node_modules", package)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    for name in os.listdir(folder):
        if name.endswith(".tgz"):
            # In a folder of its own: beside it lies what npm has made of the companions, with links of its own.
            unpacked = os.path.join(folder, "unpacked")
            try:
                unpack(os.path.join(folder, name), unpacked)
            except BadArchive as error:
                return f"its archive cannot be unpacked: {error}"
            os.remove(os.path.join(folder, name))
            if not os.path.isdir(os.path.join(unpacked, "package")):
                return "its archive holds no package"
            os.rename(os.path.join(unpacked, "package"), target)
            shutil.rmtree(unpacked)
    return ""


def _ensure_node(driver: Driver, *, report: Report) -> None:
    """Puts inspan's own Node in place, if it is not there yet."""
    target = node_folder()
    if os.access(node_program(), os.X_OK):
        return
    draft = f"{target}.draft"
    _clear(draft, target)
    os.makedirs(draft, mode=0o700)
    try:
        program = os.path.join(draft, os.path.relpath(node_program(), target))
        output = _install_with_pip(REQUIREMENT, draft, program, report=report)
        if output:
            raise _install_error(driver, f"it needs {REQUIREMENT}, and that said {output}")
        os.rename(draft, target)
    finally:
        _clear(draft)


def _install_with_pip(requirement: str, folder: str, program: str, *, report: Report) -> str:
    output = NONE_FOUND
    with tempfile.TemporaryDirectory(prefix="inspan-pip-") as private:
        for installer in list_installers(private):
            argv = [*installer.argv, "--no-deps", "--target", folder, requirement]
            env = {**os.environ, **installer.env}
            # In that folder: uv reads the settings of whatever project the user stands in.
            output = _run_installer(argv, program, env, cwd=folder, report=lambda written: report(requirement, written))
            if not output:
                break
    return output


def _run_installer(
    argv: Sequence[str], wanted: str, env: Mapping[str, str], *, cwd: str, report: Callable[[int], None]
) -> str:
    """Runs an installer; gives the line that tells what went wrong, and nothing when what is wanted is there."""
    try:
        with subprocess.Popen(
            argv,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            stdout, stderr = _wait_for(process, report)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if process.returncode == 0 and os.path.exists(wanted):
        return ""
    lines = [line.strip().removeprefix("npm error ") for line in (stderr or stdout).splitlines()]
    lines = [line for line in lines if line and "complete log of this run" not in line]
    telling = (line for line in lines if any(word in line for word in _ERROR_MARKERS))
    return next(telling, lines[-1] if lines else f"exit code {process.returncode} and no output")


def _wait_for(process: subprocess.Popen[str], report: Callable[[int], None]) -> tuple[str, str]:
    """What the process printed, once it has ended; whatever is raised meanwhile, it is gone then."""
    deadline = time.monotonic() + _INSTALL_S
    try:
        while True:
            report(count_written_bytes(process.pid))
            try:
                return process.communicate(timeout=_LOOK_S)
            except subprocess.TimeoutExpired:
                if time.monotonic() > deadline:
                    raise
    except BaseException:
        process.kill()
        raise


def _install_error(driver: Driver, output: str) -> AgentMissing:
    requirement = fill_platform(driver.program.install.requirement)
    check = f"Check the package index, or install it by hand and set {driver.program_variable}."
    return AgentMissing(
        f"{driver.title} could not be installed as {requirement}: {output.rstrip('.')}.",
        next_step=NONE_FOUND_STEP if output.endswith(NONE_FOUND) else check,
    )
