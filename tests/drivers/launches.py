"""Where a run of a launch test happens, and what its command line is made of."""

from typing import Any

import msgspec

from inspan.contracts.driver import Driver, Endpoint, Launch, LaunchContext
from inspan.protocol.task import Task

ENDPOINT = Endpoint(url="http://127.0.0.1:1", token="run-token", variable="ANTHROPIC_API_KEY")


def build_launch(driver: Driver, place: LaunchContext, **fields: Any) -> Launch:
    """The launch of a task with these fields at this place."""
    task = msgspec.structs.replace(Task(prompt="do it", cwd=place.cwd), **fields)
    return driver.channels[0].launch(task, place)


def values_after(argv: tuple[str, ...], flag: str) -> list[str]:
    """The word behind each occurrence of a flag."""
    return [argv[index + 1] for index, word in enumerate(argv) if word == flag]
