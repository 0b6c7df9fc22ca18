"""Secrets in the words of MCP servers: on no command line and in no file, whichever agent starts them."""

import pytest

from inspan.agents import registry
from inspan.contracts.driver import Driver, Endpoint, LaunchContext
from inspan.protocol.task import McpServer

from .launches import build_launch

SECRET = "srv-Wq8Zt3Kx6Lm1Vb5Ny9"
SERVER = McpServer(command="run", args=("--api-key", SECRET, f"--token={SECRET}"), env={"TOKEN": SECRET})
WEB = McpServer(url=f"https://x/mcp?api_key={SECRET}", headers={"Authorization": f"Bearer {SECRET}"})
ENDPOINT = Endpoint(url="http://127.0.0.1:1", token="run-token", variable="INSPAN_RUN_TOKEN")
# By `acp` they are spoken of on stdin.
AGENTS = [
    driver for driver in registry.load_drivers() if driver.capabilities.mcp and driver.channels[0].kind == "stream"
]
# These take an address from their command line or a file alone, as it is; what is left in a file goes with the run.
LITERAL = ("codex", "copilot", "goose")


def _told(driver: Driver, server: McpServer, mode: str = "exec") -> str:
    """All that the launch of this server shows to others."""
    way = driver.providers[0].name if driver.providers else ""
    place = LaunchContext(
        program="x",
        cwd="/WORK",
        scratch="/SCRATCH",
        config="/CONFIG",
        endpoint=ENDPOINT,
        provider=way,
        secrets=(SECRET,),
    )
    allowed = ("mcp__one",) if mode != "exec" else None
    launch = build_launch(driver, place, mcp_servers={"one": server}, mode=mode, allowed_tools=allowed)
    assert any(SECRET in value for value in launch.env.values())
    return f"{launch.argv}{launch.files}"


@pytest.mark.parametrize("mode", ["exec", "review"])
@pytest.mark.parametrize("driver", AGENTS, ids=lambda driver: driver.name)
def test_the_words_of_a_server_are_shown_to_nobody(driver: Driver, mode: str) -> None:
    if mode == "review" and driver.name in ("gemini", "goose"):
        mode = "exec"  # They take servers in this mode alone, or leave them out.
    assert SECRET not in _told(driver, SERVER, mode)


@pytest.mark.parametrize(
    "driver", [each for each in AGENTS if each.name not in LITERAL], ids=lambda driver: driver.name
)
def test_the_address_of_a_server_is_shown_to_nobody(driver: Driver) -> None:
    assert SECRET not in _told(driver, WEB)


def test_a_login_in_an_address_is_a_header_where_the_address_is_shown() -> None:
    told = _told(
        registry.find_driver("codex"), McpServer(url=f"https://me:{SECRET}@x/mcp", headers={"X-Token": SECRET})
    )
    assert SECRET not in told
    assert 'url="https://x/mcp",env_http_headers={"X-Token"="INSPAN_MCP_0","Authorization"="INSPAN_MCP_1"}' in told
