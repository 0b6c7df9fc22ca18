"""Hides the provider's key in what the provider sends: an answer that quotes a header would hand it to the agent.

A hidden key is as long as before, so that lengths stay true.
"""

from collections.abc import Mapping

from inspan.redaction import SecretSet

_STAR = b"*"
# Less of a key than this is no secret, and may well be the beginning of another word.
_MIN_SECRET_BYTES = 8


class KeyMask:
    """For one answer, whose body comes in pieces; finds the key in every spelling that redaction knows."""

    def __init__(self, key: str) -> None:
        self._key = key.lower()
        self._spellings = SecretSet.get_shared([("KEY", key)] if key else [])
        self._held = b""

    @property
    def is_needed(self) -> bool:
        return bool(self._key)

    def mask_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """A header that has the key in its name is left out."""
        if not self._key:
            return dict(headers)
        return {
            name: self._mask(value.encode("latin-1")).decode("latin-1")
            for name, value in headers.items()
            if self._key not in name
        }

    def feed(self, data: bytes) -> bytes:
        """What can be passed on; the beginning of what may become the key is held until more comes."""
        if not self._key:
            return data
        data = self._mask(self._held + data if self._held else data)
        cut = self._spellings.prefixes.find_cut(data)
        self._held = data[cut:]
        return data[:cut]

    def finish(self) -> bytes:
        """What was held, at the end of an answer: most of a key is hidden as well."""
        held, self._held = self._held, b""
        return _STAR * len(held) if len(held) >= _MIN_SECRET_BYTES else held

    def _mask(self, data: bytes) -> bytes:
        matches = self._spellings.find(data)
        if not matches:
            return data
        hidden = bytearray(data)
        for _, start, end in matches:
            hidden[start:end] = _STAR * (end - start)
        return bytes(hidden)
