"""Stages for in-process runs: with a puppet in an agent's clothes, or with the real agents."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine.puppet import Fake, puppet

from .stage import Stage, set_stage

Play = Callable[[str], None]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return set_stage(tmp_path, monkeypatch)


@pytest.fixture
def play(stage: Stage, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Makes Codex a puppet that does these acts."""

    def chosen(acts: str) -> None:
        for name, value in puppet(fake, acts).items():
            monkeypatch.setenv(name, value)

    return chosen


@pytest.fixture
def agents(stage: Stage, binaries: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A stage with the real programs on it."""
    for name, value in binaries.items():
        monkeypatch.setenv(name, value)
    return stage
