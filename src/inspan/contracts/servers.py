"""Servers of tools without their secrets: what may be one goes by a variable, which no process list shows."""

from collections.abc import Mapping

import msgspec

from inspan.protocol.task import McpServer


class Veiled(msgspec.Struct, frozen=True, kw_only=True):
    """Servers whose `env` and `headers` hold names of variables, and these `variables`, for the agent's environment."""

    servers: Mapping[str, McpServer]
    variables: Mapping[str, str]


def veiled(servers: Mapping[str, McpServer]) -> Veiled:
    """Every value under a name of its own, so that two servers may call theirs the same."""
    variables: dict[str, str] = {}

    def veil(values: Mapping[str, str]) -> dict[str, str]:
        names: dict[str, str] = {}
        for key, value in values.items():
            names[key] = f"INSPAN_MCP_{len(variables)}"
            variables[names[key]] = value
        return names

    hidden = {
        name: msgspec.structs.replace(server, env=veil(server.env), headers=veil(server.headers))
        for name, server in servers.items()
    }
    return Veiled(servers=hidden, variables=variables)


def expanded(names: Mapping[str, str]) -> dict[str, str]:
    """The same with each variable as most programs write it: `${NAME}`, where they put its value in."""
    return {key: f"${{{variable}}}" for key, variable in names.items()}
