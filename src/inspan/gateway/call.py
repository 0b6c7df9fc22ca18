"""What the gateway saw of one call to a model, as a value."""

from typing import Literal

import msgspec

from inspan.protocol.usage import Usage

Role = Literal["main", "side", "retry"]


class ModelCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call, numbered from 1. `status` is None when no answer began; `usage` is None when none was stated.

    `problem` is empty, or one of "stalled", "cut", "garbage", "client hung up", "wrong token",
    "unexpected request: …", "gateway broke: …", "refused: …", "unreachable: …". `message` is the provider's own error
    text, which may also have come inside a stream that began with 200. `role` parts the agent's own work from what it
    asks on the side (titles, probes) and from requests that it sends again. `extras` are numbers beside `usage` that
    cost money too. `whole`: the answer came to its end. Sizes are those of the bodies.
    """

    number: int
    wire: str
    model: str
    status: int | None
    usage: Usage | None
    duration_s: float
    problem: str = ""
    message: str = ""
    resets_at: float | None = None
    role: Role = "main"
    extras: dict[str, int] = {}
    whole: bool = False
    request_bytes: int = 0
    answer_bytes: int = 0
