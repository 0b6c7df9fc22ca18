"""Where in-process runs happen: the state folder of one test, and what can be found there afterwards."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from inspan import Event, RunEnded, Task
from inspan.stores.log import read_log
from tests.house import WAIT_S

_KEPT = ("PATH", "LANG", "PYTEST_")


class Stage:
    """The folders of one test and a task to change; nothing of the machine's user is in reach."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work = root / "work"
        self.state = root / "state" / "inspan"
        self.task = Task(prompt="do it", cwd=str(self.work), agent="codex")

    def folders(self) -> list[Path]:
        """The folders of all runs, oldest first."""
        return sorted(self.state.glob("projects/*/*/runs/*"))

    def events(self, folder: Path | None = None) -> list[Event]:
        """The log of a run, or of the only one."""
        if folder is None:
            (folder,) = self.folders()
        return [record.event for record in read_log(str(folder / "events.jsonl"))]

    def ended(self) -> bool:
        """Whether the log of the only run has its last event."""
        return any(isinstance(event, RunEnded) for folder in self.folders() for event in self.events(folder))

    def left(self) -> list[str]:
        """What runs have left in the state folder: themselves, sessions, marks of living ones."""
        found = (*self.folders(), *self.state.glob("sessions/*"), *self.state.glob("active/*"))
        return [str(path.relative_to(self.state)) for path in found]

    def scenario(self, text: str, name: str = "scenario") -> str:
        """Writes a scenario file and gives the value for `model_from`."""
        path = self.root / f"{name}.toml"
        path.write_text(text)
        return f"script:{path}"


def set_stage(root: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Makes the folders of a stage and points this process at them."""
    for name in list(os.environ):
        if not name.startswith(_KEPT):
            monkeypatch.delenv(name)
    for name in ("work", "home", "state", "cache", "data"):
        (root / name).mkdir(exist_ok=True)
    for name in ("STATE", "CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(root / name.lower()))
    monkeypatch.setenv("HOME", str(root / "home"))
    return Stage(root)


def descriptors() -> list[str]:
    """The open descriptors of this process."""
    return sorted(os.listdir("/proc/self/fd"))


async def until_apart(look: Callable[[], object], what: str) -> None:
    """Looks until there is something, while the loop goes on turning."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if look():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"no {what} within {WAIT_S:g} s")
