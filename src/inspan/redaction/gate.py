"""The gate: what stands between events and everyone who may see them, be it a file, a socket or a screen."""

from codecs import getincrementaldecoder
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from inspan.redaction.redactor import Redactor
from inspan.redaction.secret_set import Secrets, SecretSet

_new_decoder = getincrementaldecoder("utf-8")


class Gate:
    """Redacts events, values and texts, and the texts of content blocks that arrive piece by piece."""

    def __init__(
        self,
        secrets: SecretSet | Secrets,
        *,
        encode: Callable[[object], bytes] = msgspec.json.encode,
    ) -> None:
        self._secrets = secrets if isinstance(secrets, SecretSet) else SecretSet(secrets)
        self._encode = encode
        self._decoder = msgspec.json.Decoder(float_hook=self._read_float)
        self._blocks: dict[str, _BlockRedactor] = {}

    def encode_event(self, event: object) -> bytes:
        """The event as JSON; encoded once, and its strings are walked only if the bytes show a secret."""
        encoded = self._encode(event)
        if not self._secrets.has_secret(encoded):
            return encoded
        return self._encode(self.redact_value(self._decoder.decode(encoded)))

    def encode_events(self, events: Sequence[object]) -> list[bytes]:
        """Several events as JSON; all of them are scanned at once, and one by one only if there is a secret."""
        encoded = [self._encode(event) for event in events]
        if not self._secrets.has_secret(b"\n".join(encoded)):
            return encoded
        return [self.encode_event(event) for event in events]

    def redact_text(self, text: str) -> str:
        """The text, redacted."""
        return self._secrets.redact_text(text)

    def redact_value(self, value: object) -> Any:
        """A copy of dicts, lists and scalars, each string redacted, and each number that spells a secret."""
        handler = _HANDLERS.get(type(value))
        return handler(self, value) if handler else value

    def redact_json(self, value: object) -> Any:
        """The same, walked only if the value's JSON shows a secret."""
        return self.redact_value(value) if self._secrets.has_secret(self._encode(value)) else value

    def redact_delta(self, block_id: str, text: str) -> str:
        """What can be shown of a block after one more piece of its text; the rest waits for the next."""
        if not self._secrets:
            return text
        block = self._blocks.get(block_id)
        if block is None:
            block = self._blocks[block_id] = _BlockRedactor(self._secrets)
        return block.feed(text)

    def end_block(self, block_id: str) -> str:
        """What the block still held; empty for a block that is over or never began."""
        block = self._blocks.pop(block_id, None)
        return block.finish() if block else ""

    def redact_dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        redacted: dict[Any, Any] = {}
        for key, item in value.items():
            redacted[_unique_key(self.redact_value(key), redacted)] = self.redact_value(item)
        return redacted

    def redact_list(self, value: list[Any]) -> list[Any]:
        return [self.redact_value(item) for item in value]

    def redact_tuple(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(self.redact_value(item) for item in value)

    def redact_number(self, value: float) -> float | str:
        text = repr(value)
        return self.redact_text(text) if self._secrets.has_secret(text.encode()) else value

    def _read_float(self, text: str) -> float | str:
        return self.redact_text(text) if self._secrets.has_secret(text.encode()) else float(text)

    def redact_bytes(self, data: bytes) -> bytes:
        """The bytes, redacted; they are the whole: a stream needs a `Redactor`."""
        return self._secrets.redact(data)


class _BlockRedactor:
    """A redactor over text: what it holds back, it holds in whole characters."""

    def __init__(self, secrets: SecretSet) -> None:
        self._redactor = Redactor(secrets)
        self._decoder = _new_decoder("surrogatepass")

    def feed(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        said = self._redactor.feed(data)
        # Untouched and nothing pending: the text itself is the answer.
        return text if said is data else self._decode(said)

    def finish(self) -> str:
        return self._decode(self._redactor.flush(), final=True)

    def _decode(self, data: bytes, *, final: bool = False) -> str:
        try:
            return self._decoder.decode(data, final)
        except UnicodeDecodeError:
            # Only a secret that is not UTF-8 can cut a character in two.
            self._decoder.reset()
            return data.decode("utf-8", "replace")


def _unique_key(key: Any, taken: Mapping[Any, Any]) -> Any:
    """Two keys may become one marker; the second gets a number rather than lose its value."""
    unused, number = key, 2
    while unused in taken:
        unused, number = f"{key}#{number}", number + 1
    return unused


# bool is left out: True never spells a secret.
_HANDLERS: dict[type, Callable[[Gate, Any], Any]] = {
    str: Gate.redact_text,
    bytes: Gate.redact_bytes,
    dict: Gate.redact_dict,
    list: Gate.redact_list,
    tuple: Gate.redact_tuple,
    int: Gate.redact_number,
    float: Gate.redact_number,
}
