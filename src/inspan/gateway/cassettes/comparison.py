"""What a request is compared by, and the first difference between two that should be the same."""

from base64 import b32encode
from collections.abc import Callable, Iterable
from typing import NamedTuple

from inspan.gateway.cassettes.cassette import Part, RecordedRequest
from inspan.gateway.cassettes.rules import normalize_text
from inspan.gateway.upstream import Request

from .last_turn import parse_last_turn
from .path_placeholders import PathPlaceholders

Key = tuple[str, str, str, bool, tuple[Part, ...]]

# Of a longer text, the beginning and the end are compared, and of what is between them a fingerprint.
MAX_TEXT_LENGTH = 20_000
_MAX_READ_LENGTH = 1_000_000
_MAX_MEDIA_LENGTH = 200
_EXCERPT_BEFORE = 30
_EXCERPT_AFTER = 60


class _NormalizedPart(NamedTuple):
    """A part that can be compared, and the names in it that a model may use later on."""

    part: Part
    names: list[str]


class RequestNormalizer(NamedTuple):
    """How the texts of a run are made comparable."""

    redact: Callable[[str], str]
    placeholders: PathPlaceholders

    def normalize_request(self, request: Request, *, number: int) -> tuple[RecordedRequest, list[str]]:
        """What a request is compared by, and the names in it that the model may use later on.

        Anything but a call to the model is compared by its purpose alone.
        """
        if request.ask is None:
            return RecordedRequest(call=number, wire=request.wire, purpose=request.purpose), []
        newest = parse_last_turn(request.plain)
        results = self._normalize_parts(part for result in newest.results for part in result.parts)
        said = [read for parts in newest.messages if (read := self._normalize_parts(parts))]
        # Without results, only the last message is new: those before it are preamble.
        kept = results + [read for message in (said if newest.results else said[-1:]) for read in message]
        asked = RecordedRequest(
            call=number,
            wire=request.wire,
            purpose=request.purpose,
            model=self.redact(request.ask.model),
            stream=request.ask.stream,
            asks=tuple(read.part for read in kept),
            answers_to=tuple(self.redact(result.id) for result in newest.results if result.id),
        )
        return asked, [name for read in kept for name in read.names]

    def normalize_recorded(self, recorded: RecordedRequest) -> tuple[Part, ...]:
        """The parts of a recorded request, as this run would write them."""
        shown = (Part(kind=part.kind, text=self.placeholders.from_placeholders(part.text)) for part in recorded.asks)
        return tuple(read.part for read in self._normalize_parts(shown))

    def _normalize_parts(self, parts: Iterable[Part]) -> list[_NormalizedPart]:
        """Those that say something."""
        return [read for read in map(self._normalize_part, parts) if read.part.text]

    def _normalize_part(self, part: Part) -> _NormalizedPart:
        if part.kind == "media" and len(part.text) > _MAX_MEDIA_LENGTH:
            return _NormalizedPart(
                Part(kind="media", text=f"{len(part.text)} characters, {_fingerprint(part.text)}"), []
            )
        names: list[str] = []
        hidden = _shorten(self.placeholders.to_placeholders(self.redact(part.text)), _MAX_READ_LENGTH)
        text = normalize_text(hidden, is_result=part.kind == "result", names=names)
        return _NormalizedPart(Part(kind=part.kind, text=_shorten(text, MAX_TEXT_LENGTH)), names)


def match_key(asked: RecordedRequest, parts: tuple[Part, ...]) -> Key:
    """Requests with the same key are alike."""
    return asked.wire, asked.purpose, asked.model, asked.stream, parts


def describe_difference(recorded: Key, came: Key) -> str:
    """The first difference, in words; empty when there is none."""
    for name, one, other in zip(("wire", "purpose", "model", "stream"), recorded, came, strict=False):
        if one != other:
            return f"{name} was {one!r} and is now {other!r}"
    old, new = recorded[4], came[4]
    for place, (one, other) in enumerate(zip(old, new, strict=False), start=1):
        if one != other:
            return _describe_part_difference(one, other, place)
    if len(old) != len(new):
        more, side = (old, "is missing now") if len(old) > len(new) else (new, "is new")
        extra = more[min(len(old), len(new))]
        return f"part {min(len(old), len(new)) + 1}, {_part_label(extra)}, {side}: {_excerpt(extra.text, 0)}"
    return ""


def describe_key(key: Key) -> str:
    """A request in a few words: how its newest part begins."""
    parts = key[4]
    return f"{_part_label(parts[0])} {_excerpt(parts[0].text, 0)}" if parts else "no text"


def _describe_part_difference(one: Part, other: Part, place: int) -> str:
    if one.kind != other.kind:
        return f"part {place} was {_part_label(one)} and is now {_part_label(other)}: {_excerpt(other.text, 0)}"
    at = next((n for n, (a, b) in enumerate(zip(one.text, other.text, strict=False)) if a != b), None)
    at = min(len(one.text), len(other.text)) if at is None else at
    return f"part {place}, {_part_label(one)}, was {_excerpt(one.text, at)} and is now {_excerpt(other.text, at)}"


def _part_label(part: Part) -> str:
    return {"text": "the text", "result": "the result of a tool", "media": "an attachment"}[part.kind]


def _excerpt(text: str, at: int) -> str:
    start, end = max(0, at - _EXCERPT_BEFORE), at + _EXCERPT_AFTER
    return repr(f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}")


def _shorten(text: str, longest: int) -> str:
    """A text that is too long, without its middle; what is short enough is given back as it is."""
    if len(text) <= longest:
        return text
    kept = (longest - 100) // 2
    middle = text[kept:-kept]
    return f"{text[:kept]}\n… {len(middle)} characters, {_fingerprint(middle)} …\n{text[-kept:]}"


def _fingerprint(text: str) -> str:
    """Letters that stand for a text; in a spelling that no rule takes for an id."""
    import hashlib  # Start-up time: few texts are that long.

    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return "fingerprint " + b32encode(digest[:15]).decode().lower()
