"""inspan inside a warm program: milliseconds from the call until the agent's first event."""

import asyncio
import os
import time

from bench.sides.spent import tell
from inspan import Event, Task, run
from inspan.protocol.events import ThreadStarted


async def main(cwd: str) -> None:
    """Two runs warm it up, the third counts."""
    first_ms = [await _first_ms(cwd) for _ in range(3)]
    tell(first_ms=first_ms[-1])


async def _first_ms(cwd: str) -> float:
    seen: list[float] = []

    def note(event: Event) -> None:
        if isinstance(event, ThreadStarted):
            seen.append(time.perf_counter())

    started = time.perf_counter()
    await run(Task(prompt="go", cwd=cwd), on_event=note)
    return (seen[0] - started) * 1e3


if __name__ == "__main__":
    asyncio.run(main(os.getcwd()))
