"""A private place for one bench: folders and an environment in which nothing of the machine's user is in reach."""

import os
import random
import shutil
import string
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_FOLDERS = ("home", "state", "cache", "data", "config", "run", "work", "agent")


class Place:
    """Folders below one temporary folder, and the environment that points there."""

    def __init__(self, root: str) -> None:
        self.root = root
        for name in _FOLDERS:
            os.mkdir(os.path.join(root, name), mode=0o700)
        self.env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": self.path("home"),
            "PYTHONPATH": ROOT,
            **{f"XDG_{name.upper()}_HOME": self.path(name) for name in ("state", "cache", "data", "config")},
            "XDG_RUNTIME_DIR": self.path("run"),
        }

    def path(self, *names: str) -> str:
        return os.path.join(self.root, *names)

    @property
    def state(self) -> str:
        return self.path("state", "inspan")

    def forget_runs(self) -> None:
        """Removes what the runs so far have left; caches stay."""
        shutil.rmtree(self.state, ignore_errors=True)


@contextmanager
def place() -> Iterator[Place]:
    """A fresh place, gone afterwards."""
    root = tempfile.mkdtemp(prefix="inspan-bench-")
    try:
        yield Place(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def secrets(count: int) -> dict[str, str]:
    """Variables that hold secrets as providers make them; none of them occurs in the frames."""
    chance = random.Random(11)
    alphabet = string.ascii_letters + string.digits + "+/-_"
    kinds = ("sk-ant-api03-", "ghp_", "AKIA", "xoxb-", "")

    def value(number: int) -> str:
        return kinds[number % len(kinds)] + "".join(chance.choices(alphabet, k=chance.randrange(20, 60)))

    return {f"SERVICE_{number}_TOKEN": value(number) for number in range(count)}


def inspan(*arguments: str) -> list[str]:
    """The command line as a user calls it: the console script beside this Python."""
    return [os.path.join(os.path.dirname(sys.executable), "inspan"), *arguments]
