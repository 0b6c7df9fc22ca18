"""What the gateway saw of one call to a model, as a value."""

from typing import Literal

import msgspec

from inspan.protocol.usage import Usage

Role = Literal["main", "side", "retry"]


class ModelCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call, numbered from 1. `status` is None when no answer began; `usage` is None when none was stated.

    `problem` is empty, or one of "stalled", "cut", "garbage", "client hung up", "never sent", "error in the answer"
    (by which the provider ended it), "too large to be read" (it was passed on unmeasured), "unexpected request: …",
    "gateway broke: …", "refused: …", "unreachable: …" (it was never sent), "unanswered: …" (it was, and no answer
    began). `message` is the provider's own error text, which may also have come inside a stream that began with 200.
    `role` parts the agent's own work from what it asks on the side (titles, probes) and from requests that it sends
    again. `extras` are numbers beside `usage` that cost money too. `whole`: the answer came to its end, without an
    error, and the usage is of all of it. `limits_account`: it was refused for a limit that is the account's, whatever
    the model. Sizes are those of the bodies.
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
    limits_account: bool = False
    request_bytes: int = 0
    answer_bytes: int = 0
