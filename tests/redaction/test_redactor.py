"""The streaming redactor against a brute-force reference, and against mutants that must be caught."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st
from tests.soak import rounds

from inspan.redaction import Redactor, SecretSet
from inspan.redaction.spellings import escaped_spellings, hex_spellings, spellings, wide_spellings

LOWER = bytes.maketrans(b"ABCDEF", b"abcdef")
BOUNDED = settings(max_examples=rounds(120))


@dataclass(frozen=True, kw_only=True)
class Case:
    """A stream: secrets, the bytes, and where the bytes are cut into chunks."""

    secrets: dict[str, str]
    data: bytes
    cuts: tuple[int, ...]

    def chunks(self) -> list[bytes]:
        places = [0, *sorted(min(cut, len(self.data)) for cut in self.cuts), len(self.data)]
        return [self.data[start:end] for start, end in pairwise(places)]


class WithoutHoldBack(Redactor):
    """A mutant that treats each chunk as if it were the whole."""

    def feed(self, chunk: bytes) -> bytes:
        return self._emit(chunk, len(chunk))


class HoldingOnlyAfterMatches(Redactor):
    """A mutant that forgets that the bytes of a match may also begin a longer one."""

    def feed(self, chunk: bytes) -> bytes:
        data = self._held + chunk
        ends = [end for _, _, end in self._secrets.find(data)]
        return self._emit(data, max([self._secrets.prefixes.find_cut(data), *ends]))


def exact_spellings(value: str) -> tuple[bytes, ...]:
    return (*spellings(value), *wide_spellings(value))


def digit_spellings(value: str) -> tuple[bytes, ...]:
    """Those that are found in either case."""
    return (*hex_spellings(value), *escaped_spellings(value))


def reference(secrets: dict[str, str], data: bytes) -> bytes:
    """What redacting must give, found by trying every spelling at every place."""
    output, reach = b"", 0
    for start, end, name in brute_force(secrets, data):
        if start >= reach:
            output += data[reach:start] + b"[REDACTED:" + name.encode() + b"]"
        reach = max(reach, end)
    return output + data[reach:]


def brute_force(secrets: dict[str, str], data: bytes) -> list[tuple[int, int, str]]:
    found: dict[tuple[int, int], str] = {}
    in_lower_case = data.translate(LOWER)
    for name, value in secrets.items():
        exact, digits = exact_spellings(value), digit_spellings(value)
        searched = [*((each, data) for each in exact), *((each, in_lower_case) for each in digits)]
        for spelling, text in searched:
            start = text.find(spelling)
            while start >= 0:
                found.setdefault((start, start + len(spelling)), name)
                start = text.find(spelling, start + 1)
    spans = [(start, end, name) for (start, end), name in found.items()]
    return sorted(spans, key=lambda span: (span[0], -span[1]))


def feed_all(redactor: Redactor, chunks: Sequence[bytes]) -> bytes:
    return b"".join([*map(redactor.feed, chunks), redactor.flush()])


def equals_the_whole(kind: type[Redactor], case: Case) -> bool:
    return feed_all(kind(case.secrets), case.chunks()) == reference(case.secrets, case.data)


SECRET = st.text(alphabet='ab"\\é\n/&', min_size=1, max_size=7) | st.text(alphabet="abc", min_size=1, max_size=5)
NOISE = st.sampled_from([b"", b"\n", b"z", b"a", b"b", b"\xff", b"\xc3", b"z" * 400])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Streams made of whole and broken spellings, close together."""
    values = draw(st.lists(SECRET, min_size=1, max_size=4))
    secrets = {f"S{number}": value for number, value in enumerate(values)}
    written = sorted({each for value in values for each in exact_spellings(value)})
    digits = sorted({each for value in values for each in digit_spellings(value)})
    piece = st.sampled_from(written)
    if digits:
        piece |= st.builds(_in_mixed_case, st.sampled_from(digits), mask=st.integers(0, 255))
    broken = st.builds(_part, piece, start=st.integers(0, 3), end=st.integers(1, 9))
    data = b"".join(draw(st.lists(piece | broken | NOISE, max_size=8)))
    cuts = draw(st.lists(st.integers(0, len(data)), max_size=6))
    return Case(secrets=secrets, data=data, cuts=tuple(cuts))


