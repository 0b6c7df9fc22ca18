"""A terminal to type commands into: programs print there what a person at a screen would see."""

import os
import pty
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path

import inspan
from tests.cli_env import CliEnv

_EXPORT = re.compile(r"export (\w+)=(\S+)")


class Terminal:
    """Types commands in one folder of a house, one after the other; `$?` is the exit code of the one before."""

    def __init__(self, cli_env: CliEnv, folder: Path | None = None) -> None:
        self.folder = folder or cli_env.work
        self._code = 0
        programs = str(Path(sys.executable).parent)
        self._env = {**cli_env.env, "PATH": f"{programs}{os.pathsep}{cli_env.env['PATH']}", "NO_COLOR": "1"}

    def type(self, command: str) -> str:
        """Runs a command to its end; gives everything that it printed. An `export` alone holds from then on."""
        if found := _EXPORT.fullmatch(command):
            self._env[found[1]] = self._run(f"printf %s {found[2]}")
            return ""
        return self._run(f"(exit {self._code}); {command}")

    def add_driver(self, name: str, text: str) -> None:
        """Puts a file among the drivers of a copy of inspan, which is the one that commands run from then on."""
        copy = self.folder.parent / "copy"
        if not copy.exists():
            self._env["PATH"] = f"{_environment_with(copy)}{os.pathsep}{self._env['PATH']}"
        (copy / "inspan" / "drivers" / name).write_text(text)

    def _run(self, command: str) -> str:
        printed, self._code = _run_in_pty(command, cwd=self.folder, env=self._env)
        return printed


def _environment_with(copy: Path) -> Path:
    """A Python environment in which inspan is a copy of ours, and all else is as here; gives its folder of programs."""
    shutil.copytree(Path(inspan.__file__).parent, copy / "inspan", ignore=shutil.ignore_patterns("__pycache__"))
    made = copy / "environment"
    venv.create(made, symlinks=True)
    packages = sysconfig.get_path("purelib", vars={"base": str(made)})
    Path(packages, "copy.pth").write_text(f"{copy}\n{sysconfig.get_path('purelib')}\n")
    command = made / "bin" / "inspan"
    command.write_text(f'#!/bin/sh\nexec "{made}/bin/python" -m inspan "$@"\n')
    command.chmod(0o755)
    return command.parent


def _run_in_pty(command: str, *, cwd: Path, env: Mapping[str, str]) -> tuple[str, int]:
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
