"""The caller's own tools as a server of the agent's: on the gateway's listener, with the run's token."""

import os
import sys
from collections.abc import Sequence

import msgspec

from inspan.contracts.driver import Endpoint
from inspan.contracts.tool_grants import is_unrestricted
from inspan.protocol.task import McpServer, Task

NAME = "inspan"


def add_tool_server(task: Task, endpoint: Endpoint, *, by: Sequence[str]) -> Task:
    """The task as the agent is started with it: with one server more, whose tools it may use in every mode.

    `by` are the ways in which the agent takes servers; one that takes none over HTTP gets a program of ours between.
    """
    server = build_tool_bridge(endpoint)
    if "http" in by:
        server = McpServer(url=_find_url(endpoint), headers={"Authorization": f"Bearer {endpoint.token}"})
    allowed = task.allowed_tools
    if not is_unrestricted(task):
        allowed = (*(allowed or ()), *(f"mcp__{NAME}__{tool.name}" for tool in task.tools))
    return msgspec.structs.replace(task, mcp_servers={**task.mcp_servers, NAME: server}, allowed_tools=allowed)


def build_tool_bridge(endpoint: Endpoint) -> McpServer:
    """The same as a program on stdin and stdout. Its token is in its environment, never on a command line."""
    from .tool_bridge import TOKEN_VARIABLE, URL_VARIABLE  # Start-up time: few runs have tools of the caller's.

    script = os.path.join(os.path.dirname(__file__), "tool_bridge.py")
    return McpServer(
        command=sys.executable,
        args=("-I", "-S", script),
        env={URL_VARIABLE: _find_url(endpoint), TOKEN_VARIABLE: endpoint.token},
    )


def _find_url(endpoint: Endpoint) -> str:
    return f"{endpoint.url.partition('/run/')[0]}/mcp"
