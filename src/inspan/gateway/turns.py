"""A limit on the calls that an agent makes to its model, for agents that do not count their turns themselves."""

from collections.abc import Callable

from inspan.gateway.upstream import Reply, Request, Upstream
from inspan.gateway.wires import BY_NAME


class TurnLimit:
    """Lets `most` calls through to an upstream and refuses every one after them; `on_excess` hears of the first.

    The refusal is an invalid request, which no agent tries again.
    """

    def __init__(self, upstream: Upstream, *, most: int, on_excess: Callable[[], None]) -> None:
        self._upstream = upstream
        self._most = most
        self._on_excess = on_excess
        self._calls = 0

    async def answer(self, request: Request, reply: Reply) -> None:
        self._calls += request.ask is not None
        if request.ask is None or self._calls <= self._most:
            return await self._upstream.answer(request, reply)
        if self._calls == self._most + 1:
            self._on_excess()
        return await self._refuse(request, reply)

    async def _refuse(self, request: Request, reply: Reply) -> None:
        message = f"This run may make {self._most} model calls, and has made them."
        body = BY_NAME[request.wire].error(400, message)
        await reply.start(400, {"content-type": "application/json", "content-length": str(len(body))})
        await reply.write(body)
        await reply.finish()
