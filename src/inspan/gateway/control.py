"""What may hold a call back or refuse it before it reaches the upstream: budgets, rates, turns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from inspan.gateway.call import ModelCall
from inspan.gateway.upstream import Request


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """The answer to a call that is not passed on. `status` 0 is the one that makes agents of its wire stop at once."""

    message: str
    problem: str
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class Control(Protocol):
    """Asked before each call to a model, in order; told of the end of each call that it has let through."""

    async def admit(self, request: Request, number: int) -> Refusal | None:
        """May wait; gives a refusal, or None to let the call through. Cancelled when the client goes."""
        ...

    def ended(self, call: ModelCall) -> None:
        """The call of this number is over: exactly once for each that was let through, also if another refused it."""
        ...
