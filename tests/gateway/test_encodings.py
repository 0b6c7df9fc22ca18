"""Content encodings: what comes out is what went in, or a sentence that says why not."""

import gzip
import sys
import tracemalloc
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inspan.gateway.http.encodings import Decoder, decode_body
from tests.soak import rounds

if sys.version_info >= (3, 14):
    import compression.zstd as zstd
else:
    import backports.zstd as zstd

TEXT = b'{"model": "m", "messages": []}' * 400


def deflate_raw(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "identity": ("identity", lambda data: data),
    "nothing": ("", lambda data: data),
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZip", gzip.compress),
    "deflate with a head": ("deflate", zlib.compress),
    "bare deflate": ("deflate", deflate_raw),
    "bare deflate that is stored": ("deflate", lambda data: _deflate_stored(data)),
    "zstd": ("zstd", zstd.compress),
    "several": ("gzip, identity, zstd", lambda data: zstd.compress(gzip.compress(data))),
    "gzip in two goes": ("gzip", lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:])),
    "zstd in two goes": ("zstd", lambda data: zstd.compress(data[:100]) + zstd.compress(data[100:])),
}


def _deflate_stored(data: bytes) -> bytes:
    packer = zlib.compressobj(level=0, wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize("kind", PACKERS)
def test_a_body_comes_out_as_it_went_in(kind: str) -> None:
    encoding, pack = PACKERS[kind]
    assert decode_body(pack(TEXT), encoding) == TEXT


@pytest.mark.parametrize("kind", PACKERS)
def test_an_empty_body_needs_no_decoding(kind: str) -> None:
    assert decode_body(b"", PACKERS[kind][0]) == b""


@settings(max_examples=rounds(60))
@given(kind=st.sampled_from(sorted(PACKERS)), data=st.binary(max_size=3000), size=st.integers(1, 50))
def test_pieces_of_any_size_make_the_same_whole(kind: str, data: bytes, size: int) -> None:
    encoding, pack = PACKERS[kind]
    packed = pack(data)
    decoder = Decoder(encoding)
    assert b"".join(decoder.feed(packed[at : at + size]) for at in range(0, len(packed), size)) == data
    assert decoder.is_whole


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_what_a_stream_has_flushed_can_be_read_at_once(kind: str) -> None:
    decoder = Decoder(kind)
    if kind == "gzip":
        packer = zlib.compressobj(wbits=31)
        first = packer.compress(b"data: 1\n\n") + packer.flush(zlib.Z_SYNC_FLUSH)
    else:
        squeezer = zstd.ZstdCompressor()
        first = squeezer.compress(b"data: 1\n\n", squeezer.FLUSH_BLOCK)
    assert decoder.feed(first) == b"data: 1\n\n"
    assert not decoder.is_whole


@pytest.mark.parametrize("kind", ["gzip", "deflate", "zstd"])
def test_a_body_that_breaks_off_is_refused(kind: str) -> None:
    pack = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstd.compress}[kind]
    with pytest.raises(ValueError, match=rf"^The body breaks off: its {kind} has no end\.$"):
        decode_body(pack(TEXT)[:-5], kind)


@pytest.mark.parametrize("kind", ["gzip", "deflate", "zstd"])
def test_a_body_that_is_something_else_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match=f"^The body is not what its content-encoding says: {kind}: "):
        decode_body(b"xxxxxxxxxxxxxxxx", kind)


@pytest.mark.parametrize("kind", ["gzip", "deflate", "zstd"])
def test_a_bomb_is_refused_before_it_unfolds(kind: str) -> None:
    pack = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstd.compress}[kind]
    bomb = pack(b"\0" * (65 * 1024 * 1024))
    assert len(bomb) < 100_000
    with pytest.raises(ValueError, match=f"^The body is a bomb: its {kind} unfolds to over 67108864 bytes"):
        decode_body(bomb, kind)
    tracemalloc.start()
    with pytest.raises(ValueError):
        decode_body(bomb, kind, limit_bytes=1_000_000)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 10_000_000


def test_a_body_of_thirty_megabytes_is_no_bomb() -> None:
    data = b"0123456789abcdef" * (2 * 1024 * 1024)
    assert decode_body(zstd.compress(data), "zstd") == data


def test_an_unknown_encoding_is_named() -> None:
    with pytest.raises(ValueError, match=r"^The content-encoding 'br' is not known here\. It can be deflate, gzip, "):
        decode_body(b"x", "br")


def test_too_many_encodings_are_refused() -> None:
    with pytest.raises(ValueError, match="encoded 5 times"):
        Decoder("gzip, gzip, gzip, gzip, gzip")
