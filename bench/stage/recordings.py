"""What real agents said, by dialect: the recordings of the driver tests, and `bench/data` for those that are an API."""

import os
from collections.abc import Callable
from glob import glob
from typing import NamedTuple

from inspan.agents.registry import load_drivers
from inspan.contracts.dialect import Dialect
from inspan.contracts.driver import Channel, Driver
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals

from .place import ROOT

_TESTS = os.path.join(ROOT, "tests", "recordings")
_DATA = os.path.join(ROOT, "bench", "data")


class Recorded(NamedTuple):
    """A dialect, and the runs that it can read: each is its lines, without their ends."""

    name: str
    dialect: Callable[[Task, SessionTotals], Dialect]
    runs: list[list[bytes]]

    @property
    def lines(self) -> int:
        return sum(map(len, self.runs))

    @property
    def size_bytes(self) -> int:
        return sum(len(line) + 1 for run in self.runs for line in run)


def recorded() -> list[Recorded]:
    """Every dialect once, but for that of the built-in agent, whose lines are events already."""
    found: dict[str, Recorded] = {}
    for driver in load_drivers():
        for channel in driver.channels:
            name, files = _source(driver, channel)
            if name not in found and not driver.built_in:
                found[name] = Recorded(name, channel.dialect, [_lines(path) for path in files])
    return sorted(found.values())


def _source(driver: Driver, channel: Channel) -> tuple[str, list[str]]:
    """A dialect's name and its files: agents share those of an API and of the Agent Client Protocol."""
    if channel.kind == "http":
        return driver.provider.wire, [os.path.join(_DATA, f"{driver.provider.wire}.jsonl")]
    name = driver.name if channel.kind == "stream" else channel.name
    return name, sorted(glob(os.path.join(_TESTS, name, "*.jsonl")))


def _lines(path: str) -> list[bytes]:
    with open(path, "rb") as file:
        return [line for line in file.read().split(b"\n") if line]
