"""What is kept of a line when it is recorded: not the descriptions that an agent gives of itself."""

from typing import Any, cast

import msgspec

from inspan.protocol.wire import DECODE_ERRORS

_DESCRIPTION_MARKS = (
    b'"availableCommands"',
    b'"configOptions"',
    b'"availableModels"',
    b'"availableModes"',
    b'"authMethods"',
)

_DESCRIPTION_KEYS = ("description", "body")
_LISTS = {"availableCommands", "availableSkills"}


def scrub_line(line: bytes) -> bytes:
    """The line without lists of commands and without descriptions; any other as it is."""
    if not any(word in line for word in _DESCRIPTION_MARKS):
        return line
    try:
        return msgspec.json.encode(_strip_descriptions(msgspec.json.decode(line)))
    except DECODE_ERRORS:
        return line


def _strip_descriptions(value: Any) -> Any:
    if isinstance(value, list):
        return [_strip_descriptions(each) for each in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {
        name: _strip_descriptions(each)
        for name, each in cast(dict[str, Any], value).items()
        if name not in _DESCRIPTION_KEYS
    }
    emptied: dict[str, Any] = {name: [] for name in kept.keys() & _LISTS}
    return kept | emptied
