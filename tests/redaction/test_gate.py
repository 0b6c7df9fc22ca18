"""What passes the gate: events, values, texts, and texts in pieces."""

import json
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.soak import rounds

from inspan.redaction import Gate, SecretSet

BOUNDED = settings(max_examples=rounds(200))
SECRETS = SecretSet({"WORD": 'hunt"er2\\é', "DIGITS": "8675309867", "OTHER": "er2\\éxyz"})


class SampleEvent(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    text: str
    at: datetime = datetime(2026, 1, 2, tzinfo=UTC)
    count: int = 0
    share: float = 0.0
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    extra: dict[str, Any] = {}


def redact_event(event: SampleEvent) -> dict[str, Any]:
    return json.loads(Gate(SECRETS).encode_event(event))


def test_an_event_without_a_secret_is_encoded_as_it_is() -> None:
    event = SampleEvent(text="plain", count=3)
    assert Gate(SECRETS).encode_event(event) == msgspec.json.encode(event)


def test_only_the_strings_that_hold_a_secret_change() -> None:
    event = SampleEvent(
        text='say hunt"er2\\é!', count=3, share=0.5, extra={"list": ["kept", 'hunt"er2\\é', None, True]}
    )
    expected = json.loads(msgspec.json.encode(event))
    expected["text"] = "say [REDACTED:WORD]!"
    expected["extra"]["list"][1] = "[REDACTED:WORD]"
    assert redact_event(event) == expected


def test_json_inside_a_string_of_an_event_is_redacted() -> None:
    inner = json.dumps({"quoted": json.dumps('hunt"er2\\é')})
    assert redact_event(SampleEvent(text=inner))["text"] == inner.replace(
        json.dumps(json.dumps('hunt"er2\\é'))[3:-3], "[REDACTED:WORD]"
    )


def test_a_key_that_is_a_secret_is_redacted_and_no_value_is_lost() -> None:
    extra = {"8675309867": 1, "38363735333039383637": 2}
    assert redact_event(SampleEvent(text="", extra=extra))["extra"] == {
        "[REDACTED:DIGITS]": 1,
        "[REDACTED:DIGITS]#2": 2,
    }


@pytest.mark.parametrize("number", [8675309867, -8675309867, 18675309867001])
def test_a_number_that_spells_a_secret_becomes_a_string(number: int) -> None:
    assert redact_event(SampleEvent(text="", count=number))["count"] == str(number).replace(
        "8675309867", "[REDACTED:DIGITS]"
    )


def test_a_fraction_that_spells_a_secret_becomes_a_string() -> None:
    assert redact_event(SampleEvent(text="", share=0.8675309867))["share"] == "0.[REDACTED:DIGITS]"


def test_a_number_in_a_raw_payload_is_read_as_it_was_written() -> None:
    payload = msgspec.Raw(b'{"n":1.86753098670000000000001,"m":1.5}')
    assert redact_event(SampleEvent(text="", payload=payload))["payload"] == {
        "n": "1.[REDACTED:DIGITS]0000000000001",
        "m": 1.5,
    }


def test_other_numbers_stay_numbers_beside_a_redacted_one() -> None:
    seen = redact_event(SampleEvent(text="8675309867", count=867530986, share=0.25))
    assert (seen["text"], seen["count"], seen["share"]) == ("[REDACTED:DIGITS]", 867530986, 0.25)


def test_an_escape_before_a_secret_like_word_does_not_break_the_event() -> None:
    gate = Gate({"NAME": "nothing-secret"})
    event = SampleEvent(text="\nothing-secret")
    assert gate.encode_event(event) == msgspec.json.encode(event)


def test_the_encoder_can_be_chosen() -> None:
    gate = Gate({}, encode=lambda event: b"encoded")
    assert gate.encode_event(SampleEvent(text="")) == b"encoded"


def test_any_value_of_plain_data_is_walked() -> None:
    value = {"a": ["8675309867", ("x", b"8675309867")], 8675309867: False, "n": 1.0}
    marked = "[REDACTED:DIGITS]"
    assert Gate(SECRETS).redact_value(value) == {"a": [marked, ("x", marked.encode())], marked: False, "n": 1.0}


def test_text_and_bytes_are_redacted_whole() -> None:
    gate = Gate({"NAME": "hunter2hunter2"})
    assert (gate.redact_text("é hunter2hunter2"), gate.redact_bytes(b"\xff hunter2hunter2")) == (
        "é [REDACTED:NAME]",
        b"\xff [REDACTED:NAME]",
    )


@BOUNDED
@given(
    pieces=st.lists(
        st.sampled_from(['hunt"er2\\é', "er2\\éxyz", "hunt", '"er2\\', "é", "😀", "\ud83d", "8675", "309867"])
    ),
    cuts=st.lists(st.integers(0, 60)),
)
def test_deltas_cut_anywhere_show_what_the_whole_text_would(pieces: list[str], cuts: list[int]) -> None:
    text = "".join(pieces)
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    gate = Gate(SECRETS)
    shown_parts = [gate.redact_delta("block", text[start:end]) for start, end in pairwise(places)]
    assert "".join([*shown_parts, gate.end_block("block")]) == gate.redact_text(text)


def test_a_delta_that_cannot_begin_a_secret_is_shown_at_once() -> None:
    assert Gate(SECRETS).redact_delta("block", "Hello, wörld. ") == "Hello, wörld. "


def test_blocks_do_not_see_each_other() -> None:
    gate = Gate({"NAME": "hunter2hunter2"})
    said = [
        gate.redact_delta("a", "hunter2"),
        gate.redact_delta("b", "hunter2"),
        gate.redact_delta("a", "hunter2"),
        gate.end_block("b"),
    ]
    assert said == ["", "", "[REDACTED:NAME]", "hunter2"]


def test_a_character_is_never_shown_in_halves() -> None:
    gate = Gate({"NAME": "éhunter2"})
    assert [gate.redact_delta("a", "x\u00e9"), gate.redact_delta("a", "\u00e8"), gate.end_block("a")] == ["x", "éè", ""]


def test_a_block_that_is_over_or_never_began_holds_nothing() -> None:
    gate = Gate({"NAME": "hunter2hunter2"})
    gate.redact_delta("a", "hunter2")
    assert [gate.end_block("a"), gate.end_block("a"), gate.end_block("b")] == ["hunter2", "", ""]


def test_without_secrets_deltas_pass() -> None:
    gate = Gate({})
    assert (gate.redact_delta("a", "text"), gate.end_block("a")) == ("text", "")
