"""An agent of the Agent Client Protocol that asks and calls a tool again and again, and tells how long each took.

Run as a program, with the standard library alone; its answer is the times, as JSON.
"""

import http.client
import json
import sys
import time
import urllib.parse
from typing import Any

_TIMES = 200


def put(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def get() -> Any:
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    return json.loads(line)


def ask(number: int) -> float:
    """How long one permission took, from the question's last byte to the answer's."""
    call = {"toolCallId": f"call-{number}", "title": "ls", "kind": "execute", "rawInput": {"command": "ls"}}
    options = [{"optionId": "allow", "name": "allow", "kind": "allow_once"}]
    started = time.perf_counter()
    params = {"sessionId": "s", "toolCall": call, "options": options}
    put(id=f"ask-{number}", method="session/request_permission", params=params)
    get()
    return time.perf_counter() - started


def call_tool(connection: http.client.HTTPConnection, headers: dict[str, str], number: int) -> float:
    """How long one call of the caller's function took."""
    params = {"name": "add", "arguments": {"a": number, "b": 1}}
    body = json.dumps({"jsonrpc": "2.0", "id": number + 1, "method": "tools/call", "params": params})
    started = time.perf_counter()
    connection.request("POST", "/mcp", body, headers)
    answer = json.loads(connection.getresponse().read())
    if answer["result"]["content"][0]["text"] != str(number + 1):
        raise RuntimeError(f"{answer}")
    return time.perf_counter() - started


def main() -> None:
    put(id=get()["id"], result={"protocolVersion": 1, "agentCapabilities": {"mcpCapabilities": {"http": True}}})
    opened = get()
    put(id=opened["id"], result={"sessionId": "s"})
    servers = opened["params"]["mcpServers"]
    while True:
        message = get()
        if message.get("method") != "session/prompt":
            continue
        text = message["params"]["prompt"][0]["text"]
        times = [ask(number) for number in range(_TIMES)] if text == "ask" else []
        if text == "call":
            server = servers[0]
            headers = {each["name"]: each["value"] for each in server["headers"]}
            connection = http.client.HTTPConnection(urllib.parse.urlsplit(str(server["url"])).netloc)
            times = [call_tool(connection, headers, number) for number in range(_TIMES)]
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": json.dumps(times)}}
        put(method="session/update", params={"sessionId": "s", "update": chunk})
        put(id=message["id"], result={"stopReason": "end_turn"})


if __name__ == "__main__":
    main()
