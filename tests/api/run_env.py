"""Where in-process runs happen: the state folder of one test, and what can be found there afterwards."""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from inspan import Event, RunEnded, Task
from inspan.stores.event_log import read_log
from tests.cli_env import WAIT_S, short_folder

_KEPT = ("PATH", "LANG", "PYTEST_")


class RunEnv:
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

    def has_ended(self) -> bool:
        """Whether the log of the only run has its last event."""
        return any(isinstance(event, RunEnded) for folder in self.folders() for event in self.events(folder))

    def list_leftovers(self) -> list[str]:
        """What runs have left in the state folder: themselves, sessions, marks of living ones."""
        found = (*self.folders(), *self.state.glob("sessions/*"), *self.state.glob("active/*"))
        return [str(path.relative_to(self.state)) for path in found]

    def scenario(self, text: str, name: str = "scenario") -> str:
        """Writes a scenario file and gives the value for `model_from`."""
        path = self.root / f"{name}.toml"
        path.write_text(text)
        return f"script:{path}"


def make_run_env(root: Path, monkeypatch: pytest.MonkeyPatch) -> RunEnv:
    """Makes the folders of a stage and points this process at them."""
    for name in list(os.environ):
        if not name.startswith(_KEPT):
            monkeypatch.delenv(name)
    for name in ("work", "home", "state", "cache", "data"):
        (root / name).mkdir(exist_ok=True)
    for name in ("STATE", "CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(root / name.lower()))
    monkeypatch.setenv("HOME", str(root / "home"))
    run_env = RunEnv(root)
    monkeypatch.setenv("XDG_RUNTIME_DIR", short_folder(run_env))
    return run_env


def descriptors() -> set[tuple[int, str]]:
    """The open descriptors of this process, each with what is open: a closed number may be taken anew."""
    found = set[tuple[int, str]]()
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # The listing's own.
            found.add((int(number), os.readlink(f"/proc/self/fd/{number}").removesuffix(" (deleted)")))
    return found


async def wait_until_async(look: Callable[[], object], what: str) -> None:
    """Looks until there is something, while the loop goes on turning."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if look():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"no {what} within {WAIT_S:g} s")
