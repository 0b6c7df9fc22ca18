"""Open sessions of a puppet: what a question and a tool take, what many idle ones hold. Arguments: what, program."""

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack

import inspan
from bench.sides.spent import tell

_IDLE_S = 5.0


@inspan.tool
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


async def _allow(request: inspan.PermissionRequest) -> bool:
    return True


async def ask(agent: str, scenario: str) -> None:
    """Round trips of questions and tools, as the agent sees them."""
    async with inspan.open_session(agent, profile="user", cwd=os.getcwd(), on_permission=_allow) as session:
        asked = json.loads((await session.send_message("ask")).message)
    options = {"model_from": f"script:{scenario}", "tools": [add]}
    async with inspan.open_session(agent, profile="user", cwd=os.getcwd(), **options) as session:  # pyright: ignore[reportArgumentType]  mixed options
        called = json.loads((await session.send_message("call")).message)
    tell(ask_s=asked, tool_s=called)


async def idle(agent: str, count: int, supervised: bool) -> None:
    """Opens sessions, speaks once to each, and leaves them alone."""
    async with AsyncExitStack() as stack:
        sessions = [
            await stack.enter_async_context(
                inspan.open_session(agent, profile="user", cwd=os.getcwd(), supervised=supervised)
            )
            for _ in range(count)
        ]
        for session in sessions:
            await session.send_message("hello")
        pids = _list_owners() if supervised else [os.getpid()]
        before, held = [_cpu_of(pid) for pid in pids], sum(map(_private_mb, pids))
        await asyncio.sleep(_IDLE_S)
        spent = sum(_cpu_of(pid) - earlier for pid, earlier in zip(pids, before, strict=True))
        tell(memory_mb=held, processes=len(pids), cpu_share=spent / _IDLE_S)


def _list_owners() -> list[int]:
    """The supervisors that this process has started."""
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(word) for word in file.read().split()]


def _private_mb(pid: int) -> float:
    """What a process holds for itself, with its part of what it shares."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        line = next(line for line in file if line.startswith("Pss:"))
    return int(line.split()[1]) * 1024 / 1e6


def _cpu_of(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    what, agent, *more = sys.argv[1:]
    if what == "ask":
        asyncio.run(ask(agent, *more))
    else:
        asyncio.run(idle(agent, int(more[0]), what == "supervised"))
