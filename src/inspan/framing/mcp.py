"""What a server says in the Model Context Protocol: who it is, which tools it has, what came of a call."""

from typing import Any

from inspan import __version__

_PROTOCOL = "2025-06-18"
_Json = dict[str, Any]


def build_initialization(params: _Json) -> _Json:
    """The answer to `initialize`: in the version of the protocol that was asked for."""
    return {
        "protocolVersion": params.get("protocolVersion") or _PROTOCOL,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "inspan", "version": __version__},
    }


def describe_tool(name: str, *, description: str, input_schema: object) -> _Json:
    """A tool in the answer to `tools/list`."""
    return {"name": name, "description": description, "inputSchema": input_schema}


def build_tool_result(text: str, *, failed: bool = False) -> _Json:
    """The answer to `tools/call`; a tool that failed tells it to the model, and is no error of the protocol."""
    return {"content": [{"type": "text", "text": text}], "isError": failed}
