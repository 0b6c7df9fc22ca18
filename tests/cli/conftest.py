"""Houses that several tests share because they only look, and one in which no agent can be had."""

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.cli_env import CliEnv, SavedCliEnv
from tests.emulated_terminal import EmulatedTerminal

from .scenarios import FAILS, SAYS_HELLO, EndedRun, run_to_end

Open = Callable[..., EmulatedTerminal]
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
        run_to_end(made, scenario)
    yield made
    made.close()


@pytest.fixture(scope="session")
def saved_run(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> tuple[SavedCliEnv, str]:
    return _save_run(CliEnv(tmp_path_factory.mktemp("ended"), binaries=binaries))


@pytest.fixture
def ended_run(saved_run: tuple[SavedCliEnv, str]) -> Iterator[EndedRun]:
    """A run of the test's own that has ended, in a house that is put back for each test."""
    saved, run_id = saved_run
    yield EndedRun(saved.restore(), run_id)
    saved.close()


@pytest.fixture(scope="session")
def saved_user_run(
    tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str], user_prefix: Sequence[str]
) -> tuple[SavedCliEnv, str]:
    return _save_run(CliEnv(tmp_path_factory.mktemp("ended-user"), prefix=user_prefix, binaries=binaries))


@pytest.fixture
def ended_user_run(saved_user_run: tuple[SavedCliEnv, str]) -> Iterator[EndedRun]:
    """The same for an ordinary user."""
    saved, run_id = saved_user_run
    yield EndedRun(saved.restore(), run_id)
    saved.close()


def _save_run(made: CliEnv) -> tuple[SavedCliEnv, str]:
    run_id = run_to_end(made)
    return SavedCliEnv(made), run_id


@pytest.fixture
def open_terminal(cli_env: CliEnv) -> Iterator[Open]:
    """Opens terminals in which `inspan` runs with these words; all of them are closed at the end."""
    opened: list[EmulatedTerminal] = []

    def start(
        *words: str, columns: int = 80, rows: int = 24, env: dict[str, str] | None = None, cwd: Path | None = None
    ) -> EmulatedTerminal:
        terminal = EmulatedTerminal(
            cli_env.argv(*words),
            cwd=cwd or cli_env.work,
            env={**cli_env.env, **(env or {})},
            columns=columns,
            rows=rows,
        )
        opened.append(terminal)
        return terminal

    yield start
    for terminal in opened:
        terminal.__exit__(None, None, None)


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
