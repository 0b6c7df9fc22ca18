"""What is kept of a line when it is recorded: not Pi's own prompt, which it prints as the first message (1.5)."""

from typing import Any, cast

import msgspec

from inspan.protocol.wire import DECODE_ERRORS


def scrub_line(line: bytes) -> bytes:
    """The line with messages of the system emptied; any other as it is."""
    if b'"role":"system"' not in line:
        return line
    try:
        return msgspec.json.encode(_strip_prompt(msgspec.json.decode(line)))
    except DECODE_ERRORS:
        return line


def _strip_prompt(value: Any) -> Any:
    if isinstance(value, list):
        return [_strip_prompt(each) for each in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    message = cast(dict[str, Any], value)
    if message.get("role") == "system":
        return {"role": "system", "content": ""}
    return {name: _strip_prompt(each) for name, each in message.items()}
