"""Fields over 1 MB leave the log: they are kept in a file beside it and referenced."""

import os
from collections.abc import Iterator
from typing import Any

import msgspec

from inspan.protocol.events import Event
from inspan.redaction import Redactor, SecretSet

LARGE_BYTES = 1_000_000
_SLICE_CHARACTERS = 256 * 1024


def lighten(event: Event, *, folder: str, secrets: SecretSet, number: int) -> Event:
    """The event with every large text moved, redacted, to `large/<number>-<k>.txt`; itself where none is large."""
    moved = _Moved(folder, secrets, number)
    changes = {name: moved.value(getattr(event, name)) for name in event.__struct_fields__}
    return msgspec.structs.replace(event, **changes) if moved.count else event


class _Moved:
    def __init__(self, folder: str, secrets: SecretSet, number: int) -> None:
        self._folder = folder
        self._secrets = secrets
        self._number = number
        self.count = 0

    def value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value) if len(value) > LARGE_BYTES else value
        if isinstance(value, dict):
            return {key: self.value(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]  JSON of the agent
        if isinstance(value, list):
            return [self.value(item) for item in value]  # pyright: ignore[reportUnknownVariableType]  JSON of the agent
        return value

    def _text(self, text: str) -> str:
        self.count += 1
        name = f"large/{self._number}-{self.count}.txt"
        os.makedirs(os.path.join(self._folder, "large"), mode=0o700, exist_ok=True)
        redactor, size = Redactor(self._secrets), 0
        with open(os.path.join(self._folder, name), "wb") as file:
            for piece in _slices(text):
                size += len(piece)
                file.write(redactor.feed(piece))
            file.write(redactor.flush())
        return f"[large: {size} bytes in {name}]"


def _slices(text: str) -> Iterator[bytes]:
    for start in range(0, len(text), _SLICE_CHARACTERS):
        yield text[start : start + _SLICE_CHARACTERS].encode(errors="surrogatepass")
