"""What may hold a call back or refuse it before it reaches the upstream: budgets, rates, turns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from inspan.gateway.upstream import Request

from .model_call import ModelCall


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """The answer to a call that is not passed on. `status` 0 is the one that makes agents of its wire stop at once."""

    message: str
    problem: str
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


# How much of an answer may come before its controls hear of it again: so much at least, else a part of what came.
_STEP_BYTES = 8 * 1024
_STEP_PART = 4


def next_report_bytes(answer_bytes: int) -> int:
    """When so much of an answer has come, its controls hear of it again: few times, however long it is."""
    return answer_bytes + max(_STEP_BYTES, answer_bytes // _STEP_PART)


class Control(Protocol):
    """Asked before each call to a model, in order; told of the end of each call that it has let through."""

    async def admit(self, request: Request, number: int) -> Refusal | None:
        """May wait; gives a refusal, or None to let the call through. Cancelled when the client goes."""
        ...

    def on_progress(self, call: ModelCall) -> None:
        """What is known of a call that was let through: with its first bytes, when `next_report_bytes` have come since,
        and when the answer is whole; nothing of an error. It has not ended yet."""
        ...

    def on_ended(self, call: ModelCall) -> None:
        """The call of this number is over: exactly once for each that was let through, also if another refused it."""
        ...
