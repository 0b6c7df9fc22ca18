"""JSON-RPC on lines: what is spelled is read back, and no line has another line in it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspan.framing.jsonrpc import (
    Id,
    Message,
    RpcError,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    parse_message,
)
from inspan.protocol.wire import DECODE_ERRORS

_TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ["\u2028", "\u2029", "\x85", "a\nb", "\r\n"]
)
_WHOLE = st.integers(min_value=-(2**53), max_value=2**53)
_VALUES = st.recursive(
    st.none() | st.booleans() | _WHOLE | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)
_IDS = _WHOLE | _TEXTS


@given(identity=_IDS, method=_TEXTS.filter(bool), params=_VALUES)
def test_a_request_is_read_back_as_it_was_written(identity: Id, method: str, params: Any) -> None:
    line = encode_request(identity, method, params)
    assert parse_message(line) == Message(kind="request", id=identity, method=method, params=params)


@given(method=_TEXTS.filter(bool), params=_VALUES)
def test_a_notification_has_no_id(method: str, params: Any) -> None:
    assert parse_message(encode_notification(method, params)) == Message(
        kind="notification", method=method, params=params
    )


@given(identity=_IDS | st.none(), value=_VALUES)
def test_an_answer_is_read_back_even_where_it_is_nothing(identity: Id | None, value: Any) -> None:
    assert parse_message(encode_result(identity, value)) == Message(kind="result", id=identity, result=value)


@given(value=_VALUES)
def test_a_line_ends_once_whoever_cuts_it(value: Any) -> None:
    line = encode_result(1, value)
    assert line.endswith(b"\n")
    text = line[:-1].decode()
    assert not any(separator in text for separator in ("\n", "\r", "\u2028", "\u2029"))


def test_an_error_has_a_code_and_a_sentence() -> None:
    assert parse_message(encode_error(7, -32601, "no such method")) == Message(
        kind="error", id=7, error=RpcError(code=-32601, message="no such method")
    )


def test_an_error_of_another_may_leave_out_everything() -> None:
    line = b'{"jsonrpc":"2.0","id":2,"error":{"code":401,"message":"no","data":{"a":1}}}'
    assert parse_message(line).error == RpcError(code=401, message="no", data={"a": 1})
    assert parse_message(b'{"id":2,"error":{}}').error == RpcError()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"Update available: 2.0",
        b'{"id":1}',
        b'{"id":{},"method":"x"}',
        b'{"method":',
        b"\xff",
    ],
)
def test_what_is_no_message_is_not_taken_for_one(line: bytes) -> None:
    with pytest.raises(DECODE_ERRORS):
        parse_message(line)


def test_a_value_nested_without_end_is_refused_and_not_a_crash() -> None:
    with pytest.raises(DECODE_ERRORS):
        parse_message(b'{"id":1,"result":' + b"[" * 100_000)
