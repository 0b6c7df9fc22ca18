"""The cache that runs of an agent share: programs start from there, so no sandbox may write it."""

import os
from collections.abc import Mapping

from inspan.agents.program import Program
from inspan.contracts.driver import Driver
from inspan.stores.paths import cache_home, make_private_folder
from inspan.stores.run_folder import write_text

_UNPACK_S = 120.0
_PASSED_ON = ("HOME", "LANG", "PATH", "TMPDIR")


def find_shared_cache(driver: Driver, env: Mapping[str, str]) -> str:
    """The folder, which is made."""
    return make_private_folder(os.path.join(cache_home(env), "agents", driver.program.command))


def fill_shared_cache(driver: Driver, program: Program, env: Mapping[str, str]) -> None:
    """Lets a program unpack itself, once for each version, so that a sandbox need not write there.

    One that cannot will say so in its run.
    """
    import subprocess  # Start-up time: few programs unpack themselves.

    folder = find_shared_cache(driver, env)
    mark = f"{folder}-{program.version}.unpacked"
    if os.path.exists(mark):
        return
    given = {name: env[name] for name in _PASSED_ON if name in env}
    given |= {**driver.program.probe_env, driver.program.unpack_variable: folder}
    try:
        done = subprocess.run(
            [program.path, "--version"],
            env=given,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_UNPACK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    if done.returncode == 0:
        write_text(mark, program.path)
