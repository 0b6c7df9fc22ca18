"""What a dialect counts is what the gateway counts: each reads the same numbers in a room of its own."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspan.dialects import chat, responses
from inspan.gateway.wires import BY_NAME
from inspan.protocol.usage import Usage

READERS: dict[str, Callable[[dict[str, Any]], Usage]] = {"chat": chat.to_usage, "responses": responses.to_usage}
NUMBERS = st.one_of(st.none(), st.integers(0, 100), st.just("7"))
NAMES = {
    "chat": ("prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details"),
    "responses": ("input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details"),
}
CACHED = ("cached_tokens", "cache_write_tokens")


def details(*names: str) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), st.fixed_dictionaries({}, optional=dict.fromkeys(names, NUMBERS)))


def usages(wire: str) -> st.SearchStrategy[dict[str, Any]]:
    taken, given_, inside, outside = NAMES[wire]
    fields: dict[str, st.SearchStrategy[Any]] = {taken: NUMBERS, given_: NUMBERS, "total_tokens": NUMBERS}
    fields |= {inside: details(*CACHED), outside: details("reasoning_tokens")}
    return st.fixed_dictionaries({}, optional=fields)


@pytest.mark.parametrize("wire", READERS)
@given(data=st.data())
def test_dialect_and_gateway_read_the_same_usage(wire: str, data: st.DataObject) -> None:
    usage = data.draw(usages(wire))
    counts = BY_NAME[wire].read_event({"usage": usage}).counts
    assert READERS[wire](usage) == Usage(**counts)


@pytest.mark.parametrize(
    "usage",
    [
        {
            "prompt_tokens": 5,
            "completion_tokens": 7,
            "total_tokens": 42,
            "completion_tokens_details": {"reasoning_tokens": 30},
        },
        {"prompt_tokens": 5, "total_tokens": 35, "completion_tokens_details": {"reasoning_tokens": 30}},
    ],
)
def test_reasoning_beside_the_answer_is_counted_in_both(usage: dict[str, Any]) -> None:
    assert chat.to_usage(usage) == Usage(**BY_NAME["chat"].read_event({"usage": usage}).counts)
    assert chat.to_usage(usage).output >= 30


def test_searches_and_other_names_of_the_cache_are_counted() -> None:
    usage = {
        "input_tokens": 10,
        "output_tokens": 5,
        "input_tokens_details": {"cache_read_input_tokens": 4, "cache_creation_input_tokens": 1},
        "tool_calls_details": {"search_web": {"invocation": 3}},
    }
    reading = BY_NAME["responses"].read_event({"type": "response.completed", "response": {"usage": usage}})
    assert (Usage(**reading.counts), reading.extras) == (responses.to_usage(usage), {"searches": 3})
