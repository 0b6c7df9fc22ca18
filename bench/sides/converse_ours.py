"""Messages in one open session by inspan's Python API. Arguments: messages, agent, words of its own options."""

import asyncio
import os
import sys
import time
from typing import Any

import inspan
from bench.sides.spent import cpu_s, tell

_PASSED_ON = ("ANTHROPIC_BASE_URL", "BENCH_KEY")


async def main(session: inspan.AgentSession, messages: int) -> None:
    firsts: list[float] = []
    async with session:
        await _ask(session, firsts)
        firsts.clear()
        before, started = cpu_s(), time.perf_counter()
        for _ in range(messages):
            await _ask(session, firsts)
        tell(cpu_s=cpu_s() - before, wall_s=time.perf_counter() - started, first_s=firsts)


async def _ask(session: inspan.AgentSession, firsts: list[float]) -> None:
    started = time.perf_counter()
    sent = await session.follow_up("What is the answer?")
    async for record in sent:
        if record.kind == "text_said":
            break
    firsts.append(time.perf_counter() - started)
    result = await sent
    if result.message != "The answer is 42.":
        raise RuntimeError(f"the answer was {result.message!r}: {result.error}")


if __name__ == "__main__":
    given: dict[str, Any] = {
        "cwd": os.getcwd(),
        "profile": "clean",
        "model_from": "direct",
        "mode": "complete",
        "options": sys.argv[3:],
        "env": {name: os.environ[name] for name in _PASSED_ON if name in os.environ},
    }
    asyncio.run(main(inspan.open_session(sys.argv[2], **given), int(sys.argv[1])))
