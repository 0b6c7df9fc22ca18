"""The spellings that are found, by every engine, in text long enough for each of their paths."""

import json
from base64 import b64encode, urlsafe_b64encode
from concurrent.futures import ThreadPoolExecutor
from random import Random
from string import ascii_letters, digits
from urllib.parse import quote, quote_plus

import msgspec
import pytest

from inspan.redaction import SecretSet
from inspan.redaction.engines import Engine
from inspan.redaction.spellings import spellings

SECRET = 'pä"ss\\w/o+rd\n<&>~0x'
PLAIN = "sk-hunter2/Hunter+2"
MARKER = b"[REDACTED:NAME]"


def _twice(text: str) -> str:
    return json.dumps(json.dumps(text))[1:-1]


WRITTEN = {
    "raw": SECRET.encode(),
    "msgspec": msgspec.json.encode(SECRET)[1:-1],
    "json": json.dumps(SECRET)[1:-1].encode(),
    "json in upper case": json.dumps(SECRET)[1:-1].replace("\\u00e4", "\\u00E4").encode(),
    "json of Go": msgspec.json.encode(SECRET)[1:-1].replace(b"<&>", b"\\u003c\\u0026\\u003e"),
    "json of PHP": msgspec.json.encode(SECRET)[1:-1].replace(b"/", b"\\/"),
    "json in json": _twice(SECRET)[2:-2].encode(),
    "json in json in json": json.dumps(_twice(SECRET)[2:-2])[1:-1].encode(),
    "url": quote(SECRET, safe="").encode(),
    "url path": quote(SECRET, safe="/").encode(),
    "url form": quote_plus(SECRET).encode(),
    "url of JavaScript": quote(SECRET, safe="!'()*").encode(),
    "url in lower case": b"p%c3%a4%22ss%5cw%2fo%2brd%0a%3c%26%3e~0x",
    "hex": SECRET.encode().hex().encode(),
    "HEX": SECRET.encode().hex().upper().encode(),
}


@pytest.mark.parametrize("how", WRITTEN)
def test_a_secret_is_found_however_it_is_written(how: str) -> None:
    assert SecretSet({"NAME": SECRET}).redact(b"<<" + WRITTEN[how] + b">>") == b"<<" + MARKER + b">>"


@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
@pytest.mark.parametrize("before", range(6))
@pytest.mark.parametrize("after", range(4))
def test_base64_shows_no_more_than_the_edges_whatever_is_around(encode: type, before: int, after: int) -> None:
    text = encode(b"\xfb" * before + PLAIN.encode() + b"\xef" * after)
    redacted = SecretSet({"NAME": PLAIN}).redact(text)
    left, marker, right = redacted.partition(MARKER)
    most_left, most_right = -(-8 * before // 6), -(-8 * after // 6) + 4
    assert marker and len(left) <= most_left and len(right) <= most_right


def test_base64_of_a_secret_too_short_to_be_distinctive_is_left_out() -> None:
    assert spellings("abcd") == (b"abcd", b"61626364")


def test_no_spelling_is_there_twice_and_the_secret_is_the_first() -> None:
    found = spellings(PLAIN)
    assert found[0] == PLAIN.encode() and len(set(found)) == len(found)


def test_an_empty_secret_has_no_spelling() -> None:
    assert not SecretSet({"EMPTY": ""})


def test_the_bytes_behind_an_undecodable_variable_are_found() -> None:
    value = b"hunter2\xff\xfehunter2".decode("utf-8", "surrogateescape")
    assert SecretSet({"NAME": value}).redact(b"<hunter2\xff\xfehunter2>") == b"<" + MARKER + b">"


def test_text_with_lone_surrogates_passes_and_is_redacted() -> None:
    assert SecretSet({"NAME": PLAIN}).redact_text(f"\ud83d {PLAIN} é\udc00") == "\ud83d [REDACTED:NAME] é\udc00"


def test_text_without_a_secret_comes_back_as_it_is() -> None:
    text = "nothing \ud800 here"
    assert SecretSet({"NAME": PLAIN}).redact_text(text) is text


def test_a_name_cannot_break_the_json_around_its_marker() -> None:
    assert SecretSet({'a"\\\n': PLAIN}).redact(PLAIN.encode()) == b"[REDACTED:a___]"


def test_secrets_do_not_show_in_the_representation() -> None:
    assert repr(SecretSet({"NAME": PLAIN})) == "SecretSet(names=('NAME',))"


def test_nothing_is_found_where_nothing_is() -> None:
    assert not SecretSet({"NAME": PLAIN}).find_any(b"only words and sk-hunter2/ parts of it" * 50)


def many_secrets(count: int) -> dict[str, str]:
    chance = Random(count)
    values = (
        "".join(chance.choices(ascii_letters + digits + "+/-_", k=chance.randrange(12, 40))) for _ in range(count)
    )
    return {f"S{number}": value for number, value in enumerate(values)}


def text_with(patterns: tuple[bytes, ...]) -> bytes:
    """Some hundred whole and broken patterns between words, some overlapping."""
    chance = Random(5)
    pieces: list[bytes] = []
    for pattern in chance.sample(patterns, k=min(len(patterns), 150)):
        pieces += (pattern, b"some words ", pattern[:-1], pattern[1:], bytes([chance.randrange(256)]) * 3)
    return b"".join(pieces)


def naive(patterns: tuple[bytes, ...], data: bytes) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    for index, pattern in enumerate(patterns):
        start = data.find(pattern)
        while start >= 0:
            found.append((index, start, start + len(pattern)))
            start = data.find(pattern, start + 1)
    return sorted(found)


# The counts reach: one screen, several screens, the table automaton, the compact automaton.
@pytest.mark.parametrize("engine", ["ahocorasick", "hyperscan"])
@pytest.mark.parametrize("count", [1, 50, 200, 1400])
def test_every_engine_finds_all_that_brute_force_finds(engine: Engine, count: int) -> None:
    if engine == "hyperscan":
        pytest.importorskip("hyperscan")
    compiled = SecretSet(many_secrets(count), engine=engine)
    data = text_with(compiled.patterns)
    assert sorted(compiled.find(data)) == naive(compiled.patterns, data)


@pytest.mark.parametrize("engine", ["ahocorasick", "hyperscan"])
@pytest.mark.parametrize("count", [1, 50, 200, 1400])
def test_a_single_secret_in_a_long_text_is_found_whichever_it_is(engine: Engine, count: int) -> None:
    if engine == "hyperscan":
        pytest.importorskip("hyperscan")
    compiled = SecretSet(many_secrets(count), engine=engine)
    words = b"some words " * 100
    assert [each for each in compiled.patterns if not compiled.find_any(words + each + words)] == []


@pytest.mark.parametrize("engine", ["ahocorasick", "hyperscan"])
def test_every_engine_copes_with_no_bytes_and_with_nul_bytes(engine: Engine) -> None:
    if engine == "hyperscan":
        pytest.importorskip("hyperscan")
    compiled = SecretSet({"NAME": "a\0b\0c\0d\0e"}, engine=engine)
    assert (compiled.redact(b""), compiled.redact(b"\0a\0b\0c\0d\0e\0")) == (b"", b"\0" + MARKER + b"\0")


@pytest.mark.parametrize("engine", ["ahocorasick", "hyperscan"])
def test_threads_share_one_set(engine: Engine) -> None:
    if engine == "hyperscan":
        pytest.importorskip("hyperscan")
    compiled = SecretSet(many_secrets(120), engine=engine)
    data = text_with(compiled.patterns)
    expected = compiled.redact(data)
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(compiled.redact, [data] * 40)) == {expected}
