"""Calls of the caller's own tools: told as events, waited for, and answered by whoever has the function."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from inspan.gateway.tool_endpoint import OnProgress, Progress, ToolOutput
from inspan.protocol.commands import ACCEPTED, Reply, ReportProgress, SubmitToolResult, refuse
from inspan.protocol.events import Event, ToolAnswered, ToolRequested


class _Pending(NamedTuple):
    result: "asyncio.Future[ToolOutput]"
    on_progress: OnProgress


class ToolCalls:
    """Those that are open, by id. A call whose agent does not wait for it any more is told as failed."""

    def __init__(self, record: Callable[[Sequence[Event]], None]) -> None:
        self._record = record
        self._pending: dict[str, _Pending] = {}
        self._count = 0

    async def call(self, name: str, given: Any, on_progress: OnProgress) -> ToolOutput:
        """Tells that the tool is wanted, and waits for its result."""
        self._count += 1
        identity = f"tool-{self._count}"
        result: asyncio.Future[ToolOutput] = asyncio.get_running_loop().create_future()
        self._pending[identity] = _Pending(result, on_progress)
        failed = True
        try:
            self._record([ToolRequested(id=identity, name=name, input=given)])
            output = await result
            failed = output.failed
            return output
        finally:
            self._pending.pop(identity, None)
            self._record([ToolAnswered(id=identity, failed=failed)])

    def submit(self, given: SubmitToolResult) -> Reply:
        """Takes the result of an open call."""
        pending = self._pending.get(given.id)
        if pending is None or pending.result.done():
            return refuse(f"no call {given.id} of a tool is open")
        pending.result.set_result(ToolOutput(text=given.output, failed=given.failed))
        return ACCEPTED

    def report(self, given: ReportProgress) -> Reply:
        """Passes on how far an open call has come."""
        pending = self._pending.get(given.id)
        if pending is None:
            return refuse(f"no call {given.id} of a tool is open")
        pending.on_progress(Progress(progress=given.progress, total=given.total, message=given.message))
        return ACCEPTED

    def close(self) -> None:
        """Nobody waits any more."""
        for pending in list(self._pending.values()):
            pending.result.cancel()
