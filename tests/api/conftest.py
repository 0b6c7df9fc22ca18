"""Stages for in-process runs: with a puppet in an agent's clothes, or with the real agents."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.running.fake_agent import Fake, fake_agent_env

from .run_env import RunEnv, make_run_env

Play = Callable[[str], None]


@pytest.fixture
def run_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunEnv:
    return make_run_env(tmp_path, monkeypatch)


@pytest.fixture
def use_fake_agent(run_env: RunEnv, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Makes Codex a puppet that does these acts."""

    def chosen(acts: str) -> None:
        for name, value in fake_agent_env(fake, acts).items():
            monkeypatch.setenv(name, value)

    return chosen


@pytest.fixture
def agents(run_env: RunEnv, binaries: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> RunEnv:
    """A stage with the real programs on it."""
    for name, value in binaries.items():
        monkeypatch.setenv(name, value)
    return run_env
