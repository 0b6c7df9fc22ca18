"""The ways one secret can be written: as it is, inside JSON, inside a URL, as hex, as base64, as UTF-16.

Separate from matching, because adding a spelling must not mean touching an engine.
"""

import re
from base64 import b64encode
from collections.abc import Iterator
from json import dumps
from urllib.parse import quote, quote_plus

SHORTEST_ENCODED = 8
# The alphabet in which a spelling of hexadecimal digits is compared: nothing but the case of its digits is lost.
ONE_CASE = bytes.maketrans(b"ABCDEF", b"abcdef")
_PERCENT = re.compile(r"%[0-9A-F]{2}")
_UNICODE_ESCAPE = re.compile(r"\\u[0-9a-f]{4}")
# Go's encoding/json escapes these three, unless told otherwise.
_GO_ESCAPES = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}
# What encodeURIComponent of JavaScript leaves alone and quote does not.
_JAVASCRIPT_SAFE = "!'()*"
# A block of PEM, whole or without its end; what breaks its lines may be written out, once or within other text.
_PEM_BLOCK = re.compile(r"-----BEGIN [A-Z0-9 ]+-----(.*?)(?:-----END|\Z)", re.DOTALL)
_PEM_BREAK = re.compile(r"(?:\\+[rn]|\s)+")
_PEM_LINE = re.compile(r"[A-Za-z0-9+/=]{16,}")
_PEM_WIDTH = 64
# An escaped letter before another escape, which nothing writes that need not: few, so that many spellings share one.
_MARK = re.compile(rb"%6[0-9]%|u006[0-9]\\")
_MARK_BYTES = 4


def spellings(secret: str) -> tuple[bytes, ...]:
    """Every distinct spelling that is redacted as it stands here, the secret itself first; none for an empty secret."""
    if not secret:
        return ()
    raw = _to_utf8(secret)
    found = dict.fromkeys([raw, *_to_os_bytes(secret)])
    found.update(dict.fromkeys(_to_utf8(text) for text in _json_spellings(secret)))
    found.update(dict.fromkeys(text.encode() for text in _url_spellings(raw)))
    found.update(dict.fromkeys(each for each in _base64_spellings(raw) if len(each) >= SHORTEST_ENCODED))
    found.update(dict.fromkeys(line for text in _pem_lines(secret) for line in _pem_line_spellings(text)))
    return tuple(found)


def wide_spellings(secret: str) -> tuple[bytes, ...]:
    """The secret as UTF-16 of either byte order: as it is, and as JSON escapes its NUL bytes, however deep."""
    found: dict[bytes, None] = {}
    for codec in ("utf-16-le", "utf-16-be") if secret else ():
        wide = secret.encode(codec, "surrogatepass")
        found.update(dict.fromkeys([wide, *_nest_json(wide)]))
    return tuple(each for each in found if len(each) >= SHORTEST_ENCODED)


def hex_spellings(secret: str) -> tuple[bytes, ...]:
    """The secret in hexadecimal digits, which is redacted in either case of each."""
    digits = _to_utf8(secret).hex().encode()
    return (digits,) if len(digits) >= SHORTEST_ENCODED else ()


def escaped_spellings(secret: str) -> tuple[bytes, ...]:
    r"""Those that escape every character, redacted in either case of each digit: `%73%6b…`, and `\u0073\u006b…`, the
    latter within JSON, too.
    """
    percent = b"%" + _to_utf8(secret).hex("%").encode()
    units = b"\\u" + secret.encode("utf-16-be", "surrogatepass").hex("-", 2).replace("-", "\\u").encode()
    written = (percent, *(units.replace(b"\\", b"\\" * depth) for depth in (1, 2, 4)))
    return tuple(each for each in written if secret and len(each) >= SHORTEST_ENCODED)


def find_mark(spelling: bytes) -> bytes:
    """What stands in a wide or escaped spelling, and in many others of its kind, but hardly in any other text.

    Empty for one that holds a NUL, which marks it well enough.
    """
    if b"\0" in spelling:
        return b""
    if b"u0000" in spelling:
        return b"u0000"
    found = _MARK.search(spelling)
    return found[0] if found else spelling[:_MARK_BYTES]


def _to_utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _to_os_bytes(secret: str) -> Iterator[bytes]:
    """The bytes as the operating system had them, where os.environ turned some into surrogates."""
    try:
        yield secret.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return


def _json_spellings(secret: str) -> Iterator[str]:
    """JSON in JSON in JSON: tools print JSON, agents quote what tools print, and events quote agents."""
    once = set(_json_escapes(secret))
    twice = {text for inner in once for text in (_escape_json(inner), _escape_json(inner, ascii_only=True))}
    yield from sorted(once)
    yield from sorted(twice)
    yield from sorted({_escape_json(inner) for inner in twice})


def _json_escapes(secret: str) -> Iterator[str]:
    plain, ascii_only = _escape_json(secret), _escape_json(secret, ascii_only=True)
    yield from (plain, ascii_only)
    yield _UNICODE_ESCAPE.sub(lambda match: "\\u" + match[0][2:].upper(), ascii_only)
    yield plain.translate(_GO_ESCAPES)
    yield plain.replace("/", "\\/")


def _escape_json(text: str, *, ascii_only: bool = False) -> str:
    return dumps(text, ensure_ascii=ascii_only)[1:-1]


def _nest_json(wide: bytes) -> Iterator[bytes]:
    """What JSON makes of UTF-16 that was taken for UTF-8; where it cannot be, no JSON holds it."""
    try:
        text = wide.decode()
    except UnicodeDecodeError:
        return
    for _ in range(3):
        text = _escape_json(text)
        yield text.encode()


def _url_spellings(raw: bytes) -> Iterator[str]:
    written = (quote(raw, safe=""), quote(raw, safe="/"), quote(raw, safe=_JAVASCRIPT_SAFE), quote_plus(raw))
    for text in written:
        yield text
        yield _PERCENT.sub(lambda match: match[0].lower(), text)


def _base64_spellings(raw: bytes) -> Iterator[bytes]:
    """At each of the three alignments, the characters that no neighbouring byte can change."""
    for before in range(3):
        text = b64encode(bytes(before) + raw)
        inner = text[-(-8 * before // 6) : 8 * (before + len(raw)) // 6]
        yield inner
        yield inner.translate(bytes.maketrans(b"+/", b"-_"))


def _pem_lines(secret: str) -> Iterator[str]:
    """The lines of a PEM's body: each gives a part of the key away, whatever stands between them."""
    for body in _PEM_BLOCK.findall(secret) if "-----BEGIN " in secret else ():
        lines = [line for line in _PEM_BREAK.split(body) if _PEM_LINE.fullmatch(line)]
        yield from lines
        whole = "".join(lines)
        if len(lines) > 1:
            yield whole
        elif len(whole) > _PEM_WIDTH:
            wrapped = (whole[place : place + _PEM_WIDTH] for place in range(0, len(whole), _PEM_WIDTH))
            yield from (line for line in wrapped if _PEM_LINE.fullmatch(line))


def _pem_line_spellings(line: str) -> Iterator[bytes]:
    for text in (line, line.replace("/", "\\/"), quote(line, safe="/"), quote(line, safe="")):
        yield text.encode()
