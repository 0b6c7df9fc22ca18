"""How a part of a run asks for its end."""

from typing import Protocol

from inspan.protocol.outcome import Reason


class EndRun(Protocol):
    """How a run is ended; with a grace its agent may leave by itself first. Without a step, its reason has one."""

    def __call__(self, reason: Reason, message: str, *, grace_s: float = 0.0, next_step: str = "") -> None: ...
