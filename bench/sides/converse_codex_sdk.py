"""The same by the other vendor's SDK, in one thread. Arguments: messages, program, config overrides."""

import asyncio
import os
import sys
import time

from openai_codex import AsyncCodex, AsyncThread, CodexConfig, Sandbox

from bench.sides.spent import cpu_s, tell


async def main(config: CodexConfig, messages: int) -> None:
    firsts: list[float] = []
    async with AsyncCodex(config) as client:
        thread = await client.thread_start(cwd=os.getcwd(), sandbox=Sandbox.read_only)
        await _ask(thread, firsts)
        firsts.clear()
        before, started = cpu_s(), time.perf_counter()
        for _ in range(messages):
            await _ask(thread, firsts)
        tell(cpu_s=cpu_s() - before, wall_s=time.perf_counter() - started, first_s=firsts)


async def _ask(thread: AsyncThread, firsts: list[float]) -> None:
    started, answer = time.perf_counter(), ""
    turn = await thread.turn("What is the answer?")
    async for event in turn.stream():
        item = getattr(getattr(event.payload, "item", None), "root", None)
        if event.method == "item/completed" and getattr(item, "text", ""):
            firsts.append(time.perf_counter() - started)
            answer = getattr(item, "text", "")
    if answer != "The answer is 42.":
        raise RuntimeError(f"the answer was {answer!r}")


if __name__ == "__main__":
    chosen = CodexConfig(codex_bin=sys.argv[2], cwd=os.getcwd(), config_overrides=tuple(sys.argv[3:]))
    asyncio.run(main(chosen, int(sys.argv[1])))
