"""Installing an agent's program into inspan's own folder: pinned, from its wheel, touching nothing else."""

import os
import shutil
import subprocess
import sys

from inspan.contracts.driver import Driver
from inspan.errors import AgentMissing

from .program import Program, installed_folder, locate

_INSTALL_S = 1800.0


def install(driver: Driver) -> Program:
    """Puts the driver's pinned version in place and gives the program as it will be found; raises `AgentMissing`."""
    if driver.built_in:
        return locate(driver)
    target = installed_folder(driver)
    draft = f"{target}.{os.getpid()}.draft"
    try:
        _fetch(driver, draft)
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


def _fetch(driver: Driver, target: str) -> None:
    os.makedirs(target, mode=0o700)
    said = ""
    for installer in _installers():
        argv = [*installer, "--no-deps", "--target", target, driver.install.requirement]
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_INSTALL_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            said = str(error)
            continue
        if done.returncode == 0 and os.path.isfile(os.path.join(target, driver.install.program)):
            os.chmod(os.path.join(target, driver.install.program), 0o755)
            return
        said = (done.stderr or done.stdout).strip().splitlines()[-1:][0] if (done.stderr or done.stdout) else ""
    raise AgentMissing(
        f"{driver.title} could not be installed as {driver.install.requirement}: {said or 'no installer was found'}.",
        next_step=f"Check the package index, or install it by hand and set {driver.program_variable}.",
    )


def _installers() -> list[list[str]]:
    """uv where it can be had, then pip."""
    beside = os.path.join(os.path.dirname(sys.executable), "uv")
    uv = beside if os.path.exists(beside) else shutil.which("uv")
    found = [[uv, "pip", "install", "--quiet", "--python", sys.executable]] if uv else []
    return [*found, [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]]
