"""Houses that several tests share because they only look, and one in which no agent can be had."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli_env import CliEnv

from .scenarios import FAILS, SAYS_HELLO

_NEEDED = ("inspan", "ahocorasick_rs", "click", "httptools", "msgspec")


class BareCliEnv(CliEnv):
    """A machine with inspan and what it depends on, and with no agent: not on PATH, not in the Python environment."""

    def argv(self, *arguments: str) -> list[str]:
        return [os.path.realpath(sys.executable), "-m", "inspan", *arguments]


@pytest.fixture(scope="module")
def readonly_env(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> Iterator[CliEnv]:
    """A house in which nothing ever starts; its tests leave it as they found it."""
    made = CliEnv(tmp_path_factory.mktemp("untouched"), binaries=binaries)
    yield made
    made.close()


@pytest.fixture(scope="module")
def old_runs(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> Iterator[CliEnv]:
    """A house with two ended runs, a completed one and after it a failed one; its tests only read."""
    made = CliEnv(tmp_path_factory.mktemp("old"), binaries=binaries)
    for scenario in (SAYS_HELLO, FAILS):
        made.inspan("wait", made.detach("scripted", scenario))
    yield made
    made.close()


@pytest.fixture
def bare_cli_env(tmp_path: Path) -> Iterator[BareCliEnv]:
    """A newcomer's machine without any agent."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in _NEEDED:
        spec = importlib.util.find_spec(name)
        assert spec and spec.origin
        origin = Path(spec.origin)
        package = origin.parent if origin.name == "__init__.py" else origin
        (packages / package.name).symlink_to(package)
    (tmp_path / "house").mkdir()
    made = BareCliEnv(tmp_path / "house")
    made.env["PYTHONPATH"] = str(packages)
    yield made
    made.close()
