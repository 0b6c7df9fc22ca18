"""Values of servers go by variables: every one under a name of its own, and nothing else is changed."""

from inspan.contracts.servers import Veiled, expanded, veiled
from inspan.protocol.task import McpServer


def test_every_value_gets_a_variable_of_its_own() -> None:
    servers = {
        "one": McpServer(command="run", args=("x",), env={"TOKEN": "a", "HOME": "/h"}),
        "two": McpServer(command="run", env={"TOKEN": "b"}),
        "web": McpServer(url="https://x", headers={"Authorization": "a"}),
    }
    assert veiled(servers) == Veiled(
        servers={
            "one": McpServer(command="run", args=("x",), env={"TOKEN": "INSPAN_MCP_0", "HOME": "INSPAN_MCP_1"}),
            "two": McpServer(command="run", env={"TOKEN": "INSPAN_MCP_2"}),
            "web": McpServer(url="https://x", headers={"Authorization": "INSPAN_MCP_3"}),
        },
        variables={"INSPAN_MCP_0": "a", "INSPAN_MCP_1": "/h", "INSPAN_MCP_2": "b", "INSPAN_MCP_3": "a"},
    )


def test_servers_without_values_are_left_as_they_are() -> None:
    servers = {"one": McpServer(command="run"), "web": McpServer(url="https://x")}
    assert veiled(servers) == Veiled(servers=servers, variables={})


def test_a_variable_is_written_as_programs_expand_it() -> None:
    assert expanded({"TOKEN": "INSPAN_MCP_0"}) == {"TOKEN": "${INSPAN_MCP_0}"}