def _part(text: bytes, *, start: int, end: int) -> bytes:
    return text[start:end]


def _in_mixed_case(digits: bytes, *, mask: int) -> bytes:
    raised = digits.translate(bytes.maketrans(b"abcdef", b"ABCDEF"))
    return bytes(pair[mask >> place % 8 & 1] for place, pair in enumerate(zip(digits, raised, strict=True)))


ADVERSARIAL = [
    Case(secrets={"A": "abcd"}, data=b"xabcdx", cuts=(3,)),
    Case(secrets={"A": "abc", "B": "abcabd"}, data=b"abcabd", cuts=(3,)),
    Case(secrets={"A": "abc", "B": "cde"}, data=b"abcde", cuts=(3,)),
    Case(secrets={"A": "abcx", "B": "bc", "C": "cyy"}, data=b"abcyy", cuts=(3,)),
    Case(secrets={"A": "aa"}, data=b"aaaaa", cuts=(1, 2, 3, 4)),
    Case(secrets={"A": "ab", "B": "ba"}, data=b"ababab", cuts=(1, 3, 5)),
    Case(secrets={"A": "a"}, data=b"aaa", cuts=(1,)),
    Case(secrets={"A": "abab", "B": "bababa"}, data=b"zabababababz", cuts=(4, 6, 9)),
]


@pytest.mark.parametrize("case", ADVERSARIAL)
def test_every_possible_chunking_of_a_nasty_stream_gives_what_the_whole_gives(case: Case) -> None:
    places = range(1, len(case.data))
    chosen = [[place for place in places if mask >> place & 1] for mask in range(0, 1 << len(case.data), 2)]
    rechunked = [Case(secrets=case.secrets, data=case.data, cuts=tuple(cuts)) for cuts in chosen]
    assert [each for each in rechunked if not equals_the_whole(Redactor, each)] == []


@BOUNDED
@given(cases())
def test_any_chunking_gives_what_the_whole_gives(case: Case) -> None:
    assert feed_all(Redactor(case.secrets), case.chunks()) == reference(case.secrets, case.data)


@BOUNDED
@given(cases())
def test_single_bytes_give_what_the_whole_gives(case: Case) -> None:
    single = [bytes([byte]) for byte in case.data]
    assert feed_all(Redactor(case.secrets), single) == reference(case.secrets, case.data)


@BOUNDED
@given(cases())
def test_redacting_at_once_gives_what_brute_force_gives(case: Case) -> None:
    assert SecretSet(case.secrets).redact(case.data) == reference(case.secrets, case.data)


@BOUNDED
@given(cases())
def test_no_spelling_of_a_secret_is_left(case: Case) -> None:
    output = feed_all(Redactor(case.secrets), case.chunks())
    unmarked = re.sub(rb"\[REDACTED:S\d\]", b"\0", output)
    assert brute_force(case.secrets, unmarked) == []


@BOUNDED
@given(cases())
def test_only_a_proper_prefix_of_a_spelling_is_held_back(case: Case) -> None:
    compiled = SecretSet(case.secrets)
    redactor = Redactor(compiled)
    for chunk in case.chunks():
        redactor.feed(chunk)
        held = redactor.pending
        assert len(held) < compiled.longest
        beginnings = [*((each, held) for each in compiled.patterns)]
        beginnings += [(each, held.translate(LOWER)) for each in compiled.digits]
        assert not held or any(each.startswith(begun) and each != begun for each, begun in beginnings)


@BOUNDED
@given(cases())
def test_everything_before_the_earliest_possible_secret_is_out_at_once(case: Case) -> None:
    compiled = SecretSet(case.secrets)
    prefixes = {each[:length] for each in compiled.patterns for length in range(1, len(each))}
    digits = {each[:length] for each in compiled.digits for length in range(1, len(each))}
    rests = ((start, case.data[start:]) for start in range(len(case.data)))
    places = (start for start, rest in rests if rest in prefixes or rest.translate(LOWER) in digits)
    assert compiled.prefixes.find_cut(case.data) == next(places, len(case.data))


