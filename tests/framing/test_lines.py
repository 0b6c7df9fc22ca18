"""Cutting a byte stream into lines: the same lines, however the stream was cut on its way."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspan.framing.jsonl import LineSplitter, OverlongLine

_HEAD_BYTES = 4096
_ODD = (b"\n", b"\r\n", b"\0", b"\xff\xfe", b"\n\n", b"{}\n", b"\xe2\x82")
_STREAMS = st.lists(st.binary(max_size=20) | st.sampled_from(_ODD)).map(b"".join)


def _read(chunks: Iterable[bytes], *, limit_bytes: int = 1 << 20) -> list[bytes | OverlongLine]:
    lines = LineSplitter(limit_bytes=limit_bytes)
    return [line for chunk in chunks for line in lines.feed(chunk)] + lines.flush()


def _expected(stream: bytes, limit_bytes: int = 1 << 20) -> list[bytes | OverlongLine]:
    *whole, last = stream.split(b"\n")
    lines = [*whole, last] if last else whole
    return [line if len(line) <= limit_bytes else OverlongLine(line[:_HEAD_BYTES], len(line)) for line in lines]


@st.composite
def _cut(draw: st.DrawFn, streams: st.SearchStrategy[bytes]) -> list[bytes]:
    stream = draw(streams)
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)))))
    edges = [0, *cuts, len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


@given(chunks=_cut(_STREAMS))
def test_any_cutting_of_a_stream_gives_the_same_lines(chunks: list[bytes]) -> None:
    assert _read(chunks) == _expected(b"".join(chunks))


@given(chunks=_cut(_STREAMS), limit_bytes=st.integers(1, 12))
def test_a_line_over_the_limit_is_told_with_its_length_and_the_next_is_intact(
    chunks: list[bytes], limit_bytes: int
) -> None:
    assert _read(chunks, limit_bytes=limit_bytes) == _expected(b"".join(chunks), limit_bytes)


@given(
    lengths=st.lists(st.integers(0, 12_000), max_size=5),
    limit_bytes=st.sampled_from([1, 100, 4095, 4096, 4097, 8000]),
    size=st.sampled_from([1000, 4095, 4096, 4097, 100_000]),
)
def test_the_head_of_an_overlong_line_does_not_depend_on_the_cutting(
    lengths: list[int], limit_bytes: int, size: int
) -> None:
    stream = b"".join(bytes(65 + place % 26 for place in range(length)) + b"\n" for length in lengths)
    chunks = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert _read(chunks, limit_bytes=limit_bytes) == _expected(stream, limit_bytes)


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"\n\n", [b"", b""]),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\nb\rc\n", [b"a\r", b"b\rc"]),
        (b"a\0b\n\0\n", [b"a\0b", b"\0"]),
        (b"\xff\xc3\n\x28", [b"\xff\xc3", b"\x28"]),
        ("a\u2028b\x85c\x0bd\n".encode(), ["a\u2028b\x85c\x0bd".encode()]),
    ],
)
def test_only_a_line_feed_ends_a_line(stream: bytes, expected: list[bytes]) -> None:
    assert _read([stream]) == expected
    assert _read(stream[place : place + 1] for place in range(len(stream))) == expected


def test_a_line_of_just_the_limit_is_whole_and_one_byte_more_is_not() -> None:
    assert _read([b"12345\n123456\n1\n"], limit_bytes=5) == [b"12345", OverlongLine(b"123456", 6), b"1"]


def test_an_overlong_line_is_not_kept_in_memory() -> None:
    lines = LineSplitter(limit_bytes=10_000)
    for _ in range(1000):
        lines.feed(b"x" * 1000)
    held = [len(piece) for piece in lines._pieces]  # pyright: ignore[reportPrivateUsage]  what is held is the promise
    assert held == [_HEAD_BYTES]
    assert lines.flush() == [OverlongLine(b"x" * _HEAD_BYTES, 1_000_000)]


def test_lines_can_be_flushed_twice() -> None:
    lines = LineSplitter()
    assert lines.feed(b"a") == []
    assert (lines.flush(), lines.flush()) == ([b"a"], [])
