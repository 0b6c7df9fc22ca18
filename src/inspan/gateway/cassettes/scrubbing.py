"""Takes secrets and folders out of an answer's pieces, also those that stand in several pieces in turn.

A provider may stream any text in pieces. So the texts of one place in an answer are read as one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from inspan.gateway.cassettes.carried import Carried
from inspan.gateway.cassettes.cassette import Piece
from inspan.gateway.cassettes.places import Places
from inspan.gateway.wires.wire import Json, inner

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


def scrubbed(pieces: Sequence[Piece], *, redact: Redact, places: Places, carried: Carried) -> list[Piece]:
    """The pieces without secrets, folders, names that change and what repeats the request.

    A piece that has none of them is given back as it is.
    """
    opened = [_Opened(piece) for piece in pieces]
    for each in opened:
        each.drop_echo()
    _replace(opened, redact, joins=lambda path: True)
    _replace(opened, lambda text: carried.hide(places.hide(text)), joins=_is_streamed)
    closed = [each.close() for each in opened]
    return [_without_secrets(piece, redact) for piece in closed]


def filled(piece: Piece, *, places: Places, carried: Carried) -> Piece:
    """The piece with this run's folders and names where placeholders stand."""
    opened = _Opened(piece)
    for path, holder, key in list(opened.leaves()):
        opened.put(holder, key, places.show(carried.show(holder[key]), quoted=_is_json(path, holder[key])))
    return opened.close()


def _is_json(path: _Path, text: str) -> bool:
    """Whether a text is JSON, or a piece of it, in which a folder has to be quoted."""
    if path == _PLAIN_TEXT:
        return text.lstrip()[:1] in ("{", "[")
    return path[-1] in _JSON_KEYS or (path[-1] == "delta" and "arguments" in str(path[0]))


class _Opened:
    """A piece whose texts can be replaced; it is written anew only if one was."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._is_changed = False
        self.root: list[Any] = [_content(piece)]

    def leaves(self) -> Iterator[tuple[_Path, Any, Any]]:
        """Each text: its place in the answer, and the container and key that hold it."""
        root = self.root[0]
        if isinstance(root, str) and not isinstance(self._piece.data, msgspec.Raw):
            yield _PLAIN_TEXT, self.root, 0
        else:
            yield from _leaves(self.root, _event_place(root))

    def put(self, holder: Any, key: Any, text: str) -> None:
        if holder[key] != text:
            holder[key] = text
            self._is_changed = True

    def drop_echo(self) -> None:
        """The Responses wire says again what it was asked: the instructions and tools of the agent's vendor."""
        for response in (inner(self.root[0]), inner(self.root[0], "response")):
            echoed = [key for key in _ECHO if response.get(key)] if response.get("object") == "response" else []
            response.update({key: _ECHO[key] for key in echoed})
            self._is_changed = self._is_changed or bool(echoed)

    def close(self) -> Piece:
        return _with_content(self._piece, self.root[0]) if self._is_changed else self._piece


class _Leaf(NamedTuple):
    """A text in a piece, by what holds it."""

    opened: _Opened
    holder: Any
    key: Any


def _replace(opened: Sequence[_Opened], change: Callable[[str], str], *, joins: Callable[[_Path], bool]) -> None:
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
        leaf.opened.put(leaf.holder, leaf.key, text)


def _is_streamed(path: _Path) -> bool:
    """Whether the texts of a place are pieces of one; others that stand at one place are each a whole."""
    return "delta" in path or path[-1] == "text"


def _content(piece: Piece) -> Any:
    for raw in (piece.data, piece.body):
        if isinstance(raw, msgspec.Raw):
            return msgspec.json.decode(raw)
    if isinstance(piece.base64, bytes):
        return piece.base64.decode("utf-8", "surrogateescape")
    return piece.text if isinstance(piece.text, str) else ""


def _with_content(piece: Piece, content: Any) -> Piece:
    if isinstance(piece.data, msgspec.Raw):
        return msgspec.structs.replace(piece, data=msgspec.Raw(msgspec.json.encode(content)))
    if isinstance(piece.body, msgspec.Raw):
        return msgspec.structs.replace(piece, body=msgspec.Raw(msgspec.json.encode(content)))
    if isinstance(piece.base64, bytes):
        return msgspec.structs.replace(piece, base64=content.encode("utf-8", "surrogateescape"))
    return msgspec.structs.replace(piece, text=content)


def _event_place(event: Any) -> _Path:
    if not isinstance(event, dict):
        return ()
    return tuple(f"{name}={event[name]}" for name in _EVENT_KEYS if name in event)


def _leaves(holder: Json | list[Any], path: _Path) -> Iterator[tuple[_Path, Any, Any]]:
    """The texts in a list or an object. Items that number themselves are known by that, not by where they stand."""
    items: Iterable[tuple[str | int, Any]] = holder.items() if isinstance(holder, dict) else enumerate(holder)
    for key, value in items:
        if isinstance(value, str):
            yield (*path, key), holder, key
        elif isinstance(value, dict):
            inside = cast(Json, value)
            number = inside.get("index", key) if isinstance(holder, list) else key
            yield from _leaves(inside, (*path, str(number)))
        elif isinstance(value, list):
            yield from _leaves(cast(list[Any], value), (*path, key))


def _without_secrets(piece: Piece, redact: Redact) -> Piece:
    """A last look at the piece as it will be written: keys and numbers may spell a secret too."""
    if not _shows_a_secret(piece, redact):
        return piece
    if isinstance(piece.data, msgspec.Raw) or isinstance(piece.body, msgspec.Raw):
        piece = _with_content(piece, _deeply_redacted(_content(piece), redact))
    if not _shows_a_secret(piece, redact):
        return piece
    return Piece(text=redact(msgspec.json.encode(piece).decode()))


def _shows_a_secret(piece: Piece, redact: Redact) -> bool:
    written = msgspec.json.encode(piece).decode()
    return redact(written) != written


def _deeply_redacted(value: Any, redact: Redact) -> Any:
    if isinstance(value, dict):
        return {redact(key): _deeply_redacted(item, redact) for key, item in cast(Json, value).items()}
    if isinstance(value, list):
        return [_deeply_redacted(item, redact) for item in cast(list[Any], value)]
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        written = msgspec.json.encode(value).decode()
        return redact(written) if redact(written) != written else value
    return value
