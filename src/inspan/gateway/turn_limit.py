"""A limit on the calls that an agent makes to its model, for agents that do not count their turns themselves."""

from collections.abc import Callable

from inspan.gateway.control import Refusal
from inspan.gateway.upstream import Request

from .model_call import ModelCall


class TurnLimit:
    """Lets `max_calls` calls through and refuses every one after them; `on_excess` hears of the first."""

    def __init__(self, *, max_calls: int, on_excess: Callable[[], None]) -> None:
        self._max_calls = max_calls
        self._on_excess = on_excess
        self._calls = 0

    def reset(self) -> None:
        """Counts from nothing again."""
        self._calls = 0

    async def admit(self, request: Request, number: int) -> Refusal | None:
        self._calls += 1
        if self._calls <= self._max_calls:
            return None
        if self._calls == self._max_calls + 1:
            self._on_excess()
        calls = "1 model call" if self._max_calls == 1 else f"{self._max_calls} model calls"
        message = f"This run may make {calls}, and has made {'it' if self._max_calls == 1 else 'them'}."
        return Refusal(message=message, problem="refused: turns")

    def on_progress(self, call: ModelCall) -> None:
        """How far a call has come says nothing of how many there are."""

    def on_ended(self, call: ModelCall) -> None:
        """A call that has been made is not given back."""
