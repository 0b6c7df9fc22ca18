"""Content encodings: a compressed body as it was before, never more of it than fits. Bad ones are a `ValueError`."""

import sys
import zlib
from collections.abc import Callable
from typing import Protocol

LIMIT_BYTES = 64 * 1024 * 1024
_MAX_LAYERS = 4
_GZIP_BITS, _ZLIB_BITS, _RAW_BITS = 31, 15, -15
_ZSTD_WINDOW_LOG = 26  # As far back as the longest body that is taken: 64 MiB.


def decode_body(body: bytes, encoding: str, *, limit_bytes: int = LIMIT_BYTES) -> bytes:
    """A whole body without its encoding, which is the value of a `content-encoding` header."""
    decoder = Decoder(encoding, limit_bytes=limit_bytes)
    plain = decoder.feed(body)
    if not decoder.is_whole:
        raise ValueError(f"The body breaks off: its {encoding} has no end.")
    return plain


class Decoder:
    """Takes a body piece by piece and gives what can be read of it by then."""

    def __init__(self, encoding: str, *, limit_bytes: int = LIMIT_BYTES) -> None:
        names = [name.strip().lower() for name in encoding.split(",")]
        names = [name for name in names if name not in ("", "identity")]
        if len(names) > _MAX_LAYERS:
            raise ValueError(f"The body is encoded {len(names)} times; more than {_MAX_LAYERS} are not undone.")
        self._layers = [_Layer(name, limit_bytes) for name in reversed(names)]

    @property
    def is_whole(self) -> bool:
        """Whether what was fed so far is complete in itself."""
        return all(layer.is_whole for layer in self._layers)

    def feed(self, data: bytes) -> bytes:
        for layer in self._layers:
            data = layer.feed(data)
        return data


class _Inflater(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Layer:
    """One encoding; what was compressed in several goes, one after the other, is read on."""

    def __init__(self, name: str, limit_bytes: int) -> None:
        if name not in _INFLATERS:
            known = ", ".join(sorted(_INFLATERS))
            raise ValueError(f"The content-encoding {name!r} is not known here. It can be {known} or identity.")
        self._name = name
        self._limit_bytes = limit_bytes
        self._room = limit_bytes
        self._inflater: _Inflater | None = None

    @property
    def is_whole(self) -> bool:
        return self._inflater is None or self._inflater.eof

    def feed(self, data: bytes) -> bytes:
        found: list[bytes] = []
        while data:
            inflater, piece = self._inflate(data)
            found.append(piece)
            self._room -= len(piece)
            if self._room < 0:
                raise ValueError(f"The body is a bomb: its {self._name} unfolds to over {self._limit_bytes} bytes.")
            data = inflater.unused_data if inflater.eof else b""
        return b"".join(found)

    def _inflate(self, data: bytes) -> tuple[_Inflater, bytes]:
        try:
            if self._inflater is None or self._inflater.eof:
                self._inflater = _INFLATERS[self._name](data)
            return self._inflater, self._inflater.decompress(data, self._room + 1)
        except (zlib.error, *_zstd_errors()) as error:
            raise ValueError(f"The body is not what its content-encoding says: {self._name}: {error}") from error


def _make_deflate_inflater(data: bytes) -> _Inflater:
    """Half of the world means zlib by it, the other half the bare stream; only the first has an 8 in its first byte."""
    return zlib.decompressobj(_ZLIB_BITS if data[0] & 0x0F == 8 else _RAW_BITS)


def _make_zstd_inflater(data: bytes) -> _Inflater:
    # Loaded where one comes in: 17 ms.
    if sys.version_info >= (3, 14):
        # Start-up time: few answers are compressed.
        from compression.zstd import DecompressionParameter, ZstdDecompressor
    else:
        from backports.zstd import DecompressionParameter, ZstdDecompressor  # Start-up time: as above.

    return ZstdDecompressor(options={DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG})


def _zstd_errors() -> tuple[type[Exception], ...]:
    module = sys.modules.get("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    return () if module is None else (module.ZstdError,)


_INFLATERS: dict[str, Callable[[bytes], _Inflater]] = {
    "gzip": lambda _: zlib.decompressobj(_GZIP_BITS),
    "x-gzip": lambda _: zlib.decompressobj(_GZIP_BITS),
    "deflate": _make_deflate_inflater,
    "zstd": _make_zstd_inflater,
}
