"""What is kept of an agent's config folder, and what is not, whatever the agent has put in its place."""

import os
from pathlib import Path

import pytest

from inspan.agents.registry import load_drivers
from inspan.contracts.driver import Driver
from inspan.errors import StateUnusable
from inspan.stores.session_files import copy_session_files, keep_session_files
from tests.deep_tree import nest_folders

PATTERNS = ("projects/*/*.jsonl", "sessions", "state.db*")
KEPT = ["projects/a/1.jsonl", "sessions/2026/01/x.jsonl", "state.db", "state.db-wal"]
# Where agents look for settings, hooks, plugins, servers, credentials, instructions and programs.
SETTINGS = [
    ".claude.json",
    ".env",
    ".gemini/.env",
    ".gemini/GEMINI.md",
    ".gemini/commands/x.toml",
    ".gemini/extensions/x/gemini-extension.json",
    ".gemini/history/x/.git/config",
    ".gemini/policies/x.toml",
    ".gemini/settings.json",
    ".gemini/trustedFolders.json",
    "AGENTS.md",
    "CLAUDE.md",
    "agent/x.md",
    "agents/x.md",
    "auth.json",
    "bin/rg",
    "cache/opencode/bin/rg",
    "commands/x.md",
    "config.json",
    "config.toml",
    "config/config.yaml",
    "config/custom_providers/x.json",
    "extensions/x/index.ts",
    "home/.opencode/opencode.json",
    "hooks.json",
    "hooks/x.sh",
    "installed-plugins/x/plugin.json",
    "keybindings.json",
    "mcp-config.json",
    "models-store.json",
    "models.json",
    "opencode/auth.json",
    "opencode/bin/gopls",
    "opencode/plugin/x.js",
    "opencode/snapshot/x/config",
    "plugins/x/plugin.json",
    "prompts/x.md",
    "rules/default.rules",
    "settings.json",
    "settings.local.json",
    "settings/opencode/opencode.json",
    "settings/opencode/plugin/x.js",
    "shell-snapshots/x.sh",
    "skills/x/SKILL.md",
    "state_5.sqlite",
    "themes/x.json",
    "tools/x.ts",
]
DRIVERS = [each for each in load_drivers() if each.state.config_variable and each.capabilities.resume == "yes"]
each_driver = pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)


def write(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)


def list_paths(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    write(tmp_path / "outside", "secret.jsonl", "sub/secret.jsonl")
    return tmp_path / "outside"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    write(tmp_path / "config", *KEPT)
    return tmp_path / "config"


def plant(config: Path, outside: Path) -> None:
    """Settings, and links, pipes and closed folders where settings or transcripts would be."""
    write(config, "settings.json", "hooks/run.sh", "projects/a/hooks.json", "closed/x", "projects/settings.json")
    (config / "closed").chmod(0)
    for link in ("CLAUDE.md", "projects/a/2.jsonl", "sessions/3.jsonl"):
        (config / link).symlink_to(outside / "secret.jsonl")
    for link in ("plugins", "projects/b", "sessions/2026/02"):
        (config / link).symlink_to(outside)
    for pipe in ("config.toml", "projects/a/4.jsonl"):
        os.mkfifo(config / pipe)


def test_only_plain_files_of_a_session_are_kept(config: Path, outside: Path) -> None:
    plant(config, outside)
    keep_session_files(str(config), PATTERNS)
    assert list_paths(config) == KEPT
    assert sorted(path.name for path in config.iterdir()) == ["projects", "sessions", "state.db", "state.db-wal"]
    assert list_paths(outside) == ["secret.jsonl", "sub/secret.jsonl"]


def test_only_plain_files_of_a_session_are_copied(config: Path, outside: Path, tmp_path: Path) -> None:
    plant(config, outside)
    (config / "closed").chmod(0o700)
    before = list_paths(config)
    copy_session_files(str(config), str(tmp_path / "copy"), PATTERNS)
    assert list_paths(tmp_path / "copy") == KEPT
    assert {path: (tmp_path / "copy" / path).read_text() for path in KEPT} == {path: path for path in KEPT}
    assert list_paths(config) == before


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("")
    with pytest.raises(StateUnusable, match="config"):
        keep_session_files(str(tmp_path / "config"), PATTERNS)


@each_driver
def test_an_agents_settings_are_not_among_what_it_keeps_of_a_session(driver: Driver, tmp_path: Path) -> None:
    write(tmp_path, *SETTINGS)
    keep_session_files(str(tmp_path), driver.state.session_paths)
    assert list_paths(tmp_path) == []


@each_driver
def test_an_agents_transcript_is_among_what_it_keeps_of_a_session(driver: Driver, tmp_path: Path) -> None:
    assert driver.state.session_paths
    if not driver.sessions.transcript_pattern:
        return
    name = driver.sessions.transcript_pattern.format(session_id="12345678-id").replace("**", "x/y").replace("*", "x")
    path = os.path.join(driver.state.state_subdir, name)
    write(tmp_path, path)
    keep_session_files(str(tmp_path), driver.state.session_paths)
    assert list_paths(tmp_path) == [path]


def test_folders_that_are_nested_very_deep_are_no_part_of_a_session(tmp_path: Path) -> None:
    config, copy = tmp_path / "config", tmp_path / "copy"
    with nest_folders(config / "cache", file="last"), nest_folders(config / "sessions", file="last"):
        (config / "sessions/x.jsonl").write_text("kept")
        copy_session_files(str(config), str(copy), PATTERNS)
        keep_session_files(str(config), PATTERNS)
        assert sorted(os.listdir(config)) == ["sessions"]
        assert [*map(str, copy.rglob("*"))] == [str(copy / "sessions"), str(copy / "sessions/x.jsonl")]
