"""Takes secrets and folders out of an answer's pieces, also those that stand in several pieces in turn.

A provider may stream any text in pieces. So the texts of one place in an answer are read as one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from inspan.gateway.cassettes.cassette import Chunk
from inspan.gateway.wires.wire import Json, get_object

from .path_placeholders import PathPlaceholders
from .volatile_ids import VolatileIds

Redact = Callable[[str], str]
_Path = tuple[str | int, ...]
_PLAIN_TEXT: _Path = ("", "text")
_JSON_KEYS = ("partial_json", "arguments")
_ECHO: Json = {
    "instructions": None,
    "tools": [],
    "metadata": {},
    "prompt_cache_key": None,
    "safety_identifier": None,
    "user": None,
}
# What tells apart two events of one type whose texts do not belong together.
_EVENT_KEYS = ("type", "index", "output_index", "content_index", "summary_index")


def scrub_chunks(
    pieces: Sequence[Chunk], *, redact: Redact, placeholders: PathPlaceholders, volatile_ids: VolatileIds
) -> list[Chunk]:
    """The pieces without secrets, folders, names that change and what repeats the request.

    A piece that has none of them is given back as it is.
    """
    opened = [_EditableChunk(piece) for piece in pieces]
    for each in opened:
        each.drop_echo()
    _replace_texts(opened, redact, joins=lambda path: True)
    _replace_texts(
        opened, lambda text: volatile_ids.to_placeholders(placeholders.to_placeholders(text)), joins=_is_streamed
    )
    closed = [each.to_chunk() for each in opened]
    return [_redact_chunk(piece, redact) for piece in closed]


def fill_placeholders(piece: Chunk, *, placeholders: PathPlaceholders, volatile_ids: VolatileIds) -> Chunk:
    """The piece with this run's folders and names where placeholders stand."""
    opened = _EditableChunk(piece)
    for path, holder, key in list(opened.leaves()):
        opened.replace_text(
            holder,
            key,
            placeholders.from_placeholders(
                volatile_ids.from_placeholders(holder[key]), quoted=_is_json(path, holder[key])
            ),
        )
    return opened.to_chunk()


def _is_json(path: _Path, text: str) -> bool:
    """Whether a text is JSON, or a piece of it, in which a folder has to be quoted."""
    if path == _PLAIN_TEXT:
        return text.lstrip()[:1] in ("{", "[")
    return path[-1] in _JSON_KEYS or (path[-1] == "delta" and "arguments" in str(path[0]))


class _EditableChunk:
    """A piece whose texts can be replaced; it is written anew only if one was."""

    def __init__(self, piece: Chunk) -> None:
        self._chunk = piece
        self._is_changed = False
        self.root: list[Any] = [_decode_content(piece)]

    def leaves(self) -> Iterator[tuple[_Path, Any, Any]]:
        """Each text: its place in the answer, and the container and key that hold it."""
        root = self.root[0]
        if isinstance(root, str) and not isinstance(self._chunk.data, msgspec.Raw):
            yield _PLAIN_TEXT, self.root, 0
        else:
            yield from _walk_texts(self.root, _event_path(root))

    def replace_text(self, holder: Any, key: Any, text: str) -> None:
        if holder[key] != text:
            holder[key] = text
            self._is_changed = True

    def drop_echo(self) -> None:
        """The Responses wire says again what it was asked: the instructions and tools of the agent's vendor."""
        for response in (get_object(self.root[0]), get_object(self.root[0], "response")):
            echoed = [key for key in _ECHO if response.get(key)] if response.get("object") == "response" else []
            response.update({key: _ECHO[key] for key in echoed})
            self._is_changed = self._is_changed or bool(echoed)

    def to_chunk(self) -> Chunk:
        return _replace_content(self._chunk, self.root[0]) if self._is_changed else self._chunk


class _Leaf(NamedTuple):
    """A text in a piece, by what holds it."""

    chunk: _EditableChunk
    holder: Any
    key: Any


