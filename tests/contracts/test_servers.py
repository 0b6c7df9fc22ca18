"""Values of servers go by variables: every one under a name of its own, and nothing else is changed."""

import subprocess

import pytest

from inspan.contracts.mcp_secrets import MaskedServers, find_variable, mask_mcp_secrets, to_placeholders, wrap_in_shell
from inspan.protocol.task import McpServer


def test_every_value_gets_a_variable_of_its_own() -> None:
    servers = {
        "one": McpServer(command="run", args=("x",), env={"TOKEN": "a", "HOME": "/h"}),
        "two": McpServer(command="run", env={"TOKEN": "b"}),
        "web": McpServer(url="https://x", headers={"Authorization": "a"}),
    }
    assert mask_mcp_secrets(servers) == MaskedServers(
        servers={
            "one": McpServer(command="run", args=("x",), env={"TOKEN": "INSPAN_MCP_0", "HOME": "INSPAN_MCP_1"}),
            "two": McpServer(command="run", env={"TOKEN": "INSPAN_MCP_2"}),
            "web": McpServer(url="https://x", headers={"Authorization": "INSPAN_MCP_3"}),
        },
        variables={"INSPAN_MCP_0": "a", "INSPAN_MCP_1": "/h", "INSPAN_MCP_2": "b", "INSPAN_MCP_3": "a"},
    )


def test_servers_without_values_are_left_as_they_are() -> None:
    servers = {"one": McpServer(command="run"), "web": McpServer(url="https://x")}
    assert mask_mcp_secrets(servers) == MaskedServers(servers=servers, variables={})


def test_a_variable_is_written_as_programs_expand_it() -> None:
    assert to_placeholders({"TOKEN": "INSPAN_MCP_0"}) == {"TOKEN": "${INSPAN_MCP_0}"}


def test_words_and_addresses_that_hold_a_secret_are_variables_and_no_others() -> None:
    server = McpServer(command="run", args=("--key", "s3cret", "--token=s3cret", "${HOME}"), url="https://x?key=s3cret")
    found = mask_mcp_secrets({"one": server}, ("s3cret",))
    assert found.servers["one"].args == ("--key", "${INSPAN_MCP_0}", "${INSPAN_MCP_1}", "${HOME}")
    assert found.servers["one"].url == "${INSPAN_MCP_2}"
    assert found.variables == {
        "INSPAN_MCP_0": "s3cret",
        "INSPAN_MCP_1": "--token=s3cret",
        "INSPAN_MCP_2": "https://x?key=s3cret",
    }
    assert [find_variable(word) for word in found.servers["one"].args] == ["", "INSPAN_MCP_0", "INSPAN_MCP_1", ""]


@pytest.mark.parametrize("env", [{}, {"TOKEN": 'a "b" $c'}], ids=["words", "words and variables"])
def test_a_shell_gives_a_server_its_words_and_variables(env: dict[str, str]) -> None:
    args = ("-c", 'printf "%s\\n" "$TOKEN" "$@"', "x", "one", "s3cret `id`", "a b", "$HOME", "", *map(str, range(9)))
    hidden = mask_mcp_secrets({"one": McpServer(command="/bin/sh", args=args, env=env)}, ("s3cret",))
    command, words = wrap_in_shell(hidden.servers["one"])
    assert "s3cret" not in " ".join(words)
    done = subprocess.run([command, *words], env=dict(hidden.variables), capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [env.get("TOKEN", ""), *args[3:]]


def test_a_server_without_secrets_needs_no_shell() -> None:
    assert wrap_in_shell(McpServer(command="run", args=("x",))) == ("run", ("x",))
