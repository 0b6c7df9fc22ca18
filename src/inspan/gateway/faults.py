"""Spoils answers on their way to the client, by the rules of `fault_rules.py`; what the upstream sent is seen whole."""

import asyncio
import math
import re
from collections.abc import Callable, Mapping

from inspan.gateway.fault_rules import FAULT_EXAMPLES, Fault, Faults, describe_fault_grammar, parse_fault
from inspan.gateway.http.server import ClientHungUp
from inspan.gateway.upstream import Reply
from inspan.gateway.wires.failures import failure_message
from inspan.gateway.wires.wire import Wire

__all__ = ["FAULT_EXAMPLES", "Fault", "Faults", "FaultyReply", "describe_fault_grammar", "parse_fault", "send_failure"]

_GARBAGE = b"<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head><body>Bad Gateway</body></html>\n"
_EVENT_END = re.compile(rb"\r?\n\r?\n")
_LINE_END = re.compile(rb"\n")


async def send_failure(fault: Fault, wire: Wire, reply: Reply) -> None:
    """Answers a call with the fault's status, in the words of the provider."""
    body = wire.encode_error(fault.status, failure_message(fault.status))
    headers = {"content-type": "application/json", "content-length": str(len(body)), **_retry_after_headers(fault)}
    await reply.start(fault.status, headers)
    await reply.write(body)
    await reply.finish()


class FaultyReply:
    """Stands before a client and spoils the one answer that goes through.

    The middle of a stream is that of its second event, the middle of anything else is that of its body: however the
    upstream parts its pieces, the same bytes come through. After a cut every method raises as if the client had hung
    up, and so it does once the client has. `on_problem` hears what the client sees of the fault: "stalled", which an
    empty text takes back, "cut" or "garbage".
    """

    def __init__(
        self, reply: Reply, fault: Fault, *, stream: bool, on_problem: Callable[[str], None] | None = None
    ) -> None:
        self._reply = reply
        self._fault = fault
        self._stream = stream
        self._event_end = _LINE_END
        self._buffered = bytearray()
        self._is_buffering = fault.action in ("cut", "stall") and fault.place == "mid-stream"
        self._is_cut = False
        self._on_problem = on_problem or reply.note

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        self._raise_if_cut()
        if self._fault.action == "garbage":
            return
        if self._fault.place == "before-headers":
            await self._inject()
        types = [value for name, value in headers.items() if name.lower() == "content-type"]
        self._event_end = _EVENT_END if "text/event-stream" in "".join(types) else _LINE_END
        await self._reply.start(status, headers)

    async def write(self, data: bytes) -> None:
        self._raise_if_cut()
        if self._fault.action == "garbage":
            return
        if self._fault.action == "slow":
            await self._wait()
        if self._is_buffering:
            self._buffered += data
            ends = [match.end() for match in self._event_end.finditer(self._buffered)][:2] if self._stream else []
            if len(ends) == 2:
                await self._inject_at(sum(ends) // 2)
        else:
            await self._forward(data)

    async def finish(self) -> None:
        self._raise_if_cut()
        if self._fault.action == "garbage":
            return await self._send_garbage()
        if self._is_buffering:
            await self._inject_at((len(self._buffered) + 1) // 2)
        return await self._reply.finish()

    def cut(self) -> None:
        """The upstream's own cut; what was held back for the middle is lost."""
        self._is_cut = True
        self._reply.cut()

    def note(self, problem: str) -> None:
        self._reply.note(problem)

    async def _inject_at(self, position: int) -> None:
        """Lets what was held pass up to a position, spoils the answer there, and lets the rest pass if there is one."""
        held, self._buffered = bytes(self._buffered), bytearray()
        self._is_buffering = False
        await self._forward(held[:position])
        await self._inject()
        await self._forward(held[position:])

    async def _forward(self, data: bytes) -> None:
        try:
            await self._reply.write(data)
        except ConnectionError:
            self._is_cut = True
            raise

    async def _inject(self) -> None:
        if self._fault.action == "cut":
            self._on_problem("cut")
            self.cut()
            raise ClientHungUp
        self._on_problem("stalled")
        await self._wait()
        self._on_problem("")

    async def _wait(self) -> None:
        """For the time that the rule gives, or until the call is cancelled: then nothing more goes to the client."""
        try:
            if self._fault.wait_s is None:
                await asyncio.get_running_loop().create_future()
            else:
                await asyncio.sleep(self._fault.wait_s)
        except asyncio.CancelledError:
            self._is_cut = True
            raise

    async def _send_garbage(self) -> None:
        """Not before the end, for a client that has its answer goes, and what is being read with it."""
        self._on_problem("garbage")
        await self._reply.start(200, {"content-type": "text/html", "content-length": str(len(_GARBAGE))})
        await self._reply.write(_GARBAGE)
        await self._reply.finish()

    def _raise_if_cut(self) -> None:
        if self._is_cut:
            raise ClientHungUp


def _retry_after_headers(fault: Fault) -> dict[str, str]:
    """Whole seconds, as the header has them; those who read milliseconds get the exact time."""
    if fault.retry_after_s is None:
        return {}
    headers = {"retry-after": str(math.ceil(fault.retry_after_s))}
    if not fault.retry_after_s.is_integer():
        headers["retry-after-ms"] = f"{fault.retry_after_s * 1000:g}"
    return headers
