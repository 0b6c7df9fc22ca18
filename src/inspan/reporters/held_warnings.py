"""What may be the beginning of a failure is held: the end of the run tells it once, what goes on tells it before."""

import time
from collections.abc import Callable, Sequence

from inspan.protocol.events import (
    EndingBegan,
    ErrorReported,
    Event,
    MessageEnded,
    ModelCallEnded,
    RateLimited,
    RunEnded,
    TurnFailed,
)

from .narration import TextChunk, describe_failed_call

# Whoever reads along is not left without a word while an agent tries again.
_LONGEST_HOLD_S = 10.0
_HELD = (EndingBegan, ErrorReported, ModelCallEnded, RateLimited, TurnFailed)
# What the end of the run always says in better words.
_SUPERSEDED = ("! model call ", "! turn failed ", "■ ending: ")


class HeldWarnings:
    """Give it the events of a run with what they have to say."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: dict[str, int] = {}
        self._since = 0.0
        self._problem = ""

    @property
    def is_due(self) -> bool:
        """Whether something has been held for too long."""
        return bool(self._counts) and self._clock() - self._since >= _LONGEST_HOLD_S

    def sift(self, event: Event, chunks: Sequence[TextChunk]) -> list[TextChunk]:
        """What is to be told now: what was held before it, or nothing of it yet."""
        if isinstance(event, MessageEnded):
            self.take()  # It says what became of them.
        if not isinstance(event, _HELD):
            ends_text_only = all(chunk.kind == "piece_end" for chunk in chunks)
            return [*chunks] if ends_text_only else [*self.take(), *chunks]
        for chunk in chunks:
            if chunk.kind != "piece_end":
                self.hold(event, chunk)
        return [chunk for chunk in chunks if chunk.kind == "piece_end"]

    def hold(self, event: Event, chunk: TextChunk) -> None:
        """Keeps what an event says until something is taken."""
        self.note(event)
        self._since = self._since if self._counts else self._clock()
        words = chunk.removesuffix("\n")
        self._counts[words] = self._counts.get(words, 0) + 1

    def note(self, event: Event) -> None:
        """Takes in an event that has been told already."""
        if isinstance(event, ModelCallEnded):
            self._problem = describe_failed_call(event)

    def take(self) -> list[TextChunk]:
        """What was held, each in one line with how often it was said: the agent goes on, or it took too long."""
        taken = [
            TextChunk(f"{words} ({count} times)\n" if count > 1 else f"{words}\n", "warning")
            for words, count in self._counts.items()
        ]
        self._counts.clear()
        self._problem = ""
        return taken

    def settle(self, ended: RunEnded, failure: TurnFailed | None) -> str:
        """The run has ended: drops what its end tells in other words. Gives what became of the call that it failed by,
        where the agent has only retold that."""
        if ended.outcome == "completed":
            return ""
        retold = bool(self._problem and failure and failure.message == ended.message)
        for words in list(self._counts):
            if retold or _says_the_same(words, ended.message) or words.startswith(_SUPERSEDED):
                del self._counts[words]
        return self._problem if retold else ""


def _says_the_same(words: str, message: str) -> bool:
    return bool(message and message in words) or words.removeprefix("! ") in message
