"""A home, a project in it and their configuration files, for one test."""

from pathlib import Path

import pytest

from inspan.config import Config, load
from inspan.config.editor import ConfigEditor, FileName, open_editor
from inspan.errors import BadConfig

AGENTS = ("codex", "my-agent", "scripted")


class Home:
    """Files of every layer, and what comes out of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work = root / "shop"
        self.work.mkdir()
        (self.work / ".git").mkdir()
        self.env = {"HOME": str(root)}
        self.paths: dict[FileName, Path] = {
            "user": root / ".config" / "inspan" / "config.toml",
            "project": self.work / "inspan.toml",
            "local": self.work / "inspan.local.toml",
        }

    def write(self, name: FileName, text: str) -> Path:
        path = self.paths[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def trust(self) -> None:
        self.write("user", f'[projects]\ntrusted = ["{self.work}"]\n')

    def load(self, variables: dict[str, str] | None = None, *, flags: dict[str, object] | None = None) -> Config:
        return load(str(self.work), env={**self.env, **(variables or {})}, known_agents=AGENTS, flags=flags)

    def expect_refusal(
        self, variables: dict[str, str] | None = None, *, flags: dict[str, object] | None = None
    ) -> BadConfig:
        with pytest.raises(BadConfig) as refused:
            self.load(variables, flags=flags)
        return refused.value

    def open_editor(self, name: FileName = "user") -> ConfigEditor:
        return open_editor(name, cwd=str(self.work), env=self.env, known_agents=AGENTS)
