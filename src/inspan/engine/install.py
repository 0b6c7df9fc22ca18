"""Installing an agent's program into inspan's own folder: pinned, from its package, touching nothing else."""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence

import msgspec

from inspan.contracts.driver import Driver
from inspan.errors import AgentMissing
from inspan.stores.paths import cache_home

from .node import REQUIREMENT, launcher, node_folder, node_program, npm_command
from .program import Program, installed_folder, installed_program, locate, on_this_machine

_INSTALL_S = 1800.0
_TELLING = ("ENOSPC", "ETARGET", "E404", "ENOTFOUND", "ECONNREFUSED", "No matching", "error:", "ERROR:")


def install(driver: Driver) -> Program:
    """Puts the driver's version in place and gives the program as it will be found; raises `AgentMissing`."""
    if driver.built_in or driver.hosted:
        return locate(driver)
    if not driver.install.package:
        raise AgentMissing(
            f"{driver.title} is installed by you: inspan has no package for it.",
            next_step=f"Install {driver.program!r}, or set {driver.program_variable} to the program.",
        )
    target = installed_folder(driver)
    draft = f"{target}.{os.getpid()}.draft"
    try:
        _placed(driver, draft)
        shutil.rmtree(target, ignore_errors=True)
        os.rename(draft, target)
    except OSError as error:
        raise AgentMissing(
            f"{driver.title} cannot be installed into {target}: {error.strerror or error}.",
            next_step="Check its owner and free space, or set XDG_DATA_HOME to another folder.",
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return locate(driver, {"PATH": ""})


def _placed(driver: Driver, folder: str) -> None:
    recipe = driver.install
    os.makedirs(folder, mode=0o700)
    program = os.path.join(folder, on_this_machine(recipe.program))
    if recipe.source == "wheel":
        _by_pip(driver.title, recipe.requirement, folder, program)
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
    ensure_node()
    recipe = driver.install
    wanted = on_this_machine(recipe.requirement)
    env = {"npm_config_cache": os.path.join(cache_home(), "npm"), **os.environ, "npm_config_update_notifier": "false"}
    quiet = ("--no-audit", "--no-fund", "--loglevel=error")
    if recipe.dependencies:
        # Scripts of packages run as the user: none of these agents needs them.
        words = ("install", "--prefix", folder, "--ignore-scripts", "--omit=dev", "--no-package-lock", *quiet, wanted)
        said = _said([*npm_command(), *words], program, env)
    else:
        said = _said([*npm_command(), "pack", "--pack-destination", folder, *quiet, wanted], folder, env)
        if not said and recipe.companions:
            words = ("install", "--prefix", folder, "--ignore-scripts", "--no-save", "--no-package-lock", *quiet)
            said = _said([*npm_command(), *words, *recipe.companions], os.path.join(folder, "node_modules"), env)
        if not said:
            _unpack(folder, on_this_machine(recipe.package))
    if said:
        raise _not_installed(driver, said)
    _refuse_other_version(driver, os.path.join(folder, "node_modules", on_this_machine(recipe.package)))


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


def _unpack(folder: str, package: str) -> None:
    target = os.path.join(folder, "node_modules", package)
    os.makedirs(target)
    for name in os.listdir(folder):
        if name.endswith(".tgz"):
            with tarfile.open(os.path.join(folder, name)) as archive:
                archive.extractall(folder, filter="data")
            os.remove(os.path.join(folder, name))
    os.rmdir(target)
    os.rename(os.path.join(folder, "package"), target)


def ensure_node() -> None:
    """Puts inspan's own Node in place, if it is not there yet; raises `AgentMissing`."""
    target = node_folder()
    if os.access(node_program(), os.X_OK):
        return
    draft = f"{target}.{os.getpid()}.draft"
    os.makedirs(draft, mode=0o700)
    try:
        _by_pip("Node", REQUIREMENT, draft, os.path.join(draft, os.path.relpath(node_program(), target)))
        if not os.path.exists(target):
            os.rename(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _by_pip(title: str, requirement: str, folder: str, program: str) -> None:
    said = "no installer was found"
    for installer in _installers():
        said = _said([*installer, "--no-deps", "--target", folder, requirement], program, os.environ)
        if not said:
            return
    raise _failed(title, requirement, said)


def _said(argv: Sequence[str], wanted: str, env: Mapping[str, str]) -> str:
    """Runs an installer; gives the line that tells what went wrong, and nothing when what is wanted is there."""
    try:
        done = subprocess.run(
            argv,
            env=dict(env),
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
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    telling = (line for line in lines if any(word in line for word in _TELLING))
    return next(telling, lines[-1] if lines else f"exit code {done.returncode} and no word")


def _not_installed(driver: Driver, said: str) -> AgentMissing:
    return _failed(driver.title, driver.install.requirement, said, variable=driver.program_variable)


def _failed(title: str, requirement: str, said: str, *, variable: str = "INSPAN_<AGENT>_BIN") -> AgentMissing:
    return AgentMissing(
        f"{title} could not be installed as {on_this_machine(requirement)}: {said}.",
        next_step=f"Check the package index, or install it by hand and set {variable}.",
    )


def _installers() -> list[list[str]]:
    """uv where it can be had, then pip."""
    beside = os.path.join(os.path.dirname(sys.executable), "uv")
    uv = beside if os.path.exists(beside) else shutil.which("uv")
    found = [[uv, "pip", "install", "--quiet", "--python", sys.executable]] if uv else []
    return [*found, [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]]
