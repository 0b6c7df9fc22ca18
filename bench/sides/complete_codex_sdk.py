"""The same by the other vendor's SDK, a fresh client for each call. Arguments: calls, program, config overrides."""

import asyncio
import os
import sys
import time

from openai_codex import AsyncCodex, CodexConfig, Sandbox

from bench.sides.spent import cpu_s, tell


async def main(config: CodexConfig, calls: int) -> None:
    await _ask(config)
    before, started = cpu_s(), time.perf_counter()
    for _ in range(calls):
        await _ask(config)
    tell(cpu_s=cpu_s() - before, wall_s=time.perf_counter() - started)


async def _ask(config: CodexConfig) -> None:
    async with AsyncCodex(config) as client:
        thread = await client.thread_start(cwd=os.getcwd(), sandbox=Sandbox.read_only)
        turn = await thread.run("What is the answer?")
    if turn.final_response != "The answer is 42.":
        raise RuntimeError(f"the answer was {turn.final_response!r}")


if __name__ == "__main__":
    chosen = CodexConfig(codex_bin=sys.argv[2], cwd=os.getcwd(), config_overrides=tuple(sys.argv[3:]))
    asyncio.run(main(chosen, int(sys.argv[1])))
