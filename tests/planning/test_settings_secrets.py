"""What an agent's own settings files hold in secret is known before it starts."""

import json
import os
from pathlib import Path

import pytest

from inspan.agents.registry import find_driver
from inspan.planning.environment import collect_secrets
from inspan.planning.settings_secrets import list_settings_values
from tests.cli_env import CliEnv

_SERVERS = {
    "docs": {"url": "https://x/?api_key=one-hunter2", "headers": {"Authorization": "Bearer two-hunter2"}},
    "local": {"command": "x", "args": ["--api-key", "three-hunter2", "word"], "env": {"DB_PASSWORD": "four-hunter2"}},
}
_TOML = """
[mcp_servers.docs.http_headers]
Authorization = "Bearer five-hunter2"
[model_providers.own]
base_url = "https://me:six-hunter2@x"
"""
_PLACED = {
    "claude": {
        "home/.claude/settings.json": json.dumps({"env": {"ANTHROPIC_AUTH_TOKEN": "plain-hunter2", "LANG": "C.UTF-8"}}),
        "home/.claude.json": json.dumps({"projects": {"/p": {"mcpServers": _SERVERS, "history": ["a token is x"]}}}),
        "work/.claude/settings.local.json": '{"env": {"NPM_TOKEN": "own-hunter2"},  // of this checkout\n}',
    },
    "codex": {"home/.codex/config.toml": _TOML, "home/.codex/.env": "# here\nexport CODEX_API_KEY='file-hunter2'\n"},
    "goose": {"home/.config/goose/secrets.yaml": "OPENAI_API_KEY: yaml-hunter2\nname: word\n"},
}
_FOUND = {
    "claude": {"plain", "own", "one", "two", "three", "four"},
    "codex": {"five", "six", "file"},
    "goose": {"yaml"},
}


def _plant(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _find(root: Path, agent: str, env: dict[str, str], *, clean: bool = False) -> set[str]:
    (root / "work").mkdir(exist_ok=True)
    values = list_settings_values(find_driver(agent), str(root / "work"), env, clean=clean)
    return {value for _, value in collect_secrets(env, credentials=(), token="", settings=values)}


@pytest.mark.parametrize("agent", _PLACED)
def test_whatever_form_its_files_have_their_secrets_are_known(tmp_path: Path, agent: str) -> None:
    _plant(tmp_path, _PLACED[agent])
    found = _find(tmp_path, agent, {"HOME": str(tmp_path / "home")})
    assert found == {f"{word}-hunter2" for word in _FOUND[agent]}
    in_project = {"own-hunter2"} if agent == "claude" else set[str]()
    assert _find(tmp_path, agent, {"HOME": str(tmp_path / "home")}, clean=True) == in_project


def test_a_folder_that_a_variable_moves_is_looked_at_too(tmp_path: Path) -> None:
    _plant(tmp_path, {"moved/settings.json": _PLACED["claude"]["home/.claude/settings.json"]})
    env = {"HOME": str(tmp_path / "home"), "CLAUDE_CONFIG_DIR": str(tmp_path / "moved")}
    assert _find(tmp_path, "claude", env) == {"plain-hunter2"}


def test_a_file_that_is_none_holds_nobody_up(tmp_path: Path) -> None:
    for place in ("home/.claude/settings.json", "work/.claude/settings.local.json", "home/.claude.json"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(tmp_path / "home/.claude/settings.json")
    os.mkfifo(tmp_path / "work/.claude/settings.local.json")
    (tmp_path / "home/.claude.json").write_text("[" * 100_000)
    assert _find(tmp_path, "claude", {"HOME": str(tmp_path / "home")}) == set()


def test_an_agent_that_prints_its_settings_gives_nothing_away(cli_env: CliEnv) -> None:
    _plant(cli_env.work, {".claude/settings.local.json": '{"env": {"NPM_TOKEN": "own-hunter2"}}'})
    scenario = "[[call]]\nrun = 'cat .claude/settings.local.json'\n[[call]]\nsay = 'read'\n"
    done = cli_env.run("claude", scenario)
    kept = [path for path in cli_env.folder().rglob("*") if path.is_file()]
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert any(b"[REDACTED:NPM_TOKEN]" in path.read_bytes() for path in kept)
    assert [path.name for path in kept if b"own-hunter2" in path.read_bytes()] == []
    assert "own-hunter2" not in done.stdout + done.stderr
