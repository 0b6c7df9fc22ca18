"""A ledger for each test that wants one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .accounts import Accounts


@pytest.fixture
def accounts(tmp_path: Path) -> Iterator[Accounts]:
    made = Accounts(tmp_path)
    yield made
    made.close()
