"""Any agent of the Agent Client Protocol, by a command line."""

import msgspec
import pytest

from inspan.agents.registry import find_driver
from inspan.agents.select import select_provider
from inspan.contracts.driver import Endpoint, Launch, LaunchContext
from inspan.dialects.acp.session_setup import SessionSetup
from inspan.drivers.acp import driver_from_command
from inspan.errors import BadInput
from inspan.protocol.task import McpServer, Task

_ENDPOINT = Endpoint(url="http://127.0.0.1:1", token="token", variable="ANTHROPIC_API_KEY")
_ADDRESSES = {
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
    "ANTHROPIC_HOST": "http://127.0.0.1:1",
    "ANTHROPIC_API_KEY": "token",
    "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
    "OPENAI_API_BASE": "http://127.0.0.1:1/v1",
    "OPENAI_HOST": "http://127.0.0.1:1",
    "OPENAI_API_KEY": "token",
    "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:1",
    "GEMINI_BASE_URL": "http://127.0.0.1:1",
    "GOOGLE_HOST": "http://127.0.0.1:1",
    "GEMINI_API_KEY": "token",
}


def _build_launch(
    command: str = "agent --acp", *, place: LaunchContext | None = None, task: Task | None = None
) -> Launch:
    driver = select_provider(driver_from_command(command), "anthropic")
    where = place or LaunchContext(program="/bin/agent", cwd="/work", provider="anthropic", wire="messages")
    return driver.channels[0].launch(task or Task(prompt="do it", cwd="/work"), where)


def test_the_registry_finds_it_by_its_prefix() -> None:
    driver = find_driver("acp:agent 'with a word' --acp")
    assert (driver.name, driver.title, driver.program.command) == ("acp:agent 'with a word' --acp", "agent", "agent")
    assert not driver.family
    assert find_driver("acp").family


def test_words_are_those_of_a_shell_and_options_stand_behind_them() -> None:
    task = Task(prompt="do it", cwd="/work", options=("--more",))
    assert _build_launch("agent 'a b' --acp", task=task).argv == ("/bin/agent", "a b", "--acp", "--more")


@pytest.mark.parametrize("command", ["", "  ", "'", "./agent", "bin/agent --acp"])
def test_what_is_no_command_is_refused(command: str) -> None:
    with pytest.raises(BadInput):
        driver_from_command(command)


def test_a_played_model_stands_in_for_every_provider() -> None:
    place = LaunchContext(program="/bin/agent", cwd="/work", provider="anthropic", endpoint=_ENDPOINT)
    task = Task(prompt="do it", cwd="/work", model_from="script:x.toml")
    assert _build_launch(place=place, task=task).env == _ADDRESSES


def test_with_a_key_only_its_own_provider_is_led_to_the_gateway() -> None:
    place = LaunchContext(program="/bin/agent", cwd="/work", provider="anthropic", endpoint=_ENDPOINT)
    own = {name: value for name, value in _ADDRESSES.items() if name.startswith("ANTHROPIC")}
    assert _build_launch(place=place).env == own


def test_without_a_gateway_nothing_is_set() -> None:
    assert _build_launch().env == {}


def test_a_clean_session_has_a_home_of_its_own() -> None:
    place = LaunchContext(program="/bin/agent", cwd="/work", config="/config")
    assert _build_launch(place=place).env == {
        "HOME": "/config",
        "XDG_CONFIG_HOME": "/config/.config",
        "XDG_DATA_HOME": "/config/.local/share",
        "XDG_STATE_HOME": "/config/.local/state",
        "XDG_CACHE_HOME": "/config/.cache",
    }


def test_what_is_to_be_said_goes_along_in_memory() -> None:
    servers = {
        "shop": McpServer(command="serve", args=("a",), env={"KEY": "secret"}),
        "web": McpServer(url="https://example.org", headers={"Authorization": "Bearer secret"}),
    }
    task = Task(prompt="do it", cwd="/work", model="anthropic/big", mcp_servers=servers, extra_dirs=("/more",))
    launch = _build_launch(task=task)
    assert launch.keeps_stdin
    assert msgspec.json.decode(launch.stdin, type=SessionSetup) == SessionSetup(
        cwd="/work",
        prompt=[{"type": "text", "text": "do it"}],
        servers=[
            {"name": "shop", "command": "serve", "args": ["a"], "env": [{"name": "KEY", "value": "secret"}]},
            {
                "type": "http",
                "name": "web",
                "url": "https://example.org",
                "headers": [{"name": "Authorization", "value": "Bearer secret"}],
            },
        ],
        folders=["/more"],
        model="big",
    )


def test_a_completion_has_no_servers_of_tools() -> None:
    task = Task(prompt="do it", cwd="/work", mode="complete", mcp_servers={"shop": McpServer(command="serve")})
    assert msgspec.json.decode(_build_launch(task=task).stdin, type=SessionSetup).servers == []
