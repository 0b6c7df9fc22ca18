"""How long a server that was lost is asked again, and how soon each time."""

import asyncio
import math
import time

from inspan.errors import BadInput

_DELAYS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Retries:
    """Of one stream or one request. The time counts from a loss on, and anew once something was heard."""

    def __init__(self, within_s: float) -> None:
        self._within_s = within_s
        self._failures = 0
        self._lost_at = 0.0

    def hear(self) -> None:
        """The server is there: what breaks from now on is another loss."""
        self._failures = 0

    async def wait(self) -> bool:
        """Waits until the next try is due; false, at once, where there is no time left for one."""
        now = time.monotonic()
        self._lost_at = self._lost_at if self._failures else now
        left_s = self._lost_at + self._within_s - now
        if left_s <= 0:
            return False
        delay_s = _DELAYS_S[min(self._failures, len(_DELAYS_S) - 1)]
        self._failures += 1
        await asyncio.sleep(min(delay_s, left_s))
        return True


def check_reconnect_s(seconds: float) -> float:
    """Raises `BadInput` for what is no time."""
    if not isinstance(seconds, int | float) or math.isnan(seconds) or seconds < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadInput("reconnect_s", seconds, "it is no time.", next_step="Give seconds, 0 or more.")
    return seconds
