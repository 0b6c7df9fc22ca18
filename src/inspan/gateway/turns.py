"""A limit on the calls that an agent makes to its model, for agents that do not count their turns themselves."""

from collections.abc import Callable

from inspan.gateway.call import ModelCall
from inspan.gateway.control import Refusal
from inspan.gateway.upstream import Request


class TurnLimit:
    """Lets `most` calls through and refuses every one after them; `on_excess` hears of the first."""

    def __init__(self, *, most: int, on_excess: Callable[[], None]) -> None:
        self._most = most
        self._on_excess = on_excess
        self._calls = 0

    async def admit(self, request: Request, number: int) -> Refusal | None:
        self._calls += 1
        if self._calls <= self._most:
            return None
        if self._calls == self._most + 1:
            self._on_excess()
        message = f"This run may make {self._most} model calls, and has made them."
        return Refusal(message=message, problem="refused: turns")

    def ended(self, call: ModelCall) -> None:
        """A call that has been made is not given back."""
