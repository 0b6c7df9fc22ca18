"""An agent's program without inspan around it, started once as inspan would start it. Arguments: agent, mode, scenario.

Prints the milliseconds until the first line of its output that tells something, and the kind of event that is its.
"""

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec

from bench.sides.spent import tell
from inspan.agents.program import locate_program
from inspan.agents.registry import find_driver
from inspan.contracts.dialect import Dialect
from inspan.contracts.driver import Driver
from inspan.gateway import Gateway, ScriptUpstream, load_scenario
from inspan.planning.prepare import discard, prepare
from inspan.protocol.task import Mode, Task
from inspan.protocol.usage import SessionTotals
from inspan.running.prepared_run import PreparedRun

_LINE_BYTES = 64 * 1024 * 1024
_LONGEST_S = 60.0


async def main(agent: str, mode: Mode, scenario: str) -> None:
    driver = find_driver(agent)
    task = Task(
        prompt="Say hello.", cwd=os.getcwd(), agent=agent, mode=mode, profile="clean", model_from=f"script:{scenario}"
    )
    prepared = prepare(task)
    assert prepared.listener
    gateway = Gateway(
        token=prepared.plan.token,
        upstream=ScriptUpstream(load_scenario(scenario), cwd=task.cwd),
        on_call=lambda call: None,
    )
    await gateway.open(prepared.listener)
    try:
        dialect = driver.channels[0].dialect(task, SessionTotals())
        tell(**await asyncio.wait_for(_first(prepared, _bare(prepared, driver), dialect), _LONGEST_S))
    finally:
        await gateway.close()
        discard(prepared)


def _bare(prepared: PreparedRun, driver: Driver) -> Sequence[str]:
    """The command line without the containment around it."""
    argv = prepared.plan.process.argv
    return argv[argv.index(locate_program(driver).path) :]


async def _first(prepared: PreparedRun, argv: Sequence[str], dialect: Dialect) -> dict[str, Any]:
    plan = prepared.plan
    dialect.open()
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *argv,
        env=plan.process.env,
        cwd=plan.task.cwd,
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        limit=_LINE_BYTES,
        start_new_session=True,
    )
    try:
        assert process.stdin and process.stdout
        process.stdin.write(plan.process.stdin)
        process.stdin.close()
        first, kind = 0.0, ""
        async for line in process.stdout:
            now = time.perf_counter()
            events = dialect.receive(line.removesuffix(b"\n")).events if line.strip() and not kind else ()
            if events:
                first, kind = (now - started) * 1e3, msgspec.to_builtins(events[0])["kind"]
        code = await process.wait()
    finally:
        _end(process)
    if code or not kind:
        raise RuntimeError(f"{argv[0]} ended with {code}, first event: {kind or 'none'}")
    return {"first_ms": first, "kind": kind}


def _end(process: Process) -> None:
    """What it started lives in its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], cast(Mode, sys.argv[2]), sys.argv[3]))
