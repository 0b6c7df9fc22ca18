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
from inspan.redaction.spellings import hex_spellings, spellings

SECRET = 'pä"ss\\w/o+rd\n<&>~0x'
PLAIN = "sk-hunter2/Hunter+2"
MARKER = b"[REDACTED:NAME]"


def _twice(text: str) -> str:
    return json.dumps(json.dumps(text))[1:-1]


def mix_case(digits: str) -> str:
    """Every second letter in upper case."""
    return "".join(each.upper() if place % 3 else each for place, each in enumerate(digits))


def escapes(text: str) -> str:
    return "".join(f"\\u{ord(each):04x}" for each in text)


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
    "hex in mixed case": mix_case(SECRET.encode().hex()).encode(),
    "url with every character escaped": "".join(f"%{byte:02X}" for byte in SECRET.encode()).encode(),
    "the same in mixed case": mix_case("".join(f"%{byte:02x}" for byte in SECRET.encode())).encode(),
    "every character as an escape of JSON": escapes(SECRET).encode(),
    "the same in upper case": escapes(SECRET).upper().replace("\\U", "\\u").encode(),
    "the same in json": json.dumps(escapes(SECRET))[1:-1].encode(),
    "the same in json in json": json.dumps(json.dumps(escapes(SECRET))[1:-1])[1:-1].encode(),
    "utf-16": SECRET.encode("utf-16-le"),
    "utf-16 of the other order": SECRET.encode("utf-16-be"),
}


@pytest.mark.parametrize("how", WRITTEN)
def test_a_secret_is_found_however_it_is_written(how: str) -> None:
    assert SecretSet({"NAME": SECRET}).redact(b"<<" + WRITTEN[how] + b">>") == b"<<" + MARKER + b">>"


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("depth", range(4))
def test_utf16_that_was_taken_for_text_is_found_within_json(codec: str, depth: int) -> None:
    text = PLAIN.encode(codec).decode()
    for _ in range(depth):
        text = json.dumps(text)[1:-1]
    assert SecretSet({"NAME": PLAIN}).redact_text(f"<<{text}>>") == f"<<{MARKER.decode()}>>"


def test_two_secrets_of_one_name_are_both_found() -> None:
    secrets = SecretSet([("API_KEY", PLAIN), ("API_KEY", "another-hunter2-key"), ("API_KEY", "third/hunter2/key")])
    text = f"{PLAIN} another-hunter2-key third/hunter2/key"
    assert secrets.redact_text(text) == " ".join(["[REDACTED:API_KEY]"] * 3)
    assert SecretSet.get_shared([("A", "one-hunter2-key"), ("A", PLAIN)]).redact_text(f"one-hunter2-key {PLAIN}") == (
        "[REDACTED:A] [REDACTED:A]"
    )


PEM_BODY = [Random(number).randbytes(48) for number in range(4)]
PEM_LINES = [b64encode(part).decode() for part in PEM_BODY] + ["c2hvcnQgZW5kIG9mIGl0"]
PEM = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *PEM_LINES, "-----END RSA PRIVATE KEY-----"])
GIVEN = {
    "as it is": PEM,
    "of Windows": PEM.replace("\n", "\r\n"),
    "with its line ends written out": PEM.replace("\n", "\\n"),
    "with its line ends written out twice": PEM.replace("\n", "\\\\n"),
    "in one line": PEM.replace("\n", " "),
    "in json": json.dumps({"type": "service_account", "private_key": PEM}),
    "without its end": PEM.partition("-----END")[0],
    "between other keys": f"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n{PEM}\nand so on",
}


@pytest.mark.parametrize("how", GIVEN)
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\\n", "\\\\n", " | ", ""], ids=repr)
def test_a_private_key_is_found_line_by_line_whatever_ends_its_lines(how: str, ends: str) -> None:
    redacted = SecretSet({"KEY": GIVEN[how]}).redact_text(f"<{ends.join(PEM_LINES)}>")
    assert [line for line in PEM_LINES if line[4:-4] in redacted] == []
    alone = SecretSet({"KEY": GIVEN[how]}).redact_text(f"line 3 is {PEM_LINES[2]}, and so on")
    assert alone == "line 3 is [REDACTED:KEY], and so on"


def test_a_private_key_without_line_ends_is_found_in_lines() -> None:
    secrets = SecretSet({"KEY": PEM.replace("\n", "")})
    assert [line for line in PEM_LINES if secrets.redact_text(line) == line] == []


def test_what_a_line_of_a_private_key_has_of_signs_may_be_escaped() -> None:
    line = "Ab+/" * 16
    secrets = SecretSet({"KEY": f"-----BEGIN PRIVATE KEY-----\n{line}\n-----END PRIVATE KEY-----"})
    assert [secrets.redact_text(text) for text in (line.replace("/", "\\/"), quote(line), quote(line, safe=""))] == [
        "[REDACTED:KEY]"
    ] * 3


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
    assert spellings("abcd") == (b"abcd",)
    assert hex_spellings("abcd") == (b"61626364",)


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
    assert not SecretSet({"NAME": PLAIN}).has_secret(b"only words and sk-hunter2/ parts of it" * 50)


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


def every_pattern(compiled: SecretSet) -> tuple[bytes, ...]:
    return (*compiled.patterns, *compiled.digits)


def find_naively(compiled: SecretSet, data: bytes) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    in_lower_case = data.translate(bytes.maketrans(b"ABCDEF", b"abcdef"))
    for index, pattern in enumerate(every_pattern(compiled)):
        text = data if index < len(compiled.patterns) else in_lower_case
        start = text.find(pattern)
        while start >= 0:
            found.append((index, start, start + len(pattern)))
            start = text.find(pattern, start + 1)
    return sorted(found)


# The counts reach: one screen, several screens, the table automaton, the compact automaton.
@pytest.mark.parametrize("engine", ["ahocorasick", "hyperscan"])
@pytest.mark.parametrize("count", [1, 50, 200, 1400])
def test_every_engine_finds_all_that_brute_force_finds(engine: Engine, count: int) -> None:
    if engine == "hyperscan":
        pytest.importorskip("hyperscan")
    compiled = SecretSet(many_secrets(count), engine=engine)
    data = text_with(every_pattern(compiled)) + text_with(compiled.digits).upper()
    assert sorted(compiled.find(data)) == find_naively(compiled, data)


@pytest.mark.parametrize("engine", ["ahocorasick", "hyperscan"])
@pytest.mark.parametrize("count", [1, 50, 200, 1400])
def test_a_single_secret_in_a_long_text_is_found_whichever_it_is(engine: Engine, count: int) -> None:
    if engine == "hyperscan":
        pytest.importorskip("hyperscan")
    compiled = SecretSet(many_secrets(count), engine=engine)
    words = b"some words " * 100
    written = (*every_pattern(compiled), *(each.replace(b"a", b"A").replace(b"c", b"C") for each in compiled.digits))
    assert [each for each in written if not compiled.has_secret(words + each + words)] == []


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
