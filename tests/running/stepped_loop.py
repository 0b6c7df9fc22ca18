"""An event loop whose clock stands still while anything is to be done, and then jumps to the next timer."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.SelectSelector):
    """Waits for nothing: the time that it was to wait has passed."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if not found:
            self.now += max(0.0, timeout or 0.0)
        return found


class SteppedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run_stepped(scene: Coroutine[Any, Any, T]) -> T:
    """Runs a scene to its end in no time."""
    with asyncio.Runner(loop_factory=SteppedLoop) as runner:
        return runner.run(scene)
