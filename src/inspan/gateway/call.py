"""What the gateway saw of one call to a model, as a value."""

import msgspec

from inspan.protocol.usage import Usage


class ModelCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call, numbered from 1. `status` is None when no answer began; `usage` is None when none was stated.

    `problem` is empty, or one of "stalled", "cut", "garbage", "client hung up", "wrong token",
    "unexpected request: …", "gateway broke: …". `message` is the provider's own error text,
    which may also have come inside a stream that began with 200.
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
