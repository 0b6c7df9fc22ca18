"""What an open session is doing, as one value."""

from typing import Literal

import msgspec

FIRST_MESSAGE = "first"
"""The id of the message that a run begins with: its prompt."""

HookName = Literal["before_tool", "after_tool", "on_stop"]
"""The moments at which a program may be asked what becomes of it."""

SessionStatus = Literal["starting", "idle", "working", "waiting", "rate_limited", "stuck", "error", "closed"]
WaitsFor = Literal["", "model", "tool", "person", "limit"]
"""What a run waits for; empty where it waits for nothing, or where nobody can tell."""


class SessionState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`tool` is the one at work, `message` the id of the message that is being worked on, `queued` those behind it.

    `questions` are the ids of what waits for a person. `resets_at` belongs to `rate_limited`, `error` is why the last
    message failed.
    """

    status: SessionStatus
    tool: str = ""
    message: str = ""
    queued: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    model: str = ""
    resets_at: float | None = None
    error: str = ""