def _replace_texts(
    opened: Sequence[_EditableChunk], change: Callable[[str], str], *, joins: Callable[[_Path], bool]
) -> None:
    """Changes every text; those of one place that are to be joined as one, the others each by itself."""
    together: dict[_Path, list[_Leaf]] = {}
    for number, each in enumerate(opened):
        for path, holder, key in each.leaves():
            place = path if joins(path) else (*path, number)
            together.setdefault(place, []).append(_Leaf(each, holder, key))
    for leaves in together.values():
        _replace_joined(leaves, change)


def _replace_joined(leaves: list[_Leaf], change: Callable[[str], str]) -> None:
    texts = [leaf.holder[leaf.key] for leaf in leaves]
    whole = "".join(texts)
    changed = change(whole)
    if changed == whole:
        return
    each_alone = [change(text) for text in texts]
    # Only what stands across a seam moves the text together.
    fitting = each_alone if "".join(each_alone) == changed else [changed] + [""] * (len(texts) - 1)
    for leaf, text in zip(leaves, fitting, strict=True):
        leaf.chunk.replace_text(leaf.holder, leaf.key, text)


def _is_streamed(path: _Path) -> bool:
    """Whether the texts of a place are pieces of one; others that stand at one place are each a whole."""
    return "delta" in path or path[-1] == "text"


def _decode_content(piece: Chunk) -> Any:
    for raw in (piece.data, piece.body):
        if isinstance(raw, msgspec.Raw):
            return msgspec.json.decode(raw)
    if isinstance(piece.base64, bytes):
        return piece.base64.decode("utf-8", "surrogateescape")
    return piece.text if isinstance(piece.text, str) else ""


def _replace_content(piece: Chunk, content: Any) -> Chunk:
    if isinstance(piece.data, msgspec.Raw):
        return msgspec.structs.replace(piece, data=msgspec.Raw(msgspec.json.encode(content)))
    if isinstance(piece.body, msgspec.Raw):
        return msgspec.structs.replace(piece, body=msgspec.Raw(msgspec.json.encode(content)))
    if isinstance(piece.base64, bytes):
        return msgspec.structs.replace(piece, base64=content.encode("utf-8", "surrogateescape"))
    return msgspec.structs.replace(piece, text=content)


def _event_path(event: Any) -> _Path:
    if not isinstance(event, dict):
        return ()
    return tuple(f"{name}={event[name]}" for name in _EVENT_KEYS if name in event)


def _walk_texts(holder: Json | list[Any], path: _Path) -> Iterator[tuple[_Path, Any, Any]]:
    """The texts in a list or an object. Items that number themselves are known by that, not by where they stand."""
    items: Iterable[tuple[str | int, Any]] = holder.items() if isinstance(holder, dict) else enumerate(holder)
    for key, value in items:
        if isinstance(value, str):
            yield (*path, key), holder, key
        elif isinstance(value, dict):
            inside = cast(Json, value)
            number = inside.get("index", key) if isinstance(holder, list) else key
            yield from _walk_texts(inside, (*path, str(number)))
        elif isinstance(value, list):
            yield from _walk_texts(cast(list[Any], value), (*path, key))


def _redact_chunk(piece: Chunk, redact: Redact) -> Chunk:
    """A last look at the piece as it will be written: keys and numbers may spell a secret too."""
    if not _has_secret(piece, redact):
        return piece
    if isinstance(piece.data, msgspec.Raw) or isinstance(piece.body, msgspec.Raw):
        piece = _replace_content(piece, _redact_deep(_decode_content(piece), redact))
    if not _has_secret(piece, redact):
        return piece
    return Chunk(text=redact(msgspec.json.encode(piece).decode()))


def _has_secret(piece: Chunk, redact: Redact) -> bool:
    written = msgspec.json.encode(piece).decode()
    return redact(written) != written


def _redact_deep(value: Any, redact: Redact) -> Any:
    if isinstance(value, dict):
        return {redact(key): _redact_deep(item, redact) for key, item in cast(Json, value).items()}
    if isinstance(value, list):
        return [_redact_deep(item, redact) for item in cast(list[Any], value)]
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        written = msgspec.json.encode(value).decode()
        return redact(written) if redact(written) != written else value
    return value
