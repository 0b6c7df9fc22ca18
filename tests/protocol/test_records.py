"""A record's checksum: no byte of a stored line can change without being noticed."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspan.protocol.events import TextSaid
from inspan.protocol.wire import BrokenRecord, decode_record, encode, encode_record, unpack_record

from .examples import EXAMPLES

_LINES = [encode_record(number, 1700000000.25, encode(event))[:-1] for number, event in enumerate(EXAMPLES, 1)]


@pytest.mark.parametrize("at", [1700000000.0, 1700000000.1, 1700000000.125, 5.0, 0.0])
def test_any_changed_byte_of_a_line_is_noticed(at: float) -> None:
    line = encode_record(100, at, encode(TextSaid(text="hello")))[:-1]
    unnoticed = [
        changed
        for place in range(len(line))
        for byte in range(256)
        if byte != line[place] and _reads(changed := line[:place] + bytes([byte]) + line[place + 1 :])
    ]
    assert unnoticed == []


@pytest.mark.parametrize("line", _LINES)
def test_any_flipped_bit_of_any_kind_of_record_is_noticed(line: bytes) -> None:
    changed = [
        line[:place] + bytes([line[place] ^ 1 << bit]) + line[place + 1 :]
        for place in range(len(line))
        for bit in range(8)
    ]
    assert [each for each in changed if _reads(each)] == []


@pytest.mark.parametrize("line", _LINES)
def test_any_cut_of_a_line_is_noticed(line: bytes) -> None:
    assert [length for length in range(len(line)) if _reads(line[:length])] == []


@given(text=st.text(), number=st.integers(1, 2**53), at=st.floats(0, 4e9).map(lambda t: round(t, 3)))
def test_any_text_number_and_time_come_back(text: str, number: int, at: float) -> None:
    body = encode(TextSaid(text=text))
    line = encode_record(number, at, body)[:-1]
    assert b"\n" not in line
    assert unpack_record(line) == (number, at, body)
    assert decode_record(line).event == TextSaid(text=text)


def test_a_record_is_plain_json_with_number_time_and_event() -> None:
    line = encode_record(3, 5.0, encode(TextSaid(text="hi")))
    found = msgspec.json.decode(line)
    assert list(found) == ["n", "t", "crc", "event"]
    assert (found["n"], found["t"], found["event"]) == (3, 5.0, {"kind": "text_said", "text": "hi"})


def _reads(line: bytes) -> bool:
    try:
        decode_record(line)
    except BrokenRecord:
        return False
    return True
