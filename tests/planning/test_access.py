"""A run without a key and a login is refused before it starts; one that may have access elsewhere is not."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from inspan.agents.program import Program
from inspan.agents.registry import find_driver, load_drivers
from inspan.agents.select import choose_provider, select_channel, select_provider
from inspan.contracts.driver import Driver
from inspan.credentials.resolve import resolve_credential
from inspan.errors import CredentialsMissing
from inspan.planning.access import describe_access, refuse_without_access
from inspan.protocol.task import Task

NEEDY = [driver.name for driver in load_drivers() if driver.access.needs_credential]
KEY = "sk-made-up-0123456789"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    return {"HOME": str(tmp_path / "home"), "PATH": ""}


def check(
    name: str,
    env: Mapping[str, str],
    *,
    source: str = "PATH",
    task_env: dict[str, str] | None = None,
    **fields: Any,
) -> None:
    """Raises what a run of this agent would be refused with for its access alone."""
    cwd = str(Path(env.get("HOME", "/nowhere")).parent / "work")
    task = Task(prompt="hi", cwd=cwd, agent=name, env=task_env or {}, **fields)
    driver = _narrow(find_driver(name), task, env)
    program = Program(path="/program", version="1", source=source)
    refuse_without_access(task, driver, program, resolve_credential(task, driver, env), env)


def _narrow(driver: Driver, task: Task, env: Mapping[str, str]) -> Driver:
    driver = select_channel(driver, "")
    return select_provider(driver, choose_provider(driver, task, env))


def test_the_agents_of_vendors_need_a_key_or_a_login() -> None:
    expected = ["claude", "codex", "copilot", "gemini", "goose", "perplexity", "pi", "qwen", "xai"]
    assert sorted(NEEDY) == expected


@pytest.mark.parametrize("name", NEEDY)
def test_without_key_and_login_the_sentence_says_what_to_do(name: str, env: dict[str, str]) -> None:
    driver = find_driver(name)
    with pytest.raises(CredentialsMissing) as caught:
        check(name, env)
    error = caught.value
    assert error.message.startswith(f"{driver.title} has neither a key nor a login: ")
    assert driver.provider.credentials[0] in error.message
    assert [path for path in driver.state.login_paths if path not in error.message] == []
    assert driver.access.login_hint.lower() in error.next_step.lower()
    assert ("--direct" in error.next_step) == (not driver.program.hosted)
    assert (f"inspan login {name}" in error.next_step) == (driver.access.login is not None)


@pytest.mark.parametrize("name", NEEDY)
def test_a_key_that_is_set_but_empty_is_named_as_such(name: str, env: dict[str, str]) -> None:
    variable = find_driver(name).provider.credentials[0]
    with pytest.raises(CredentialsMissing, match=f"{variable} is set, but empty"):
        check(name, {**env, variable: ""})
    with pytest.raises(CredentialsMissing, match=f"{variable} is set, but empty"):
        check(name, {**env, variable: " \t"})
    with pytest.raises(CredentialsMissing, match=f"{variable} is set, but empty"):
        check(name, {**env, variable: KEY}, task_env={variable: ""})


@pytest.mark.parametrize("name", NEEDY)
def test_a_key_or_a_direct_run_or_a_program_of_ones_own_is_started(name: str, env: dict[str, str]) -> None:
    driver = find_driver(name)
    check(name, {**env, driver.provider.credentials[0]: KEY})
    check(name, env, model_from="direct")
    check(name, env, source=driver.program_variable)
    check(name, env, base_url="http://127.0.0.1:9")
    check(name, env, model_from="script:x")


def test_without_a_home_the_key_is_asked_for_all_the_same() -> None:
    with pytest.raises(CredentialsMissing):
        check("xai", {})


@pytest.mark.parametrize(
    ("name", "variable"), [(name, each) for name in NEEDY for each in find_driver(name).access.other_variables]
)
def test_a_variable_that_may_give_access_lets_the_run_start(name: str, variable: str, env: dict[str, str]) -> None:
    check(name, {**env, variable: "something"})
    with pytest.raises(CredentialsMissing):
        check(name, {**env, variable: ""})


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("claude", ".claude.json"),
        ("codex", ".codex/config.toml"),
        ("codex", ".codex/.env"),
        ("copilot", ".copilot/config.json"),
        ("copilot", ".config/gh/hosts.yml"),
        ("gemini", ".env"),
        ("gemini", ".gemini/settings.json"),
        ("goose", ".config/goose/config.yaml"),
        ("pi", ".pi/agent/models.json"),
        ("qwen", ".qwen/settings.json"),
    ],
)
def test_settings_by_which_an_agent_may_have_access_let_the_run_start(
    name: str, path: str, env: dict[str, str]
) -> None:
    content = {
        ".claude.json": '{"primaryApiKey": "x"}',
        ".codex/config.toml": 'cli_auth_credentials_store = "keyring"',
        ".copilot/config.json": '{"loggedInUsers": [{"login": "me"}]}',
        ".gemini/settings.json": '{"security": {"auth": {"selectedType": "oauth-personal"}}}',
        ".qwen/settings.json": '{"security": {"auth": {"selectedType": "openai"}}}',
    }
    file = Path(env["HOME"], path)
    file.parent.mkdir(parents=True, exist_ok=True)
    if path in content:
        file.write_text("{}" if path.endswith(".json") else "")
        with pytest.raises(CredentialsMissing):
            check(name, env)
    file.write_text(content.get(path, ""))
    check(name, env)


def test_settings_are_looked_for_in_the_working_folder_and_where_they_were_moved_to(env: dict[str, str]) -> None:
    work, moved = Path(env["HOME"]).parent / "work", Path(env["HOME"]).parent / "moved"
    moved.mkdir()
    (moved / "config.toml").write_text('cli_auth_credentials_store = "keyring"')
    check("codex", {**env, "CODEX_HOME": str(moved)})
    (work / ".claude").mkdir()
    (work / ".claude" / "settings.json").write_text('{"apiKeyHelper": "./key"}')
    check("claude", env)


@pytest.mark.parametrize("content", ["", "[", '"text"', '{"primaryApiKey": ""}', "\x00"])
def test_settings_that_say_nothing_give_no_access(content: str, env: dict[str, str]) -> None:
    Path(env["HOME"], ".claude.json").write_text(content)
    with pytest.raises(CredentialsMissing):
        check("claude", env)


def test_a_model_of_a_provider_that_inspan_does_not_know_is_the_agents_own_matter(env: dict[str, str]) -> None:
    check("pi", env, model="mistral/large")
    with pytest.raises(CredentialsMissing):
        check("pi", env, model="openai/gpt-5.2")


HELPER, URL = '{"apiKeyHelper": "true"}', '{"env": {"ANTHROPIC_BASE_URL": "http://x:1/"}}'
PROVIDER = 'model_provider = "own"'
OWN_CHOICES = {
    "a helper": ("claude", "ANTHROPIC_API_KEY", ".claude/settings.json", HELPER, "apiKeyHelper", "", False),
    "an address": ("claude", "ANTHROPIC_API_KEY", ".claude/settings.json", URL, "env.ANTHROPIC_BASE_URL", "http", True),
    "no key": ("claude", "NOTHING", ".claude/settings.json", URL, "env.ANTHROPIC_BASE_URL", "http", False),
    "a provider": ("codex", "OPENAI_API_KEY", ".codex/config.toml", PROVIDER, "model_provider", "", False),
}


@pytest.mark.parametrize(("name", "variable", "path", "content", "key", "url", "warns"), OWN_CHOICES.values())
def test_a_key_is_not_named_where_the_users_own_settings_choose_the_provider(
    env: dict[str, str], name: str, variable: str, path: str, content: str, key: str, url: str, warns: bool
) -> None:
    settings = Path(env["HOME"], path)
    settings.parent.mkdir()
    settings.write_text(content)
    own = {**env, variable: KEY}
    task = Task(prompt="hi", cwd=env["HOME"], agent=name)
    driver = _narrow(find_driver(name), task, own)
    found = describe_access(task, driver, resolve_credential(task, driver, own), own)
    assert found.description == f"your own settings choose the provider ({key} in ~/{path})"
    assert (found.base_url.partition(":")[0], bool(found.warning), found.known) == (url, warns, True)
