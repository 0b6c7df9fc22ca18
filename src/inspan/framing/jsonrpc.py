"""JSON-RPC 2.0 on lines that a line feed alone ends: reading one message, and spelling each kind of it."""

from typing import Any, Literal

import msgspec

from inspan.protocol.known_types import know_type

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

Id = int | float | str
# Line separators to some readers of lines, in Node's library among others, though JSON lets them stand.
_SEPARATORS = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))


class RpcError(msgspec.Struct, frozen=True):
    """The error of an answer."""

    code: int | float = INTERNAL_ERROR
    message: str = ""
    data: Any = None


class _RawMessage(msgspec.Struct, frozen=True):
    id: Id | msgspec.UnsetType | None = msgspec.UNSET
    method: str = ""
    params: Any = None
    result: Any = msgspec.UNSET
    error: RpcError | None = None


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message as it came: `kind` says which of the fields hold something."""

    kind: Literal["request", "notification", "result", "error"]
    id: Id | None = None
    method: str = ""
    params: Any = None
    result: Any = None
    error: RpcError = RpcError()


_decode = msgspec.json.Decoder(know_type(_RawMessage)).decode


def parse_message(line: bytes) -> Message:
    """The message in a line; raises what is listed in `DECODE_ERRORS` for anything that is none."""
    found = _decode(line)
    identity = None if found.id is msgspec.UNSET else found.id
    if found.method:
        kind = "notification" if found.id is msgspec.UNSET else "request"
        return Message(kind=kind, id=identity, method=found.method, params=found.params)
    if found.error is not None:
        return Message(kind="error", id=identity, error=found.error)
    if found.result is msgspec.UNSET:
        raise msgspec.ValidationError("it has neither a method nor a result nor an error")
    return Message(kind="result", id=identity, result=found.result)


def encode_request(identity: Id, method: str, params: object) -> bytes:
    """A line that asks for an answer under this id."""
    return _encode_line({"jsonrpc": "2.0", "id": identity, "method": method, "params": params})


def encode_notification(method: str, params: object) -> bytes:
    """A line that wants no answer."""
    return _encode_line({"jsonrpc": "2.0", "method": method, "params": params})


def encode_result(identity: Id | None, value: object) -> bytes:
    """The answer to a request."""
    return _encode_line({"jsonrpc": "2.0", "id": identity, "result": value})


def encode_error(identity: Id | None, code: int, message: str) -> bytes:
    """The answer to a request that failed."""
    return _encode_line({"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": message}})


def _encode_line(message: dict[str, object]) -> bytes:
    line = msgspec.json.encode(message)
    for separator, escaped in _SEPARATORS:
        if separator in line:
            line = line.replace(separator, escaped)
    return line + b"\n"
