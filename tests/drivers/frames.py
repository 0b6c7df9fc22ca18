"""Recorded output of the real programs, read through a driver's dialect."""

from pathlib import Path
from typing import Any

from inspan.contracts.driver import Driver
from inspan.protocol.events import Event
from inspan.protocol.task import Task
from inspan.protocol.usage import SessionTotals

RECORDINGS = Path(__file__).parent.parent / "recordings"


def names(agent: str) -> list[str]:
    return sorted(path.stem for path in (RECORDINGS / agent).glob("*.jsonl"))


def events_of(driver: Driver, name: str, **fields: Any) -> list[Event]:
    """Every event that a recording gives, in order; `fields` are those of the task that matter."""
    dialect = driver.channels[0].dialect(Task(prompt="do it", cwd="/WORK", **fields), SessionTotals())
    lines = (RECORDINGS / driver.name / f"{name}.jsonl").read_bytes().splitlines()
    return [event for line in lines if line for event in dialect.receive(line).events]


def kinds_of(driver: Driver, name: str) -> str:
    """The kinds of those events, shortly: one word each."""
    return " ".join(type(event).__name__ for event in events_of(driver, name))
