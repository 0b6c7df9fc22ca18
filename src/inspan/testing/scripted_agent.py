"""A small agent of our own, run as a script: prompt on stdin, Chat Completions at BASE_URL, event lines on stdout.

It is for demonstrations where no vendor's agent can be had, and for tests. Its lines are our own events, as JSON.
"""

import json
import os
import select
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from typing import Any

_CALL_TIMEOUT_S = 3600.0
_COMMAND_TIMEOUT_S = 600.0
_MAX_CALLS = 50
_TELL_S = 0.1
_TOLD_BYTES = 1000


def _declare_tool(name: str, *fields: str) -> dict[str, Any]:
    properties = {field: {"type": "string"} for field in fields}
    return {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": properties, "required": list(fields)},
        },
    }


_TOOLS = [
    _declare_tool("bash", "command"),
    _declare_tool("write_file", "path", "content"),
    _declare_tool("edit_file", "path", "old", "new"),
]


def main() -> int:
    emit(kind="thread_started", session_id=os.environ["JRUN_ID"], model="scripted")
    emit(kind="turn_started")
    messages: list[dict[str, Any]] = [{"role": "user", "content": sys.stdin.read()}]
    used = {"input": 0, "output": 0, "cache_read": 0, "cache_write": 0, "reasoning": 0}
    for _ in range(_MAX_CALLS):
        try:
            answer = call_model(messages)
        except OSError as error:
            status = getattr(error, "code", None)  # Whoever answers with one can be reached.
            failure = "unknown" if status else "network"
            emit(kind="turn_failed", failure=failure, message=str(error).rstrip(": "), status=status)
            return 1
        add_usage(used, answer.get("usage", {}))
        message = answer["choices"][0]["message"]
        messages.append(message)
        if message.get("content"):
            emit(kind="text_said", text=message["content"])
        calls: list[dict[str, Any]] = message.get("tool_calls") or []
        if not calls:
            emit(kind="turn_completed", usage=used)
            return 0
        messages += [run_tool(call) for call in calls]
    emit(kind="turn_failed", failure="max_turns", message=f"more than {_MAX_CALLS} model calls")
    return 1


def emit(**event: Any) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def call_model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    body = json.dumps({"model": os.environ.get("MODEL", "scripted"), "messages": messages, "tools": _TOOLS})
    request = urllib.request.Request(
        os.environ["BASE_URL"] + "/v1/chat/completions",
        body.encode(),
        {"content-type": "application/json", "authorization": "Bearer " + os.environ["INSPAN_RUN_TOKEN"]},
    )
    # Never through a proxy: the endpoint is on loopback.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=_CALL_TIMEOUT_S) as response:
        return json.load(response)


def add_usage(used: dict[str, int], usage: dict[str, Any]) -> None:
    details: dict[str, Any] = usage.get("prompt_tokens_details") or {}
    cached = int(details.get("cached_tokens") or 0)
    used["input"] += int(usage.get("prompt_tokens") or 0) - cached
    used["cache_read"] += cached
    used["output"] += int(usage.get("completion_tokens") or 0)


def run_tool(call: dict[str, Any]) -> dict[str, Any]:
    """Runs one tool call, tells of it, and gives the message that answers it."""
    name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
    emit(kind="tool_started", id=call["id"], name=name, input=arguments)
    try:
        output, events = _TOOL_FUNCTIONS[name](call["id"], **arguments)
        emit(kind="tool_completed", id=call["id"], name=name, output=output)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        output, events = str(error), []
        emit(kind="tool_failed", id=call["id"], name=name, output=output)
    for event in events:
        emit(**event)
    return {"role": "tool", "tool_call_id": call["id"], "content": output}


def bash(call: str, command: str) -> tuple[str, list[dict[str, Any]]]:
    argv = ["sh", "-c", command]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            output = read_output(call, process)
        except BaseException:
            process.kill()
            raise
    event = {"kind": "command_executed", "id": call, "command": command, "exit_code": process.returncode}
    return output.decode(errors="replace"), [event]


def read_output(call: str, process: "subprocess.Popen[bytes]") -> bytes:
    """All that a command puts out; who watches the run is told its end while the command works."""
    assert process.stdout
    output, told, tells = bytearray(), 0, bool(os.environ.get("PARTIAL"))
    ends_at = time.monotonic() + _COMMAND_TIMEOUT_S
    tell_at = time.monotonic() + _TELL_S
    while True:
        until = tell_at if tells and told < len(output) else ends_at
        if select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
            piece = os.read(process.stdout.fileno(), 65536)
            if not piece:
                return bytes(output)
            output += piece
        now = time.monotonic()
        if now >= ends_at:
            raise subprocess.TimeoutExpired(process.args, _COMMAND_TIMEOUT_S)
        if tells and told < len(output) and now >= tell_at:
            emit(kind="tool_output", id=call, text=output[-_TOLD_BYTES:].decode(errors="replace"))
            told, tell_at = len(output), now + _TELL_S


def write_file(call: str, path: str, content: str) -> tuple[str, list[dict[str, Any]]]:
    change = "modified" if os.path.exists(path) else "added"
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)
    return "written", [{"kind": "file_changed", "id": call, "path": os.path.abspath(path), "change": change}]


def edit_file(call: str, path: str, old: str, new: str) -> tuple[str, list[dict[str, Any]]]:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if text.count(old) != 1:
        raise ValueError(f"{old!r} stands {text.count(old)} times in {path}")
    return write_file(call, path, text.replace(old, new))


_TOOL_FUNCTIONS: dict[str, Callable[..., tuple[str, list[dict[str, Any]]]]] = {
    "bash": bash,
    "write_file": write_file,
    "edit_file": edit_file,
}

if __name__ == "__main__":
    sys.exit(main())
