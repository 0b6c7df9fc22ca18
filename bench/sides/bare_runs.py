"""Runs one after the other, as a program of one's own would: `bare_runs.py COUNT PROMPT MODEL`.

Prints as JSON what each took from its preparation until its last record was read.
"""

import asyncio
import json
import os
import sys
import time

from inspan.planning.prepare import prepare
from inspan.protocol.task import Task
from inspan.running.start import start_supervisor
from inspan.runs.follow_async import follow_records


async def main(count: int, prompt: str, model_from: str) -> None:
    """One after the other; nothing is done between two."""
    spent: list[float] = []
    task = Task(prompt=prompt, cwd=os.getcwd(), agent="scripted", profile="clean", model_from=model_from)
    for _ in range(count):
        began = time.perf_counter()
        prepared = prepare(task)
        pid = start_supervisor(prepared)
        async for _record in follow_records(prepared.plan.state, prepared.folder, poll_s=5.0):
            pass
        spent.append(time.perf_counter() - began)
        await asyncio.to_thread(os.waitpid, pid, 0)
    print(json.dumps({"wall_s": spent}))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), *sys.argv[2:]))
