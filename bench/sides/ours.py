"""inspan inside a program: so many runs, so many at once. Arguments: runs, at once, engine of redaction."""

import asyncio
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence

from bench.sides.spent import cpu_s, peak_mb, tell
from inspan import Event, Task, run
from inspan.redaction import secret_set
from inspan.redaction.engines import Engine, Finder, build_finder


async def main(cwd: str, *, runs: int, at_once: int) -> None:
    events = 0
    places = asyncio.Semaphore(at_once)

    async def count(event: Event) -> None:
        nonlocal events
        events += 1

    async def one() -> None:
        async with places:
            ended = await run(Task(prompt="go", cwd=cwd), on_event=count)
        if ended.outcome != "completed":
            raise RuntimeError(f"{ended.outcome}: {ended.error}")

    before = cpu_s()
    await asyncio.gather(*(one() for _ in range(runs)))
    tell(cpu_s=cpu_s() - before, peak_mb=peak_mb(), events=events)


def _hyperscan(
    patterns: Sequence[bytes],
    cores_of: Mapping[bytes, bytes],
    *,
    digits_from: int,
    marks: Collection[bytes],
    rare_cores: Callable[[], Mapping[bytes, bytes]],
    engine: Engine,
) -> Finder:
    return build_finder(
        patterns, cores_of, digits_from=digits_from, marks=marks, rare_cores=rare_cores, engine="hyperscan"
    )


if __name__ == "__main__":
    if sys.argv[3] == "hyperscan":
        # Left to itself, a set of this size does without hyperscan; here the question is what it would gain.
        secret_set.build_finder = _hyperscan
    asyncio.run(main(os.getcwd(), runs=int(sys.argv[1]), at_once=int(sys.argv[2])))
