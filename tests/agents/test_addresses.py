"""One address per run: where the user says the provider is, key, login and prompt go there and nowhere else.

Everything runs in a network that has only loopback: whoever would go to the vendor reaches nobody, and fails.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.refusal import expect_refusal
from tests.cli_env import CliEnv, FinishedRun

from .netns import NetworkNamespace
from .provider import Provider
from .test_logins import CLAUDE, CODEX, KEY, AgentLogin, plant_login

SAYS = "[[call]]\nsay = 'hello from there'\n"
VARIABLE = {"claude": "ANTHROPIC_BASE_URL", "codex": "OPENAI_BASE_URL"}
PATH = {"claude": "", "codex": "/v1"}
# Nobody listens there: whoever follows it fails.
DECOY = "http://127.0.0.1:9"
each_way = pytest.mark.parametrize("way", [CLAUDE, CODEX], ids=str)
each_profile = pytest.mark.parametrize("profile", ["user", "clean"])


@pytest.fixture
def netns() -> Iterator[NetworkNamespace]:
    with NetworkNamespace() as found:
        yield found


@pytest.fixture
def netns_env(tmp_path: Path, binaries: dict[str, str], netns: NetworkNamespace) -> Iterator[CliEnv]:
    """A house on an island, with a user whose agents tell their vendors nothing of themselves."""
    (tmp_path / "house").mkdir()
    made = CliEnv(tmp_path / "house", prefix=netns.prefix, binaries=binaries)
    made.env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
    settings = Path(made.env["HOME"], ".codex", "config.toml")
    settings.parent.mkdir()
    # What it would ask of its vendor beside the model fails at once, instead of waiting for a name that nobody knows.
    settings.write_text(
        f"chatgpt_base_url = '{DECOY}'\ncheck_for_update_on_startup = false\n"
        "[analytics]\nenabled = false\n[features]\nplugins = false\n"
    )
    yield made
    made.close()


def configure(cli_env: CliEnv, way: AgentLogin, url: str) -> None:
    path = Path(cli_env.env["HOME"], ".config", "inspan", "config.toml")
    path.parent.mkdir(parents=True)
    path.write_text(f"[agents.{way.agent}]\nbase_url = '{url}'\n")


def provider_arguments(cli_env: CliEnv, way: AgentLogin, how: str, url: str) -> list[str]:
    """Says where the provider is, and gives the words of the command line for it; the weaker ways lead astray."""
    variable, address = VARIABLE[way.agent], f"{url}{PATH[way.agent]}"
    if how == "variable":
        cli_env.env[variable] = address
        return []
    cli_env.env[variable] = DECOY
    if how == "task variable":
        return ["--env", f"{variable}={address}"]
    if how == "setting":
        configure(cli_env, way, address)
        return ["--env", f"{variable}={DECOY}"]
    configure(cli_env, way, DECOY)
    return ["--env", f"{variable}={DECOY}", "--base-url", address]


EACH_HOW = pytest.mark.parametrize("how", ["flag", "setting", "task variable", "variable"])


@EACH_HOW
@each_profile
@each_way
def test_a_direct_run_with_a_key_goes_to_the_address_that_it_was_given(
    netns_env: CliEnv, netns: NetworkNamespace, way: AgentLogin, profile: str, how: str
) -> None:
    netns_env.env[way.variable] = KEY
    with Provider(SAYS, cwd=str(netns_env.work), listener=netns.listener) as provider:
        more = provider_arguments(netns_env, way, how, provider.url)
        done = netns_env.inspan("run", "do it", "-a", way.agent, "--profile", profile, "--direct", *more)
    run = FinishedRun(netns_env, done)
    assert run.verdict == ("completed", "done", 0), run.stderr
    assert provider.calls == [way.key_header]
    assert run.events[0]["model_from"] == "direct"


@pytest.mark.parametrize("mode", ["review", "complete"])
@each_profile
@each_way
def test_so_does_one_that_may_not_do_everything(
    netns_env: CliEnv, netns: NetworkNamespace, way: AgentLogin, profile: str, mode: str
) -> None:
    netns_env.env[way.variable] = KEY
    with Provider(SAYS, cwd=str(netns_env.work), listener=netns.listener) as provider:
        more = provider_arguments(netns_env, way, "flag", provider.url)
        done = netns_env.inspan(
            "run", "do it", "-a", way.agent, "--profile", profile, "--direct", "--mode", mode, *more
        )
    assert FinishedRun(netns_env, done).verdict == ("completed", "done", 0), done.stderr
    assert provider.calls == [way.key_header]


@pytest.mark.parametrize("direct", [(), ("--direct",)], ids=["usual", "direct"])
@EACH_HOW
@each_way
def test_a_login_goes_to_the_address_that_the_run_was_given(
    netns_env: CliEnv, netns: NetworkNamespace, way: AgentLogin, how: str, direct: tuple[str, ...]
) -> None:
    plant_login(netns_env, way)
    with Provider(SAYS, cwd=str(netns_env.work), listener=netns.listener) as provider:
        more = provider_arguments(netns_env, way, how, provider.url)
        done = netns_env.inspan("run", "do it", "-a", way.agent, "--profile", "user", "--login", *direct, *more)
    assert FinishedRun(netns_env, done).verdict == ("completed", "done", 0), done.stderr
    assert provider.calls == [way.login_headers]


def test_settings_that_lead_elsewhere_give_way_to_the_address_that_was_said(
    netns_env: CliEnv, netns: NetworkNamespace
) -> None:
    settings = Path(netns_env.env["HOME"], ".claude", "settings.json")
    settings.parent.mkdir()
    settings.write_text(f'{{"env": {{"ANTHROPIC_BASE_URL": "{DECOY}", "CLAUDE_CODE_USE_BEDROCK": "1"}}}}')
    netns_env.env |= {"ANTHROPIC_API_KEY": KEY, "CLAUDE_CODE_USE_VERTEX": "1"}
    with Provider(SAYS, cwd=str(netns_env.work), listener=netns.listener) as provider:
        more = ("--direct", "--base-url", provider.url, "--env", "CLAUDE_CODE_USE_BEDROCK=1")
        done = netns_env.inspan("run", "do it", "-a", "claude", "--profile", "user", *more)
    assert FinishedRun(netns_env, done).verdict == ("completed", "done", 0), done.stderr
    assert provider.calls == [CLAUDE.key_header]


def test_a_key_that_works_at_the_vendor_alone_goes_nowhere_else(cli_env: CliEnv) -> None:
    cli_env.env["CODEX_ACCESS_TOKEN"] = KEY
    refusal = expect_refusal(cli_env, "run", "do it", "-a", "codex", "--base-url", "http://127.0.0.1:9/v1")
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert refusal.message.startswith("--base-url 'http://127.0.0.1:9/v1': CODEX_ACCESS_TOKEN works only at ")
    assert "--base-url" in refusal.next
    assert "agents.codex.base_url" in refusal.next
