"""Tokens add up field by field, and each is paid once."""

from inspan.protocol.usage import Usage

from .examples import USAGE


def test_usage_adds_field_by_field() -> None:
    other = Usage(input=10, output=20, cache_read=30, cache_write=40, reasoning=50)
    assert USAGE + other == Usage(input=11, output=22, cache_read=33, cache_write=44, reasoning=55)


def test_reasoning_is_part_of_the_output_and_not_paid_twice() -> None:
    assert USAGE.total == 1 + 2 + 3 + 4
