"""What a model call, a turn or a run consumed."""

import msgspec


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Token counts. `input` excludes what was read from or written to a cache; `output` includes reasoning."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            reasoning=self.reasoning + other.reasoning,
        )

    def __sub__(self, other: "Usage") -> "Usage":
        """What is left of a running total once an earlier one is taken away; never less than nothing."""
        return Usage(
            input=max(0, self.input - other.input),
            output=max(0, self.output - other.output),
            cache_read=max(0, self.cache_read - other.cache_read),
            cache_write=max(0, self.cache_write - other.cache_write),
            reasoning=max(0, self.reasoning - other.reasoning),
        )

    @property
    def total(self) -> int:
        """Every token that was paid for, each counted once."""
        return self.input + self.output + self.cache_read + self.cache_write


class SessionTotals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an agent has told of a session's tokens and cost so far: agents go on counting where they left off."""

    usage: Usage = Usage()
    cost_usd: float = 0.0
