"""Small JSON files in the cache folder: one that cannot be read or written costs a question next time, nothing else."""

import os
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from inspan.protocol.known_types import know_type
from inspan.protocol.wire import DECODE_ERRORS
from inspan.stores.paths import open_nonblocking
from inspan.system.atomic_file import replace_file

T = TypeVar("T")


def load_cached(path: str, kind: type[T]) -> T | None:
    """What was saved there, or `None` where that is nothing of this kind."""
    try:
        with open(path, "rb", opener=open_nonblocking) as file:
            return msgspec.json.decode(file.read(), type=know_type(kind))
    except (OSError, *DECODE_ERRORS):
        return None


def save_cached(path: str, value: Any) -> None:
    """Keeps a value for `load_cached`, where that can be done."""
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        replace_file(path, msgspec.json.encode(value))
