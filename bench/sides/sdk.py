"""The vendor's SDK inside a program, doing the same. Arguments: runs, at once, program, longest line in bytes."""

import asyncio
import os
import sys

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

from bench.sides.spent import cpu_s, peak_mb, tell


async def main(options: ClaudeAgentOptions, *, runs: int, at_once: int) -> None:
    messages = 0
    places = asyncio.Semaphore(at_once)

    async def one() -> None:
        nonlocal messages
        finished = False
        async with places:
            async for message in query(prompt="go", options=options):
                messages += 1
                finished = finished or isinstance(message, ResultMessage)
        if not finished:
            raise RuntimeError("a run had no result")

    before = cpu_s()
    await asyncio.gather(*(one() for _ in range(runs)))
    tell(cpu_s=cpu_s() - before, peak_mb=peak_mb(), events=messages)


if __name__ == "__main__":
    chosen = ClaudeAgentOptions(
        cli_path=sys.argv[3],
        cwd=os.getcwd(),
        permission_mode="bypassPermissions",
        max_buffer_size=int(sys.argv[4]),
    )
    asyncio.run(main(chosen, runs=int(sys.argv[1]), at_once=int(sys.argv[2])))
