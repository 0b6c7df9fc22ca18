"""Redaction of a byte stream: whatever the chunks, the output is that of redacting the whole at once."""

from collections.abc import Mapping
from typing import Self

from inspan.redaction.secret_set import Secrets, SecretSet, splice

from .env_secrets import find_secrets


class Redactor:
    """One stream. Holds back only bytes that may begin a secret, always fewer than the longest spelling.

    Many redactors share one `SecretSet`; anything else is compiled for this one alone.
    """

    __slots__ = ("_covered", "_held", "_secrets")

    def __init__(self, secrets: SecretSet | Secrets) -> None:
        self._secrets = secrets if isinstance(secrets, SecretSet) else SecretSet(secrets)
        self._held = b""
        # How many of the held bytes belong to a marker that is already out.
        self._covered = 0

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """A redactor for the secrets that `find_secrets` finds."""
        return cls(find_secrets(env))

    @property
    def pending(self) -> bytes:
        """What is held back now: empty, or a proper prefix of a spelling."""
        return self._held

    def feed(self, chunk: bytes) -> bytes:
        """What can be said of the stream so far and was not said yet."""
        if not self._secrets:
            return chunk
        data = self._held + chunk if self._held else chunk
        return self._emit(data, self._secrets.prefixes.find_cut(data))

    def flush(self) -> bytes:
        """The rest, at the end of the stream; the redactor is then as new."""
        return self._emit(self._held, len(self._held))

    def _emit(self, data: bytes, cut: int) -> bytes:
        # What starts before the cut is decided: no longer match can begin there any more.
        matches = self._secrets.find(data)
        self._held = data[cut:]
        if not matches and not self._covered:
            return data[:cut]
        said, self._covered = splice(data, matches, self._secrets.markers, covered=self._covered, cut=cut)
        return said
