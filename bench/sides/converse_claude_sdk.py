"""The same by the vendor's client. Arguments: messages, program."""

import asyncio
import os
import sys
import time

from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, ClaudeSDKClient, ResultMessage

from bench.sides.spent import cpu_s, tell


async def main(options: ClaudeAgentOptions, messages: int) -> None:
    firsts: list[float] = []
    async with ClaudeSDKClient(options) as client:
        await _ask(client, firsts)
        firsts.clear()
        before, started = cpu_s(), time.perf_counter()
        for _ in range(messages):
            await _ask(client, firsts)
        tell(cpu_s=cpu_s() - before, wall_s=time.perf_counter() - started, first_s=firsts)


async def _ask(client: ClaudeSDKClient, firsts: list[float]) -> None:
    started, answer = time.perf_counter(), ""
    await client.query("What is the answer?")
    async for message in client.receive_response():
        if isinstance(message, AssistantMessage):
            firsts.append(time.perf_counter() - started)
        if isinstance(message, ResultMessage):
            answer = message.result or ""
    if answer != "The answer is 42.":
        raise RuntimeError(f"the answer was {answer!r}")


if __name__ == "__main__":
    chosen = ClaudeAgentOptions(
        cli_path=sys.argv[2], cwd=os.getcwd(), tools=[], permission_mode="dontAsk", setting_sources=[]
    )
    asyncio.run(main(chosen, int(sys.argv[1])))
