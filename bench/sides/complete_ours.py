"""`complete` by inspan's Python API, one call after the other. Arguments: calls, agent, words of its own options."""

import asyncio
import os
import sys
import time
from typing import Any

import msgspec

import inspan
from bench.sides.spent import cpu_s, tell

_PASSED_ON = ("ANTHROPIC_BASE_URL", "BENCH_KEY")


async def main(runner: inspan.AgentRunner, calls: int) -> None:
    await _ask(runner)
    before, started = cpu_s(), time.perf_counter()
    for _ in range(calls):
        await _ask(runner)
    tell(cpu_s=cpu_s() - before, wall_s=time.perf_counter() - started)


async def _ask(runner: inspan.AgentRunner) -> None:
    result = await runner.complete("What is the answer?")
    if result.message != "The answer is 42.":
        raise RuntimeError(f"{msgspec.to_builtins(result)}")


if __name__ == "__main__":
    given: dict[str, Any] = {
        "cwd": os.getcwd(),
        "profile": "clean",
        "model_from": "direct",
        "options": sys.argv[3:],
        "env": {name: os.environ[name] for name in _PASSED_ON if name in os.environ},
    }
    asyncio.run(main(inspan.create_agent_runner(sys.argv[2], **given), int(sys.argv[1])))
