"""A terminal to type commands into: programs print there what a person at a screen would see."""

import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.house import House


class Terminal:
    """Types commands in a house, one after the other; `$?` is the exit code of the one before."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._code = 0
        programs = str(Path(sys.executable).parent)
        self._env = {**house.env, "PATH": f"{programs}{os.pathsep}{house.env['PATH']}", "NO_COLOR": "1"}

    def type(self, command: str) -> str:
        """Runs a command to its end; gives everything that it printed."""
        printed, self._code = _typed(f"(exit {self._code}); {command}", cwd=self._house.work, env=self._env)
        return printed


def _typed(command: str, *, cwd: Path, env: Mapping[str, str]) -> tuple[str, int]:
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            ["bash", "-c", command], cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
        )
    finally:
        os.close(theirs)
    pieces: list[bytes] = []
    try:
        while piece := os.read(ours, 65536):
            pieces.append(piece)
    except OSError:
        pass  # So ends a terminal whose last writer has left.
    finally:
        os.close(ours)
    return b"".join(pieces).decode().replace("\r\n", "\n"), process.wait()
