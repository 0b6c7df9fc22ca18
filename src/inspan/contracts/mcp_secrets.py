"""Servers of tools without their secrets: what may be one goes by a variable, which no process list shows."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from inspan.protocol.task import McpServer

_MASKED = re.compile(r"\$\{(INSPAN_MCP_\w+)\}")


class MaskedServers(msgspec.Struct, frozen=True, kw_only=True):
    """Servers whose `env` and `headers` hold names of variables, and these `variables`, for the agent's environment.

    An argument or an address that holds a secret is a variable as most programs write it: `${NAME}`.
    """

    servers: Mapping[str, McpServer]
    variables: Mapping[str, str]


def mask_mcp_secrets(servers: Mapping[str, McpServer], secrets: Sequence[str] = ()) -> MaskedServers:
    """Every value under a name of its own, so that two servers may call theirs the same."""
    variables: dict[str, str] = {}

    def enter(value: str) -> str:
        name = f"INSPAN_MCP_{len(variables)}"
        variables[name] = value
        return name

    def mask(values: Mapping[str, str]) -> dict[str, str]:
        return {key: enter(value) for key, value in values.items()}

    def hide(word: str) -> str:
        return f"${{{enter(word)}}}" if holds_secret(word, secrets) else word

    hidden = {
        name: msgspec.structs.replace(
            server,
            env=mask(server.env),
            headers=mask(server.headers),
            args=tuple(map(hide, server.args)),
            url=hide(server.url),
        )
        for name, server in servers.items()
    }
    return MaskedServers(servers=hidden, variables=variables)


def holds_secret(word: str, secrets: Sequence[str]) -> bool:
    return any(secret in word for secret in secrets)


def find_variable(word: str) -> str:
    """The variable that stands for this word; empty where it stands for itself."""
    found = _MASKED.fullmatch(word)
    return found[1] if found else ""


def wrap_in_shell(server: McpServer) -> tuple[str, tuple[str, ...]]:
    """The command line of a veiled server, for a program that puts no variables in: a shell does, and becomes it."""
    own = "".join(f'export {name}="${variable}"; ' for name, variable in server.env.items())
    hidden = any(map(find_variable, server.args))
    if not own and not hidden:
        return server.command, server.args
    words = [f'"{word}"' if find_variable(word) else f'"${{{place}}}"' for place, word in enumerate(server.args, 1)]
    script = f'{own}exec "$0" {" ".join(words)}' if hidden else f'{own}exec "$0" "$@"'
    return "/bin/sh", ("-c", script, server.command, *server.args)


def to_placeholders(names: Mapping[str, str]) -> dict[str, str]:
    """The same with each variable as most programs write it: `${NAME}`, where they put its value in."""
    return {key: f"${{{variable}}}" for key, variable in names.items()}
