"""What is kept of a line when it is recorded: not the descriptions that an agent gives of itself."""

from typing import Any, cast

import msgspec

from inspan.protocol.wire import UNREADABLE

_DESCRIBING = (b'"availableCommands"', b'"configOptions"', b'"availableModels"', b'"availableModes"', b'"authMethods"')

_WORDS = ("description", "body")
_LISTS = {"availableCommands", "availableSkills"}


def recordable(line: bytes) -> bytes:
    """The line without lists of commands and without descriptions; any other as it is."""
    if not any(word in line for word in _DESCRIBING):
        return line
    try:
        return msgspec.json.encode(_plain(msgspec.json.decode(line)))
    except UNREADABLE:
        return line


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {
        name: _plain(each) for name, each in cast(dict[str, Any], value).items() if name not in _WORDS
    }
    emptied: dict[str, Any] = {name: [] for name in kept.keys() & _LISTS}
    return kept | emptied
