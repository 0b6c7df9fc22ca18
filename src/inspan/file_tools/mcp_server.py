"""The six operations as an MCP server on lines of JSON-RPC: for agents whose shell cannot be kept to one command."""

from collections.abc import Callable
from typing import Any, cast

from inspan.errors import InspanError
from inspan.framing.jsonl import LineSplitter, OverlongLine
from inspan.framing.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Message, encode_error, encode_result, parse_message
from inspan.framing.mcp import build_initialization, build_tool_result, describe_tool
from inspan.protocol.wire import DECODE_ERRORS

from .operations import Operation, list_operations
from .root import Root

_PARSE_ERROR = -32700
_SCHEMA_TYPES = {"text": "string", "count": "integer", "flag": "boolean"}
_Json = dict[str, Any]


def serve(root: Root, *, read: Callable[[], bytes], write: Callable[[bytes], object]) -> None:
    """Answers one message after the other until `read` gives nothing; a call is bounded in time by itself."""
    server = _Server(root)
    splitter = LineSplitter()
    while chunk := read():
        for line in splitter.feed(chunk):
            if answer := server.handle_line(line):
                write(answer)


class _Server:
    def __init__(self, root: Root) -> None:
        self._root = root
        self._operations = list_operations(root)
        self._methods: dict[str, Callable[[_Json], _Json]] = {
            "initialize": build_initialization,
            "ping": lambda params: {},
            "tools/list": lambda params: {"tools": [*map(_describe, self._operations.values())]},
        }

    def handle_line(self, line: bytes | OverlongLine) -> bytes:
        """The answer to a request; nothing to what wants none."""
        if not line:
            return b""
        try:
            message = parse_message(line if isinstance(line, bytes) else b"")
        except DECODE_ERRORS as error:
            return encode_error(None, _PARSE_ERROR, f"not a message: {error}")
        return self._answer(message) if message.kind == "request" else b""

    def _answer(self, message: Message) -> bytes:
        given: Any = message.params
        params = cast(_Json, given) if isinstance(given, dict) else {}
        if message.method == "tools/call":
            return self._call(message, params)
        method = self._methods.get(message.method)
        if method is None:
            return encode_error(message.id, METHOD_NOT_FOUND, f"Method not found: {message.method}")
        return encode_result(message.id, method(params))

    def _call(self, message: Message, params: _Json) -> bytes:
        operation = self._operations.get(str(params.get("name")))
        if operation is None:
            known = ", ".join(self._operations)
            text = f"There is no tool {params.get('name')!r}; there are: {known}."
            return encode_error(message.id, INVALID_PARAMS, text)
        given: Any = params.get("arguments") or {}
        if not isinstance(given, dict):
            return encode_error(message.id, INVALID_PARAMS, "arguments: they are not an object.")
        return encode_result(message.id, self._run(operation, cast(_Json, given)))

    def _run(self, operation: Operation, given: _Json) -> _Json:
        try:
            found = operation.call(self._root, given)
        except InspanError as error:
            return build_tool_result(_replace_halves(str(error)), failed=True)
        notes = "".join(f"\n[{note}]" for note in found.get("notes", ()))
        return build_tool_result(_replace_halves(operation.format(found) + notes))


def _describe(operation: Operation) -> _Json:
    properties = {
        each.name: {"type": _SCHEMA_TYPES[each.kind], "description": each.help}
        for each in operation.parameters.values()
    }
    required = [each.name for each in operation.parameters.values() if each.required]
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return describe_tool(operation.name, description=operation.summary, input_schema=schema)


def _replace_halves(text: str) -> str:
    """Half a character, as in a name that is no UTF-8, has no place in a message."""
    return text.encode(errors="replace").decode()
