"""An upstream whose first answers wait for something: until a model has spoken, an agent does not act."""

from collections.abc import Awaitable, Callable

from inspan.gateway.upstream import Reply, Request, Upstream


class Held:
    """Awaits `ready`, which must be bounded and quick once it was true, before each answer of an upstream."""

    def __init__(self, upstream: Upstream, *, ready: Callable[[], Awaitable[None]]) -> None:
        self._upstream = upstream
        self._ready = ready

    async def answer(self, request: Request, reply: Reply) -> None:
        await self._ready()
        await self._upstream.answer(request, reply)
