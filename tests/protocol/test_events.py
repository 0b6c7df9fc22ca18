"""Every kind of event survives the way to disk and back, and a reader keeps what it does not know."""

from typing import get_args

import msgspec
import pytest

from inspan.protocol.events import Event, TextSaid, Unrecognized
from inspan.protocol.wire import decode_event, decode_record, encode, encode_record

from .examples import EXAMPLES


def _kind(event: Event) -> str:
    return str(msgspec.to_builtins(event)["kind"])


def test_the_examples_show_every_kind_once_with_every_field_set() -> None:
    assert [type(event) for event in EXAMPLES] == list(get_args(Event))
    blank = [
        (type(event).__name__, field)
        for event in EXAMPLES
        for field in event.__struct_fields__
        if getattr(event, field) in ("", None, [], {})
    ]
    assert blank == []


@pytest.mark.parametrize("event", EXAMPLES, ids=_kind)
def test_an_event_comes_back_from_its_record_as_it_went_in(event: Event) -> None:
    line = encode_record(7, 1700000000.125, encode(event))
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode_record(line[:-1]) == (7, 1700000000.125, event)


@pytest.mark.parametrize("event", EXAMPLES, ids=_kind)
def test_a_field_of_a_later_version_is_ignored(event: Event) -> None:
    body = msgspec.json.encode({**msgspec.to_builtins(event), "added_later": {"deep": [1]}})
    assert decode_event(body) == event


def test_a_kind_of_a_later_version_is_kept_word_for_word() -> None:
    body = b'{"kind":"moon_landed","where":"Tranquility"}'
    found = decode_event(body)
    assert isinstance(found, Unrecognized)
    assert found.raw == body.decode()
    assert "moon_landed" in found.note


@pytest.mark.parametrize(
    "body", [b'{"kind":"text_said"}', b'{"kind":"text_said","text":5}', b"[]", b"null", b'"text_said"', b"{}"]
)
def test_an_event_that_does_not_fit_its_kind_is_kept_word_for_word(body: bytes) -> None:
    found = decode_event(body)
    assert isinstance(found, Unrecognized)
    assert found.raw == body.decode()


def test_empty_fields_are_not_spelled() -> None:
    assert encode(TextSaid(text="hi")) == b'{"kind":"text_said","text":"hi"}'
