"""Who is in a box: whoever runs the tests, and an ordinary user."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli_env import CliEnv


@pytest.fixture(params=["owner", "ordinary user"])
def each_user_env(request: pytest.FixtureRequest) -> CliEnv:
    return request.getfixturevalue("cli_env" if request.param == "owner" else "user_cli_env")


@pytest.fixture
def folder_outside_tmp() -> Iterator[Path]:
    """A folder that the private /tmp of the box does not cover."""
    path = Path(tempfile.mkdtemp(dir="/var/tmp"))
    yield path
    shutil.rmtree(path)
