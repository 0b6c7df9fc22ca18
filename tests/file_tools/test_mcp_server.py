"""The same operations as tools of an MCP server: what a client says and hears, line by line."""

import json
import subprocess
from typing import Any

import pytest

from inspan.file_tools.mcp_server import serve
from inspan.file_tools.root import Root
from tests.cli_env import WAIT_S, CliEnv

from .conftest import SECRET, Ground

Json = dict[str, Any]


def request(number: int, method: str, **params: object) -> Json:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def use(number: int, name: str, **arguments: object) -> Json:
    return request(number, "tools/call", name=name, arguments=arguments)


def converse(root: Root, *messages: Json | bytes, chunk: int = 1 << 16) -> list[Json]:
    """All answers, however the messages are cut on their way."""
    lines = b"".join(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in messages)
    chunks = [lines[place : place + chunk] for place in range(0, len(lines), chunk)]
    answers: list[bytes] = []
    serve(root, read=lambda: chunks.pop(0) if chunks else b"", write=answers.append)
    return [json.loads(answer) for answer in answers]


@pytest.mark.parametrize("chunk", [1, 7, 1 << 16])
def test_a_client_is_told_who_answers_and_which_tools_there_are(root: Root, chunk: int) -> None:
    first, second, third = converse(
        root,
        request(1, "initialize", protocolVersion="2025-03-26", capabilities={}),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        b"\n",
        request(2, "tools/list"),
        request(3, "ping"),
        chunk=chunk,
    )
    assert first["result"]["protocolVersion"] == "2025-03-26"
    assert first["result"]["serverInfo"]["name"] == "inspan"
    tools = {tool["name"]: tool for tool in second["result"]["tools"]}
    assert list(tools) == ["read", "write", "edit", "list", "search", "stat"]
    assert tools["edit"]["inputSchema"]["required"] == ["path", "old", "new"]
    assert tools["edit"]["inputSchema"]["properties"]["all"]["type"] == "boolean"
    assert third == {"jsonrpc": "2.0", "id": 3, "result": {}}


def test_a_read_only_server_has_no_tools_that_write(root: Root) -> None:
    root.read_only = True
    listed, called = converse(root, request(1, "tools/list"), use(2, "write", path="a", content="x"))
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["read", "list", "search", "stat"]
    assert called["error"]["message"] == "There is no tool 'write'; there are: read, list, search, stat."


def test_calls_do_what_the_command_does(root: Root, ground: Ground) -> None:
    answers = converse(
        root,
        use(1, "write", path="a.txt", content="x\u2028one\n"),
        use(2, "edit", path="a.txt", old="one", new="two"),
        use(3, "read", path="a.txt"),
        use(4, "search", pattern="two", glob="a*"),
        use(5, "list", limit=1),
    )
    assert [answer["result"]["isError"] for answer in answers] == [False] * 5
    texts = [answer["result"]["content"][0]["text"] for answer in answers]
    assert texts[:3] == ["created a.txt (8 bytes)\n", "edited a.txt (1 place)\n", "x\u2028two\n"]
    assert texts[3] == "a.txt:1: x\\u2028two\n"
    assert texts[4].startswith("a.txt\n\n[Cut after 1 entries")
    assert (ground.inside / "a.txt").read_text() == "x\u2028two\n"


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "../outside/secret.txt"},
        {"path": "none\udcff"},
        {"path": 7},
        {},
        {"path": "kept.txt", "more": 1},
    ],
)
def test_a_call_that_fails_is_told_to_the_model(root: Root, arguments: Json) -> None:
    message = json.dumps(use(1, "read", **arguments)).encode() + b"\n"
    [answer, after] = converse(root, message, request(2, "ping"))
    if "result" in answer:
        assert answer["result"]["isError"] is True
        assert SECRET not in answer["result"]["content"][0]["text"]
    else:
        assert answer["error"]["code"] == -32700  # Half a character is no JSON for a strict reader.
    assert after["result"] == {}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"no json\n", -32700),
        (b"[]\n", -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}\n', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rm"}}\n', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}\n', -32602),
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read", "arguments": [1]}}\n',
            -32602,
        ),
        (b"[" * 100_000 + b"\n", -32700),
    ],
)
def test_what_is_no_request_is_answered_and_the_next_one_too(root: Root, line: bytes, code: int) -> None:
    answer, after = converse(root, line, request(2, "ping"))
    assert answer["error"]["code"] == code
    assert after["result"] == {}


def test_the_command_serves_until_its_input_ends(cli_env: CliEnv) -> None:
    (cli_env.work / "kept.txt").write_text("words\n")
    lines = "".join(json.dumps(each) + "\n" for each in (request(1, "initialize"), use(2, "read", path="kept.txt")))
    done = cli_env.inspan("file-tools", str(cli_env.work), "serve", stdin=lines)
    assert (done.returncode, done.stderr) == (0, "")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers[1]["result"]["content"] == [{"type": "text", "text": "words\n"}]


def test_a_client_that_leaves_ends_the_server(cli_env: CliEnv) -> None:
    with subprocess.Popen(
        cli_env.argv("file-tools", str(cli_env.work), "serve"),
        env=cli_env.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as server:
        assert server.stdin and server.stdout and server.stderr
        server.stdout.close()
        server.stdin.write(json.dumps(request(1, "ping")).encode() + b"\n")
        server.stdin.flush()
        assert server.wait(WAIT_S) == 0
        assert server.stderr.read() == b""
