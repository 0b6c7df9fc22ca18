"""A private place for one bench: folders and an environment in which nothing of the machine's user is in reach."""

import atexit
import os
import random
import shutil
import string
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_FOLDERS = ("home", "state", "cache", "data", "config", "run", "work", "agent")
_SMALL_BYTES = 64 * 1024


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

    def empty_runs(self) -> None:
        """Gives back the room that the runs so far take, without deleting a file.

        After many deletions ext4 walks past each deleted inode for minutes, at 0.2 ms for every file that is made.
        """
        for folder, _, names in os.walk(os.path.join(self.state, "projects")):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.getsize(path) > _SMALL_BYTES:
                    os.truncate(path, 0)


@contextmanager
def place() -> Generator[Place]:
    """A fresh place, emptied afterwards and gone with the process: deleting it now would slow what follows."""
    root = tempfile.mkdtemp(prefix="inspan-bench-")
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    made = Place(root)
    try:
        yield made
    finally:
        made.empty_runs()


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
