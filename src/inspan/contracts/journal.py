"""The journal of a scripted model: what each request offered, what it was answered with. Values, and their reading."""

from typing import Literal

import msgspec

from inspan.protocol.known_types import know_type

Ability = Literal["runs", "writes", "unknown", "provider", "other"]
"""Runs commands or programs; writes files; may do anything; is run by the provider and reaches nothing here; none."""

DANGEROUS: tuple[Ability, ...] = ("runs", "writes", "unknown")
TRIAL_FILE_PREFIX = "by-a-tool-on-trial"
"""What the names of files begin with that only a tool which was tried can have made."""
SHELL_OUTPUT = "ran-by-a-shell-42"
"""What a shell prints that was tried aloud; its command does not have these words."""


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as a request declared it, and what it may do by that."""

    name: str
    does: Ability
    kind: Literal["function", "custom", "built-in"] = "function"
    namespace: str = ""
    fields: dict[str, str] = {}

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from the others of a request."""
        return self.namespace, self.name


class SkippedStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step that was left out, by its number in the scenario, and why."""

    step: int
    why: str


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request to the model. `step` is 0 for what was answered out of order; `called` is the tool of the answer.

    `results` is how many results of tools came with the request, `told` the beginning of what they say, and `refused`
    why there was no answer.
    """

    step: int
    offered: list[OfferedTool] = []
    results: int = 0
    told: str = ""
    called: tuple[str, str] | None = None
    skipped: list[SkippedStep] = []
    refused: str = ""


def read_journal(data: bytes) -> list[JournalEntry]:
    """The entries of a journal, in order."""
    return [msgspec.json.decode(line, type=know_type(JournalEntry)) for line in data.split(b"\n") if line]
