"""Cutting keeps whole characters and counts what it leaves out, whatever the pieces."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inspan.reporters.text import (
    MAX_OUTPUT_BYTES,
    Truncator,
    describe_timeout,
    escape_controls,
    escape_json,
    format_duration,
    one_line,
    replace_surrogates,
    truncate,
    truncate_bytes,
)
from tests.soak import rounds

BOUNDED = settings(max_examples=rounds(200))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@pytest.mark.parametrize(
    ("timeout_s", "words"),
    [
        (600.0, "ends after 10 min (--timeout)"),
        (90.0, "ends after 1m30s (--timeout)"),
        (5.0, "ends after 5.0s (--timeout)"),
        (None, ""),
    ],
)
def test_a_run_says_when_it_will_be_ended(timeout_s: float | None, words: str) -> None:
    assert describe_timeout(timeout_s) == words


def test_at_most_50_kb_are_shown() -> None:
    assert MAX_OUTPUT_BYTES == 50 * 1024


@pytest.mark.parametrize("size", [0, 1, MAX_OUTPUT_BYTES])
def test_a_text_up_to_the_limit_is_left_as_it_is(size: int) -> None:
    assert truncate("x" * size) == "x" * size


def test_a_longer_text_is_cut_and_says_how_much_is_missing() -> None:
    assert truncate("x" * (MAX_OUTPUT_BYTES + 7)) == "x" * MAX_OUTPUT_BYTES + "\n[… 7 more bytes]"


@pytest.mark.parametrize("character", ["é", "漢", "🦀"])
def test_a_character_on_the_border_is_left_out_whole_and_counted(character: str) -> None:
    width = len(character.encode())
    text = "x" * (MAX_OUTPUT_BYTES - 1) + character + "y"
    assert truncate(text) == "x" * (MAX_OUTPUT_BYTES - 1) + f"\n[… {width + 1} more bytes]"


@BOUNDED
@given(TEXTS, st.integers(0, 80))
def test_what_is_kept_is_a_beginning_and_nothing_is_uncounted(text: str, limit_bytes: int) -> None:
    kept, missing_bytes = truncate_bytes(text, limit_bytes)
    assert text.startswith(kept)
    assert len(kept.encode()) + missing_bytes == len(text.encode())
    assert len(kept.encode()) <= limit_bytes
    assert not missing_bytes or len((kept + text[len(kept)]).encode()) > limit_bytes


@BOUNDED
@given(st.lists(TEXTS, max_size=6), st.integers(0, 40))
def test_pieces_are_cut_as_their_whole_would_be(pieces: list[str], before_border: int) -> None:
    pieces = ["x" * (MAX_OUTPUT_BYTES - before_border), *pieces]
    cutter = Truncator()
    shown = "".join(map(cutter.truncate, pieces))
    assert (shown, cutter.missing_bytes) == truncate_bytes("".join(pieces))


def test_control_characters_are_shown_and_tabs_and_newlines_stay() -> None:
    assert escape_controls("\x1b[2J\x07\r\x00 \x7f\x9b a\tb\nc") == "␛[2J␇␍␀ \ufffd\ufffd a\tb\nc"


@pytest.mark.parametrize("code", [0xAD, 0x61C, 0x200B, 0x200F, 0x2028, 0x202E, 0x2066, 0x3164, 0xFEFF, 0xE0041])
def test_what_turns_text_around_or_cannot_be_seen_is_shown(code: int) -> None:
    assert escape_controls(f"a{chr(code)}b") == one_line(f"a{chr(code)}b") == "a\ufffdb"


def test_what_emoji_and_scripts_are_written_with_stays() -> None:
    text = "👩\u200d👩\u200d👧 ❤\ufe0f می\u200cخواهم e\u0301"
    assert escape_controls(text) == one_line(text) == text


@BOUNDED
@given(st.text())
def test_json_for_a_terminal_has_the_same_value_and_nothing_to_obey(text: str) -> None:
    for_terminal = escape_json(msgspec.json.encode(replace_surrogates(text)).decode())
    assert msgspec.json.decode(for_terminal) == replace_surrogates(text)
    assert escape_controls(for_terminal) == for_terminal


@pytest.mark.parametrize(("text", "shown"), [("🦀 é", "🦀 é"), ("a\ud83eb\udcff", "a?b?"), ("", "")])
def test_half_a_character_becomes_a_question_mark(text: str, shown: str) -> None:
    assert replace_surrogates(text) == shown


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(-1, "0.0s"), (0.04, "0.0s"), (59.94, "59.9s"), (60, "1m00s"), (3599, "59m59s"), (7260, "2h01m")],
)
def test_a_duration_has_two_units_at_the_most(seconds: float, told: str) -> None:
    assert format_duration(seconds) == told
