"""Damaged HTTP messages: refused, or read as another reader reads them."""

import pytest

from tests.soak import rounds

from .fuzz_http import main


@pytest.mark.parametrize("seed", range(1, 1 + rounds(1)))
def test_damaged_messages_are_refused_or_read_as_h11_reads_them(seed: int) -> None:
    assert main(seed, 2_000) == 0
