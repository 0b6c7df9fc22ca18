"""What an agent says while followers are measured: the same words at the same pace, whoever serves them."""

import random
import time
from collections.abc import Iterator

_WORDS = "and some words " * 10


def make_text() -> str:
    """A text that says when it was made."""
    return f"sent_at {time.time():.4f} {_WORDS}"


def pace(*, seconds: float, per_s: int) -> Iterator[int]:
    """How many events are due now: at irregular moments, at this pace in all."""
    chance, began, written = random.Random(7), time.monotonic(), 0
    while (now := time.monotonic() - began) < seconds:
        due = int(now * per_s) + 1 - written
        written += due
        yield due
        time.sleep(chance.uniform(0.001, 0.006))
