"""Types that are decoded in several threads.

What a type is made of msgspec works out when it is first needed. A thread that needs the same type meanwhile, or one
that holds it, finds half of that and ends the whole process with a segmentation fault.
"""

import os
from _thread import RLock  # `threading` would cost start-up time.
from typing import TypeVar

import msgspec

T = TypeVar("T")
_lock = RLock()


def know_type(kind: T) -> T:
    """The same type, of which msgspec knows all by now: to be named wherever something is decoded or converted."""
    with _lock:
        msgspec.json.Decoder(kind)
    return kind


def _renew_lock() -> None:
    """Whoever held it is not in the child."""
    global _lock
    _lock = RLock()


os.register_at_fork(after_in_child=_renew_lock)
