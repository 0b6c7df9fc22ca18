"""What a project would have an agent run that cannot be kept from it: refused before anything starts."""

from pathlib import Path

import pytest

from tests.cli.refusal import expect_refusal
from tests.cli_env import CliEnv

# Agent and channel → what a stranger's project carries.
_CODE = [
    ("goose", "stream", ".agents/plugins/p/plugin.json", "{}"),
    ("goose", "acp", ".agents/plugins/p/plugin.json", "{}"),
    ("opencode", "stream", ".opencode/plugin/p.js", ""),
    ("opencode", "acp", ".opencode/plugins/p.js", ""),
    ("opencode", "stream", "opencode.json", '{"plugin": ["./evil.js"]}'),
    ("opencode", "stream", ".opencode/opencode.jsonc", '{"pl\\u0075gins": ["./evil.js"]}'),
    ("codex", "acp", ".codex/config.toml", ""),
    ("copilot", "acp", ".github/hooks/x.json", "{}"),
]
each_code = pytest.mark.parametrize(("agent", "channel", "path", "text"), _CODE)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text)


@each_code
def test_a_project_with_such_code_is_not_worked_in_in_the_profile_clean(
    cli_env: CliEnv, agent: str, channel: str, path: str, text: str
) -> None:
    folder = cli_env.work / "project"
    _write(folder / path, text)
    words = ("run", "do it", "-a", agent, "--channel", channel, "-C", str(folder))
    refusal = expect_refusal(cli_env, *words, "--profile", "clean")
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert refusal.message.startswith("--profile 'clean': ")
    assert f"runs what {folder}/" in refusal.message
    assert "--profile user" in refusal.next


def test_in_a_folder_of_the_repository_its_code_counts_too(cli_env: CliEnv) -> None:
    _write(cli_env.work / "project" / ".opencode" / "plugin" / "p.js", "")
    (cli_env.work / "project" / ".git").mkdir()
    inner = cli_env.work / "project" / "inner"
    inner.mkdir()
    refusal = expect_refusal(cli_env, "run", "do it", "-a", "opencode", "-C", str(inner), "--profile", "clean")
    assert "/project/.opencode/plugin says" in refusal.message


def test_what_lies_above_the_repository_is_none_of_its_code(cli_env: CliEnv) -> None:
    _write(cli_env.work / ".opencode" / "plugin" / "p.js", "")
    inner = cli_env.work / "project"
    (inner / ".git").mkdir(parents=True)
    refusal = expect_refusal(cli_env, "run", "do it", "-a", "opencode", "-C", str(inner), "--profile", "clean")
    assert "runs what" not in refusal.message  # It is only not installed here.


def test_settings_without_code_are_no_obstacle(cli_env: CliEnv) -> None:
    (cli_env.work / "opencode.json").write_text('{"model": "x"}')
    refusal = expect_refusal(cli_env, "run", "do it", "-a", "opencode", "--profile", "clean")
    assert "runs what" not in refusal.message


@pytest.mark.parametrize("profile", ["clean", "user"])
def test_a_completion_runs_no_code_of_a_project(cli_env: CliEnv, profile: str) -> None:
    _write(cli_env.work / ".opencode" / "plugin" / "p.js", "")
    words = ("run", "say it", "-a", "opencode", "--mode", "complete", "--profile", profile)
    refusal = expect_refusal(cli_env, *words)
    assert refusal.message.startswith("--mode 'complete': OpenCode runs what ")
    assert "-C" in refusal.next
