"""Codex by its vendor's SDK: the same server with the same command line, which the SDK starts."""

from typing import Any

import msgspec
import pytest

from inspan.agents.select import select_channel
from inspan.contracts.driver import LaunchContext
from inspan.drivers.codex import DRIVER
from inspan.protocol.task import McpServer

from .launches import ENDPOINT, build_launch

RPC, SDK = select_channel(DRIVER, "rpc"), select_channel(DRIVER, "sdk")
PLACE = LaunchContext(
    program="/bin/codex",
    cwd="/WORK",
    scratch="/SCRATCH",
    config="/CONFIG",
    endpoint=ENDPOINT,
    python="/bin/python",
    package="/lib/openai_codex/__init__.py",
)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"mode": "review"},
        {"mode": "complete", "effort": "low"},
        {"ask": ("*",), "model": "gpt-5.5"},
        {"mcp_servers": {"srv": McpServer(command="serve", env={"TOKEN": "t"})}, "options": ("-c", "a=1")},
    ],
    ids=["exec", "review", "complete", "asked", "servers"],
)
def test_the_server_is_started_as_by_the_channel_rpc(fields: dict[str, Any]) -> None:
    rpc, sdk = build_launch(RPC, PLACE, **fields), build_launch(SDK, PLACE, **fields)
    host = sdk.argv[2]
    assert host.endswith("/drivers/codex/sdk_host.py")
    assert sdk.argv == ("/bin/python", "-I", host, "/lib", *rpc.argv)
    reads = ("/bin/python", "/lib/openai_codex/__init__.py", host)
    assert sdk == msgspec.structs.replace(rpc, argv=sdk.argv, reads=reads)


def test_what_is_said_and_what_can_be_done_is_that_of_the_channel_rpc() -> None:
    (rpc,), (sdk,) = RPC.channels, SDK.channels
    assert sdk == msgspec.structs.replace(rpc, name="sdk", launch=sdk.launch, package=sdk.package)
