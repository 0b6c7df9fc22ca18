"""What inspan itself has installed of an agent: looked for, and taken away again."""

import os
import shutil

import msgspec

from inspan.contracts.driver import Driver
from inspan.errors import AgentUnusable
from inspan.stores.orphans import disk_bytes
from inspan.stores.paths import data_home

from .install import lock_installs
from .program import parse_version

_UNFINISHED = (".draft", ".old")


class InstalledProgram(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a program in inspan's own folder."""

    command: str
    version: str
    folder: str

    @property
    def size_bytes(self) -> int:
        """The room that it takes on the disk."""
        return disk_bytes(self.folder)


def list_installed(driver: Driver) -> list[InstalledProgram]:
    """Every version of the agent's program, and of those that its channels have for themselves; the oldest first.

    Of a driver that is held to one version only that one.
    """
    commands = dict.fromkeys([driver.program.command, *(each.program for each in driver.channels if each.program)])
    found = [
        InstalledProgram(command=command, version=version, folder=os.path.join(folder, version))
        for command in commands
        if command
        for folder in [os.path.join(data_home(), "agents", command)]
        for version in _list_versions(folder)
    ]
    pinned = driver.program.install.version if driver.program.pinned else ""
    return [each for each in found if pinned in ("", each.version)]


def uninstall(program: InstalledProgram) -> None:
    """Deletes it; raises `AgentUnusable` where that cannot be done. It is whole or not there for whoever looks."""
    old = f"{program.folder}.old"
    try:
        with lock_installs():
            shutil.rmtree(old, ignore_errors=True)
            os.rename(program.folder, old)
            shutil.rmtree(old)
            if not os.listdir(os.path.dirname(program.folder)):
                os.rmdir(os.path.dirname(program.folder))
    except FileNotFoundError:
        return  # Somebody else has deleted it.
    except OSError as error:
        raise AgentUnusable(
            f"{program.folder} cannot be deleted: {error.strerror or error}.",
            next_step="Check the owner and the mode of the folder that it is in.",
        ) from error


def _list_versions(folder: str) -> list[str]:
    try:
        names = [name for name in os.listdir(folder) if not name.endswith(_UNFINISHED)]
    except OSError:
        return []
    return sorted(names, key=parse_version)
