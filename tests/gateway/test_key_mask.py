"""The provider's key never comes back, however an answer is cut into pieces."""

from base64 import b64decode, b64encode

import pytest

from inspan.gateway.key_mask import KeyMask

KEY = "sk-ant/real+key=1"


def feed_all(mask: KeyMask, pieces: list[bytes]) -> bytes:
    return b"".join(mask.feed(piece) for piece in pieces) + mask.finish()


SPELLINGS = {
    "as it is": KEY,
    "percent": "sk-ant%2Freal%2Bkey%3D1",
    "escaped slash": "sk-ant\\/real+key=1",
    "every character percent": "".join(f"%{ord(letter):02x}" for letter in KEY),
    "every character escaped": "".join(f"\\u{ord(letter):04x}" for letter in KEY),
    "hex": KEY.encode().hex(),
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=list(SPELLINGS))
@pytest.mark.parametrize("size", range(1, 30))
def test_a_key_is_hidden_in_every_chunking(spelling: str, size: int) -> None:
    text = f"sk-sk-ant {spelling}{spelling} sk-".encode()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    stars = "*" * len(spelling)
    assert feed_all(KeyMask(KEY), pieces) == f"sk-sk-ant {stars}{stars} sk-".encode()


@pytest.mark.parametrize("before", ["", "a", "ab"])
def test_a_key_in_base64_is_hidden(before: str) -> None:
    encoded = b64encode(f"{before}{KEY} and more".encode())
    told = feed_all(KeyMask(KEY), [encoded])
    assert len(told) == len(encoded)
    assert KEY not in b64decode(told.replace(b"*", b"A")).decode("latin-1")


def test_an_answer_that_ends_within_the_key_hides_what_it_has_of_it() -> None:
    assert feed_all(KeyMask(KEY), [b"key: ", KEY[:-1].encode()]) == b"key: " + b"*" * (len(KEY) - 1)
    assert feed_all(KeyMask(KEY), [b"a task"]) == b"a task"


def test_only_the_beginning_of_a_key_is_held_back() -> None:
    mask = KeyMask(KEY)
    assert mask.feed(b"data: {}\n\n") == b"data: {}\n\n"
    assert (mask.feed(b"a sk-"), mask.feed(b"x")) == (b"a ", b"sk-x")


def test_headers_are_looked_at_too() -> None:
    headers = {"location": f"/x?key={KEY}", f"x-{KEY}": "1", "x-fine": "yes"}
    assert KeyMask(KEY).mask_headers(headers) == {"location": "/x?key=" + "*" * len(KEY), "x-fine": "yes"}


def test_without_a_key_everything_passes() -> None:
    mask = KeyMask("")
    assert (mask.feed(b"any"), mask.finish(), mask.mask_headers({"a": "b"})) == (b"any", b"", {"a": "b"})
