"""What is to be said to an agent in the course of its opening: written by a driver's launch, read by the dialect."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from inspan.contracts.driver import Attachment, LaunchContext
from inspan.protocol.task import McpServer, Task


class SessionSetup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One conversation, before it begins.

    `model`, `modes` (the first that is offered) and `options` (by category or id) are set in the session, which fails
    where they cannot be; a model that the command line or the environment names is not repeated here. `sign_in` are
    ways to authenticate that may be used without a person, in order. `meta` goes along with the new session. `bridges`
    take the place of servers of the same name where the agent takes none over HTTP.
    """

    cwd: str = "/"
    prompt: list[dict[str, Any]] = []
    servers: list[dict[str, Any]] = []
    bridges: list[dict[str, Any]] = []
    folders: list[str] = []
    resume: str = ""
    fork: bool = False
    model: str = ""
    modes: list[str] = []
    options: dict[str, str] = {}
    sign_in: list[str] = []
    meta: dict[str, Any] = {}


def default_setup(
    task: Task,
    context: LaunchContext,
    *,
    model: str = "",
    modes: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    sign_in: Sequence[str] = (),
    meta: Mapping[str, Any] | None = None,
    servers: bool = True,
) -> SessionSetup:
    """The opening of a run: its prompt, its files, its MCP servers, and the session that it goes on with.

    Without `servers` for an agent that is told of them at its start.
    """
    without_tools = not servers or (task.mode == "complete" and not task.allowed_tools)
    return SessionSetup(
        cwd=context.cwd,
        prompt=[{"type": "text", "text": task.prompt}, *map(_to_block, context.attachments)],
        servers=[] if without_tools else [_server_config(name, server) for name, server in task.mcp_servers.items()],
        bridges=[_server_config(name, server) for name, server in context.tool_bridge.items()],
        folders=list(task.extra_dirs),
        resume=context.resume,
        fork=task.fork,
        model=model,
        modes=list(modes),
        options=dict(options or {}),
        sign_in=list(sign_in),
        meta=dict(meta or {}),
    )


def _to_block(attachment: Attachment) -> dict[str, Any]:
    data = base64.b64encode(attachment.data).decode()
    if attachment.media_type.startswith("image/"):
        return {"type": "image", "data": data, "mimeType": attachment.media_type}
    resource = {"uri": f"file://{attachment.path}", "mimeType": attachment.media_type, "blob": data}
    return {"type": "resource", "resource": resource}


def _server_config(name: str, server: McpServer) -> dict[str, Any]:
    if server.url:
        return {"type": "http", "name": name, "url": server.url, "headers": _to_pairs(server.headers)}
    return {"name": name, "command": server.command, "args": list(server.args), "env": _to_pairs(server.env)}


def _to_pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]
