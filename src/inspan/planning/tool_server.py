"""The caller's own tools as a server of the agent's: on the gateway's listener, with the run's token."""

import msgspec

from inspan.contracts.driver import Endpoint
from inspan.contracts.tool_grants import is_unrestricted
from inspan.protocol.task import McpServer, Task

NAME = "inspan"


def add_tool_server(task: Task, endpoint: Endpoint) -> Task:
    """The task as the agent is started with it: with one server more, whose tools it may use in every mode."""
    url = endpoint.url.partition("/run/")[0]
    server = McpServer(url=f"{url}/mcp", headers={"Authorization": f"Bearer {endpoint.token}"})
    allowed = task.allowed_tools
    if not is_unrestricted(task):
        allowed = (*(allowed or ()), *(f"mcp__{NAME}__{tool.name}" for tool in task.tools))
    return msgspec.structs.replace(task, mcp_servers={**task.mcp_servers, NAME: server}, allowed_tools=allowed)
