"""Servers, and runs that belong to the test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli_env import CliEnv

from .living_run import LivingRun
from .server_process import ServerProcess

Serve = Callable[..., ServerProcess]
Live = Callable[[], LivingRun]


@pytest.fixture
def serve(cli_env: CliEnv) -> Iterator[Serve]:
    """Starts servers in the house of the test; each of them has to end cleanly."""
    started: list[ServerProcess] = []

    def start(*arguments: str, **more: dict[str, str]) -> ServerProcess:
        started.append(ServerProcess(cli_env, *arguments, **more))
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture
def server(serve: Serve) -> ServerProcess:
    return serve()


@pytest.fixture(scope="module")
def idle_env(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> Iterator[CliEnv]:
    """A house that the tests of a module share: they start nothing in it that stays."""
    made = CliEnv(tmp_path_factory.mktemp("idle"), binaries=binaries)
    yield made
    made.close()


@pytest.fixture(scope="module")
def idle_server(idle_env: CliEnv) -> Iterator[ServerProcess]:
    """One server for tests that only ask."""
    made = ServerProcess(idle_env)
    yield made
    made.close()


@pytest.fixture
def live(cli_env: CliEnv) -> Iterator[Live]:
    """Makes runs that the test owns."""
    made: list[LivingRun] = []

    def begin() -> LivingRun:
        made.append(LivingRun(cli_env))
        return made[-1]

    yield begin
    for run in made:
        run.close()


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that no server works in."""
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder
