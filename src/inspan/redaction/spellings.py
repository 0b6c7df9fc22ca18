"""The ways one secret can be written: as it is, inside JSON, inside a URL, as hex, as base64.

Separate from matching, because adding a spelling must not mean touching an engine.
"""

import re
from base64 import b64encode
from collections.abc import Iterator
from json import dumps
from urllib.parse import quote, quote_plus

SHORTEST_ENCODED = 8
_PERCENT = re.compile(r"%[0-9A-F]{2}")
_UNICODE_ESCAPE = re.compile(r"\\u[0-9a-f]{4}")
# Go's encoding/json escapes these three, unless told otherwise.
_GO_ESCAPES = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}
# What encodeURIComponent of JavaScript leaves alone and quote does not.
_JAVASCRIPT_SAFE = "!'()*"


def spellings(secret: str) -> tuple[bytes, ...]:
    """Every distinct spelling that is redacted, the secret itself first; none for an empty secret."""
    if not secret:
        return ()
    raw = _utf8(secret)
    found = dict.fromkeys([raw, *_from_environment(secret)])
    found.update(dict.fromkeys(_utf8(text) for text in _in_json(secret)))
    found.update(dict.fromkeys(text.encode() for text in _in_url(raw)))
    encoded = (*_in_hex(raw), *_in_base64(raw))
    found.update(dict.fromkeys(each for each in encoded if len(each) >= SHORTEST_ENCODED))
    return tuple(found)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _from_environment(secret: str) -> Iterator[bytes]:
    """The bytes as the operating system had them, where os.environ turned some into surrogates."""
    try:
        yield secret.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return


def _in_json(secret: str) -> Iterator[str]:
    """JSON in JSON in JSON: tools print JSON, agents quote what tools print, and events quote agents."""
    once = set(_escaped(secret))
    twice = {text for inner in once for text in (_quoted(inner), _quoted(inner, ascii_only=True))}
    yield from sorted(once)
    yield from sorted(twice)
    yield from sorted({_quoted(inner) for inner in twice})


def _escaped(secret: str) -> Iterator[str]:
    plain, ascii_only = _quoted(secret), _quoted(secret, ascii_only=True)
    yield from (plain, ascii_only)
    yield _UNICODE_ESCAPE.sub(lambda match: "\\u" + match[0][2:].upper(), ascii_only)
    yield plain.translate(_GO_ESCAPES)
    yield plain.replace("/", "\\/")


def _quoted(text: str, *, ascii_only: bool = False) -> str:
    return dumps(text, ensure_ascii=ascii_only)[1:-1]


def _in_url(raw: bytes) -> Iterator[str]:
    written = (quote(raw, safe=""), quote(raw, safe="/"), quote(raw, safe=_JAVASCRIPT_SAFE), quote_plus(raw))
    for text in written:
        yield text
        yield _PERCENT.sub(lambda match: match[0].lower(), text)


def _in_hex(raw: bytes) -> tuple[bytes, bytes]:
    return raw.hex().encode(), raw.hex().upper().encode()


def _in_base64(raw: bytes) -> Iterator[bytes]:
    """At each of the three alignments, the characters that no neighbouring byte can change."""
    for before in range(3):
        text = b64encode(bytes(before) + raw)
        inner = text[-(-8 * before // 6) : 8 * (before + len(raw)) // 6]
        yield inner
        yield inner.translate(bytes.maketrans(b"+/", b"-_"))
