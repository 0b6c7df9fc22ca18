"""The ground that an agent must not touch: a repository, a home and a neighbour, compared before and after."""

import json
import os
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from tests.cli_env import CliEnv

_GIT = ("git", "-c", "user.name=owner", "-c", "user.email=owner@localhost", "-c", "gc.auto=0")


class ProtectedFolders:
    """Lays out a house: a repository to work in, a HOME with a file, and a folder beside it."""

    def __init__(self, cli_env: CliEnv) -> None:
        self.work = cli_env.work
        self.home = Path(cli_env.env["HOME"])
        self.sibling = cli_env.root / "neighbour"
        self.sibling.mkdir()
        for folder in (self.work, self.home, self.sibling):
            (folder / "kept.txt").write_text("original words\n")
        for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "the first commit")):
            subprocess.run([*_GIT, *words], cwd=self.work, env=cli_env.env, check=True, capture_output=True)
        # As after a checkout: git would like to write a fresh index as soon as it is asked for anything.
        os.utime(self.work / "kept.txt", (1_000_000_000, 1_000_000_000))
        self._before = self.listing()

    def listing(self) -> dict[str, str]:
        """Every file, folder and link below, with its mode and a hash of what it holds."""
        return {
            str(path): _fingerprint(path)
            for folder in (self.work, self.home, self.sibling)
            for path in _walk_below(folder)
        }

    def changes(self) -> list[str]:
        """What was added, removed or changed since it was laid out or last looked at."""
        before, after = self._before, self.listing()
        return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))

    def reset_baseline(self) -> None:
        """Takes the ground as it is now for what it should be."""
        self._before = self.listing()


def build_scenario(*steps: str) -> str:
    """A scenario of these steps, one for each model call."""
    return "".join(f"[[call]]\n{step}\n" for step in steps)


def run_step(command: str, *, expect: str = "") -> str:
    """A step that runs a shell command; `expect` must stand in what came back from the step before."""
    return f"run = {json.dumps(command)}\n" + (f"expect = {json.dumps(expect)}\n" if expect else "")


def use_step(tool: str, *, expect: str = "", **given: str) -> str:
    """A step that calls a tool by its name, offered or not."""
    fields = ", ".join(f"{name} = {json.dumps(value)}" for name, value in given.items())
    expected = f"expect = {json.dumps(expect)}\n" if expect else ""
    return f"use = {{tool = {json.dumps(tool)}, input = {{{fields}}}}}\n{expected}"


def say_step(text: str, *, expect: str = "") -> str:
    return f"say = {json.dumps(text)}\n" + (f"expect = {json.dumps(expect)}\n" if expect else "")


def _walk_below(folder: Path) -> Iterator[Path]:
    yield folder
    yield from folder.rglob("*")


def _fingerprint(path: Path) -> str:
    found = path.lstat()
    held = f"-> {path.readlink()}" if path.is_symlink() else ""
    if path.is_file() and not path.is_symlink():
        held = sha256(path.read_bytes()).hexdigest()
    return f"{found.st_mode:o} {held}"
