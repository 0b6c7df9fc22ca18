"""What an agent finds in its environment, and what it does not."""

import json
from pathlib import Path

import msgspec
import pytest

from inspan.agents import registry
from inspan.agents.driver_cache import summarize_agent
from inspan.agents.select import select_provider
from inspan.contracts.driver import Access, Driver, Provider
from inspan.planning.environment import build_agent_environment, collect_secrets
from inspan.protocol.task import McpServer
from inspan.redaction import SecretSet

_PARENT = {
    "PATH": "/bin",
    "LANG": "C",
    "HOME": "/h",
    "EDITOR": "vi",
    "GITHUB_TOKEN": "ghp_0123456789abcdefghij",
    "DB_PASSWORD": "correct horse battery",
    "ANTHROPIC_API_KEY": "sk-ant-0123456789",
    "ANTHROPIC_BASE_URL": "https://a",
    "CLAUDE_CODE_OAUTH_TOKEN": "oat-0123456789",
    "CLAUDE_CONFIG_DIR": "/c",
    "CLAUDECODE": "1",
    "CLAUDE_CODE_ENTRYPOINT": "cli",
    "OPENAI_API_KEY": "sk-0123456789abcdef",
    "OPENAI_BASE_URL": "https://o",
    "CODEX_HOME": "/x",
    "CODEX_API_KEY": "sk-codex-0123456789",
    "CODEX_ACCESS_TOKEN": "cat-0123456789",
}
_PAST_PROXIES = {"NO_PROXY", "no_proxy"}
_PLAIN = {"PATH", "LANG", "HOME", "EDITOR"}
_SECRET = {"GITHUB_TOKEN", "DB_PASSWORD"}
_OWN = {
    "claude": {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR"},
    "codex": {"OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_HOME", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"},
}
_KEYS = {
    "claude": {"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"},
    "codex": {"OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"},
}


@pytest.fixture(params=sorted(_OWN))
def driver(request: pytest.FixtureRequest) -> Driver:
    return registry.find_driver(request.param)


def _build_environment(
    driver: Driver,
    *,
    clean: bool,
    gateway: bool,
    login: bool = False,
    parent: dict[str, str] = _PARENT,
    added: dict[str, str] | None = None,
    private: bool = False,
) -> dict[str, str]:
    others = [summarize_agent(each) for each in registry.load_drivers()]
    return build_agent_environment(
        parent,
        driver=driver,
        others=others,
        clean=clean,
        gateway=gateway,
        login=login,
        run_env=added or {},
        private=private,
    )


def test_a_run_by_hand_keeps_the_users_environment_without_other_agents(driver: Driver) -> None:
    given = _build_environment(driver, clean=False, gateway=False)
    assert given.keys() == _PLAIN | _SECRET | _OWN[driver.name]


def test_behind_a_gateway_no_key_of_the_provider_is_left(driver: Driver) -> None:
    given = _build_environment(driver, clean=False, gateway=True)
    assert given.keys() == _PLAIN | _SECRET | {driver.state.config_variable} | _PAST_PROXIES
    assert _build_environment(driver, clean=True, gateway=True).keys() == _PLAIN | _PAST_PROXIES


def test_behind_a_gateway_nothing_leads_the_agent_past_it(driver: Driver) -> None:
    parent = _PARENT | dict.fromkeys((*driver.access.override_variables, *driver.provider.base_url_variables), "1")
    given = _build_environment(driver, clean=False, gateway=True, parent=parent)
    assert not {*driver.access.override_variables, *driver.provider.base_url_variables} & given.keys()
    assert _build_environment(driver, clean=False, gateway=False, parent=parent).keys() >= {
        *driver.access.override_variables
    }


def test_clean_drops_everything_secret_but_the_agents_own_key(driver: Driver) -> None:
    given = _build_environment(driver, clean=True, gateway=False)
    assert given.keys() == _PLAIN | _KEYS[driver.name]


def test_a_private_sandbox_has_no_secret_but_the_agents_own(driver: Driver) -> None:
    proxy = {"HTTPS_PROXY": "http://me:0123456789abc@proxy.example"}
    given = _build_environment(driver, clean=False, gateway=False, private=True, parent=_PARENT | proxy)
    assert given.keys() == _PLAIN | _OWN[driver.name] | proxy.keys()
    added = {"GITHUB_TOKEN": "ghp_abcdefghij0123456789"}
    given = _build_environment(driver, clean=False, gateway=True, private=True, added=added)
    assert given.keys() == _PLAIN | {driver.state.config_variable} | _PAST_PROXIES | added.keys()


def test_clean_behind_a_gateway_drops_everything_secret(driver: Driver) -> None:
    assert _build_environment(driver, clean=True, gateway=True).keys() == _PLAIN | _PAST_PROXIES


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("gateway", [False, True])
def test_no_agent_learns_that_it_was_started_by_another(driver: Driver, clean: bool, gateway: bool) -> None:
    given = _build_environment(driver, clean=clean, gateway=gateway)
    assert given.keys() & {"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"} == set()


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("gateway", [False, True])
def test_what_the_run_adds_is_there_whatever_it_is_called(driver: Driver, clean: bool, gateway: bool) -> None:
    added = {
        "JRUN_ID": "1",
        "PATH": "/mine",
        "CLAUDECODE": "x",
        "OPENAI_API_KEY": "run",
        "MY_SECRET_TOKEN": "s3cr3t-value",
    }
    given = _build_environment(driver, clean=clean, gateway=gateway, added=added)
    assert {name: given[name] for name in added} == added


def test_with_a_login_no_key_reaches_the_agent(driver: Driver) -> None:
    given = _build_environment(driver, clean=False, gateway=False, login=True)
    assert given.keys() == (_PLAIN | _SECRET | _OWN[driver.name]) - _KEYS[driver.name]


@pytest.mark.parametrize("clean", [False, True])
def test_a_key_that_the_run_adds_is_the_only_one(driver: Driver, clean: bool) -> None:
    for name in driver.provider.credentials:
        given = _build_environment(driver, clean=clean, gateway=False, added={name: "sk-added-0123456789"})
        assert {each: given[each] for each in driver.provider.credentials if each in given} == {
            name: "sk-added-0123456789"
        }


def test_the_users_own_name_for_a_key_stays_beside_the_one_that_the_program_reads() -> None:
    codex = registry.find_driver("codex")
    given = _build_environment(codex, clean=False, gateway=False, added={"CODEX_API_KEY": _PARENT["OPENAI_API_KEY"]})
    assert (given["OPENAI_API_KEY"], given["CODEX_API_KEY"]) == (_PARENT["OPENAI_API_KEY"],) * 2


def test_clean_leaves_no_second_name_for_the_key(driver: Driver) -> None:
    parent = {**_PARENT, "NUMBER_2": "sk-added-0123456789", "CI": "1"}
    name = driver.provider.credentials[0]
    given = _build_environment(driver, clean=True, gateway=False, parent=parent, added={name: "sk-added-0123456789"})
    assert given.keys() == _PLAIN | {"CI", name}
    assert "CI" in _build_environment(driver, clean=True, gateway=False, parent=parent, added={name: "1"})


def test_every_secret_that_could_show_is_known(driver: Driver) -> None:
    added = {"MY_TOKEN": "token-that-was-added", "GITHUB_TOKEN": "ghp_another0123456789abc"}
    known = collect_secrets(_PARENT, added, credentials=driver.provider.credentials, token="run-token-0123456789")
    expected = {_PARENT[name] for name in _SECRET | _KEYS["claude"] | _KEYS["codex"]}
    assert {value for _, value in known} == expected | set(added.values()) | {"run-token-0123456789"}


def test_secrets_of_one_name_are_all_known(driver: Driver) -> None:
    parent = {
        "API_KEY": "parent-hunter2-key",
        "URL": "https://me:hunter2hunter2@x",
        "URL.2": "https://me:two-hunter2@x",
    }
    servers = [
        McpServer(command="x", env={"API_KEY": "first-hunter2-key"}),
        McpServer(command="x", env={"API_KEY": "second-hunter2-key"}),
        McpServer(url="https://x/?api_key=third-hunter2-key", headers={"X-Key": "one-hunter2", "x-key": "two-hunter2"}),
        McpServer(url="https://x", headers={"Authorization": "Bearer four-hunter2", "X-Key": "three-hunter2"}),
        McpServer(url="https://x", headers={"Cookie": "session=five-hunter2; id=six-hunter2", "Accept": "text/html"}),
        McpServer(command="x", args=("--api-key", "seven-hunter2", "--token=eight-hunter2", "API_KEY=nine-hunter2")),
        McpServer(
            command="x", args=("--header", "Authorization: Bearer ten-hunter2", "https://me:p-hunter2@x", "word")
        ),
    ]
    known = collect_secrets(
        parent,
        {"API_KEY": "added-hunter2-key"},
        {"API_KEY": "task-hunter2-key"},
        credentials=driver.provider.credentials,
        token="",
        servers=servers,
    )
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "p"]
    expected = {f"{word}-hunter2-key" for word in ["parent", "added", "task", "first", "second", "third"]}
    expected |= {f"{word}-hunter2" for word in words} | {"hunter2hunter2", "two-hunter2"}
    assert {value for _, value in known} == expected
    assert len(known) == len(expected)
    text = " ".join(expected)
    assert "hunter2" not in SecretSet(known).redact_text(text)


def test_tokens_of_one_name_in_a_login_file_are_all_known(driver: Driver, tmp_path: Path) -> None:
    path = tmp_path / ".codex" / "auth.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"a.token": "hunter2-number-1", "a": {"token": "hunter2-number-2"}}))
    known = collect_secrets({"HOME": str(tmp_path)}, credentials=driver.provider.credentials, token="")
    assert [value for _, value in known] == ["hunter2-number-1", "hunter2-number-2"]


def test_a_credential_is_a_secret_however_it_is_spelled(driver: Driver) -> None:
    given = {driver.provider.credentials[0]: "plainwords"}
    assert dict(collect_secrets({}, given, credentials=driver.provider.credentials, token="")) == given


def test_the_tokens_of_every_login_are_known_also_of_one_that_the_run_moves(driver: Driver, tmp_path: Path) -> None:
    planted: dict[str, str] = {}
    for number, path in enumerate((".claude/.credentials.json", ".codex/auth.json", "moved/auth.json")):
        (tmp_path / path).parent.mkdir()
        planted[path] = f"token-number-{number}"
        (tmp_path / path).write_text(json.dumps({"access_token": planted[path]}))
    parent, added = {"HOME": str(tmp_path)}, {"CODEX_HOME": str(tmp_path / "moved")}
    known = collect_secrets(parent, added, credentials=driver.provider.credentials, token="")
    assert sorted(value for _, value in known) == sorted(planted.values())


_MANY = (
    Provider(
        name="one",
        wire="messages",
        vendor="one",
        base_url="https://one",
        credentials=("ANTHROPIC_API_KEY",),
        base_url_variables=("ANTHROPIC_HOST",),
    ),
    Provider(name="two", wire="responses", vendor="two", base_url="https://two", credentials=("OPENAI_API_KEY",)),
    Provider(name="three", wire="chat", vendor="three", base_url="https://three", credentials=("THREE_API_KEY",)),
)
_AROUND = {
    "PATH": "/bin",
    "MANY_HOME": "/m",
    "ANTHROPIC_API_KEY": "sk-ant-0123456789",
    "ANTHROPIC_HOST": "https://a",
    "ANTHROPIC_MODEL": "opus",
    "OPENAI_API_KEY": "sk-0123456789abcdef",
    "THREE_API_KEY": "three-0123456789ab",
    "CODEX_HOME": "/x",
}


def _make_driver(way: str, *variables: str) -> Driver:
    """An agent with several providers, whose keys have names that begin like another agent's variables."""
    access = Access(variables=variables)
    base = msgspec.structs.replace(registry.find_driver("scripted"), name="many", providers=_MANY, access=access)
    return select_provider(base, way)


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize(("way", "key"), [("one", "ANTHROPIC_API_KEY"), ("two", "OPENAI_API_KEY")])
def test_of_many_providers_only_the_chosen_ones_key_reaches_the_agent(way: str, key: str, clean: bool) -> None:
    given = _build_environment(_make_driver(way, "MANY_"), clean=clean, gateway=False, parent=_AROUND)
    own = {"ANTHROPIC_API_KEY": {"ANTHROPIC_HOST"}}.get(key, set())
    assert given.keys() == ({"PATH", key} if clean else {"PATH", "MANY_HOME", key} | own)


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("way", ["one", "two", "three"])
def test_behind_a_gateway_no_key_of_any_provider_is_left(way: str, clean: bool) -> None:
    given = _build_environment(_make_driver(way, "MANY_"), clean=clean, gateway=True, parent=_AROUND)
    assert given.keys() == ({"PATH"} if clean else {"PATH", "MANY_HOME"}) | _PAST_PROXIES


def test_a_variable_that_two_agents_share_is_each_ones_own() -> None:
    both = _make_driver("three", "MANY_", "ANTHROPIC_")
    given = _build_environment(both, clean=False, gateway=False, parent=_AROUND)
    assert given.keys() == {"PATH", "MANY_HOME", "ANTHROPIC_HOST", "ANTHROPIC_MODEL", "THREE_API_KEY"}
    others = [summarize_agent(both), *(summarize_agent(each) for each in registry.load_drivers())]
    for name, kept in (("claude", {"ANTHROPIC_API_KEY", "ANTHROPIC_HOST", "ANTHROPIC_MODEL"}), ("codex", set[str]())):
        known = build_agent_environment(
            _AROUND, driver=registry.find_driver(name), others=others, clean=False, gateway=False, run_env={}
        )
        assert {each for each in known if each.startswith("ANTHROPIC_")} == kept


def test_a_key_that_is_withheld_is_known_as_a_secret_all_the_same() -> None:
    driver = _make_driver("one")
    plain = {**_AROUND, "THREE_API_KEY": "plainwords"}
    known = dict(
        collect_secrets(
            plain, credentials=(*driver.provider.credentials, *driver.access.withheld_credentials), token=""
        )
    )
    assert {known[name] for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "THREE_API_KEY")} == {
        "sk-ant-0123456789",
        "sk-0123456789abcdef",
        "plainwords",
    }
