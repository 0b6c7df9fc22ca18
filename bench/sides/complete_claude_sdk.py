"""The same by the vendor's SDK, with a fresh client for each call. Arguments: calls, program."""

import asyncio
import os
import sys
import time

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

from bench.sides.spent import cpu_s, tell


async def main(options: ClaudeAgentOptions, calls: int) -> None:
    await _ask(options)
    before, started = cpu_s(), time.perf_counter()
    for _ in range(calls):
        await _ask(options)
    tell(cpu_s=cpu_s() - before, wall_s=time.perf_counter() - started)


async def _ask(options: ClaudeAgentOptions) -> None:
    answer = ""
    async for message in query(prompt="What is the answer?", options=options):
        if isinstance(message, ResultMessage):
            answer = message.result or ""
    if answer != "The answer is 42.":
        raise RuntimeError(f"the answer was {answer!r}")


if __name__ == "__main__":
    chosen = ClaudeAgentOptions(
        cli_path=sys.argv[2],
        cwd=os.getcwd(),
        tools=[],
        permission_mode="dontAsk",
        setting_sources=[],
    )
    asyncio.run(main(chosen, int(sys.argv[1])))
