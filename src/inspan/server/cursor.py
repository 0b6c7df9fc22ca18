"""Where a follower of many runs stands, as one opaque word: what it has heard of each, and when that was written.

A run that it does not name began later, or had ended before.
"""

import base64
import binascii
import time
import zlib

import msgspec

from inspan.protocol.known_types import know_type
from inspan.protocol.wire import DECODE_ERRORS

from .problems import Refusal

_LARGEST_BYTES = 1 << 20


class Cursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """`at` is in seconds since 1970; `heard` has the number of the last record of each run."""

    at: float
    heard: dict[str, int]


def encode_cursor(heard: dict[str, int]) -> str:
    """The cursor of this moment."""
    data = msgspec.json.encode(Cursor(round(time.time(), 3), heard))
    return base64.urlsafe_b64encode(zlib.compress(data, 1)).rstrip(b"=").decode()


def decode_cursor(word: str) -> Cursor:
    """A cursor that was given back; refuses what is none."""
    try:
        packed = base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_", validate=True)
        data = zlib.decompressobj().decompress(packed, _LARGEST_BYTES)
        cursor = msgspec.json.decode(data, type=know_type(Cursor))
    except (ValueError, binascii.Error, zlib.error, *DECODE_ERRORS) as error:
        raise _refuse(word, "it is no cursor of this stream.") from error
    if any(number < 0 for number in cursor.heard.values()):
        raise _refuse(word, "it is no cursor of this stream.")
    if cursor.at > time.time() + 60:
        raise _refuse(word, "it is from the future.")
    return cursor


def _refuse(word: str, problem: str) -> Refusal:
    return Refusal(
        400,
        "bad_input",
        f"after: {problem}",
        next_step="Leave it out to start with what is new.",
        field="after",
        value=word,
    )