@pytest.mark.parametrize("mutant", [WithoutHoldBack, HoldingOnlyAfterMatches])
def test_a_mutant_is_caught_by_the_same_property(mutant: type[Redactor]) -> None:
    bounded = settings(BOUNDED, max_examples=3000)
    caught = find(cases(), lambda case: not equals_the_whole(mutant, case), settings=bounded, random=Random(1))
    assert equals_the_whole(Redactor, caught)


@pytest.mark.parametrize("mutant", [WithoutHoldBack, HoldingOnlyAfterMatches])
def test_a_mutant_is_caught_by_the_nasty_streams(mutant: type[Redactor]) -> None:
    assert not all(equals_the_whole(mutant, case) for case in ADVERSARIAL)


def test_without_secrets_the_very_chunk_comes_back() -> None:
    chunk = b"nothing to hide"
    assert Redactor({}).feed(chunk) is chunk


def test_a_chunk_that_cannot_begin_a_secret_comes_back_as_it_is() -> None:
    chunk = b"a line\n"
    assert Redactor({"A": "hunter2hunter2"}).feed(chunk) is chunk


def test_a_marker_is_out_as_soon_as_its_name_is_decided() -> None:
    redactor = Redactor({"A": "abcd", "B": "cdef"})
    assert (redactor.feed(b"abcd"), redactor.pending) == (b"[REDACTED:A]", b"cd")


def test_a_match_that_began_under_a_marker_gets_no_marker_of_its_own() -> None:
    redactor = Redactor({"A": "abcd", "B": "cdef"})
    assert feed_all(redactor, [b"abcd", b"e", b"f!"]) == b"[REDACTED:A]!"


def test_secrets_that_only_touch_stay_two_markers() -> None:
    assert feed_all(Redactor({"A": "abcd", "B": "efgh"}), [b"abcde", b"fgh"]) == b"[REDACTED:A][REDACTED:B]"


def test_of_two_that_start_together_the_longest_gives_the_name() -> None:
    assert feed_all(Redactor({"A": "abcd", "B": "abcdef"}), [b"abcd", b"ef"]) == b"[REDACTED:B]"


def test_of_two_names_for_one_value_the_first_is_shown() -> None:
    assert Redactor({"FIRST": "hunter2hunter2", "SECOND": "hunter2hunter2"}).feed(b"hunter2hunter2\n") == (
        b"[REDACTED:FIRST]\n"
    )


def test_an_unfinished_secret_comes_out_at_the_end() -> None:
    assert feed_all(Redactor({"A": "hunter2hunter2"}), [b"say hunter2"]) == b"say hunter2"


def test_a_flushed_redactor_is_as_new() -> None:
    redactor = Redactor({"A": "abcd", "B": "cdef"})
    feed_all(redactor, [b"abcd"])
    assert feed_all(redactor, [b"ef abcd"]) == b"ef [REDACTED:A]"


def test_a_long_secret_of_many_lines_is_held_back_and_redacted() -> None:
    chance = Random(3)
    key = "-----BEGIN KEY-----\n" + "\n".join(chance.randbytes(32).hex() for _ in range(40)) + "\n-----END KEY-----\n"
    text = f"here it is\n{key}that was it\n".encode()
    chunks = [text[start : start + 100] for start in range(0, len(text), 100)]
    assert feed_all(Redactor({"KEY": key}), chunks) == b"here it is\n[REDACTED:KEY]that was it\n"


def test_an_environment_is_enough_to_build_a_redactor() -> None:
    redactor = Redactor.from_env({"OPENAI_API_KEY": "sk-hunter2hunter2", "HOME": "/home/someone"})
    assert redactor.feed(b"/home/someone sk-hunter2hunter2\n") == b"/home/someone [REDACTED:OPENAI_API_KEY]\n"
