"""Orders that go down to a run: from a person, a program or a policy."""

from typing import Literal

import msgspec


class Prompt(msgspec.Struct, frozen=True, kw_only=True, tag_field="command", tag="prompt"):
    """Say something to the agent."""

    text: str


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag_field="command", tag="answer"):
    """Answer a permission that the agent asked for."""

    id: str
    allowed: bool
    reason: str = ""


class Cancel(msgspec.Struct, frozen=True, kw_only=True, tag_field="command", tag="cancel"):
    """End the run: politely first, or at once when `now` is set."""

    by: Literal["interrupted", "stopped", "killed"] = "stopped"
    now: bool = False


class Ping(msgspec.Struct, frozen=True, kw_only=True, tag_field="command", tag="ping"):
    """Ask whether the run is alive."""


Command = Prompt | Answer | Cancel | Ping
