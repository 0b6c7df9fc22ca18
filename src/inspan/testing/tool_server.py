"""A small MCP server on stdin and stdout, run by agents under test as a program: standard library only.

Its first argument is a file for what it gets to see, its second how it behaves: `works`, `exits`, `babbles`, `hangs`.
Without them it works.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]
TOOLS = [
    {
        "name": name,
        "description": f"Does {name}.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    }
    for name in ("echo", "fail")
]


def handle_message(message: Json) -> Json | None:
    """The answer to a request; none to a notification."""
    if "id" not in message:
        return None
    work = _METHODS.get(message["method"])
    if work is None:
        error = {"code": -32601, "message": "no such method"}
        return {"jsonrpc": "2.0", "id": message["id"], "error": error}
    return {"jsonrpc": "2.0", "id": message["id"], "result": work(message.get("params") or {})}


def _on_initialize(params: Json) -> Json:
    return {
        "protocolVersion": params.get("protocolVersion", "2025-03-26"),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "test", "version": "1"},
    }


def _on_tool_call(params: Json) -> Json:
    failed = params["name"] == "fail"
    text = f"{'refused' if failed else 'echo'}: {params['arguments']['text']}"
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def _on_list_tools(_: Json) -> Json:
    return {"tools": TOOLS}


def _on_ping(_: Json) -> Json:
    return {}


_METHODS: dict[str, Callable[[Json], Json]] = {
    "initialize": _on_initialize,
    "tools/list": _on_list_tools,
    "tools/call": _on_tool_call,
    "ping": _on_ping,
}


def main() -> None:
    seen, behaviour = sys.argv[1:] or ("", "works")
    if seen:
        Path(seen).write_text(json.dumps(dict(os.environ)))
    if behaviour == "exits":
        sys.exit("no licence")
    if behaviour == "hangs":
        time.sleep(600)
    for line in sys.stdin:
        reply = "<html>" if behaviour == "babbles" else handle_message(json.loads(line))
        if reply is not None:
            print(reply if isinstance(reply, str) else json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
