"""A program's own functions for agents that take MCP servers on stdin and stdout only."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import inspan
from inspan import ToolContext
from inspan.agents.presets import driver_for_task
from inspan.contracts.driver import Driver, Endpoint
from inspan.planning.tool_server import build_tool_bridge
from inspan.protocol.events import ToolRequested
from inspan.protocol.task import Task
from tests.cli_env import WAIT_S
from tests.running.open_session import make_puppet

from .run_env import RunEnv

Fake = Callable[[str, str], str]

_SAYS = '[[call]]\nsay = "Good."\nrepeat = "always"\n'
_ADDS = """
    [[call]]
    use = {tool = "add", server = "inspan", input = {a = 2, b = 40}}
    [[call]]
    expect = "42"
    say = "Forty-two."
"""
# An agent of the Agent Client Protocol that does not say that it takes servers over HTTP, and uses the one it got.
_USES_IT = """
import subprocess
def turn(text):
    (server,) = opened["params"]["mcpServers"]
    env = {**os.environ, **{each["name"]: each["value"] for each in server["env"]}}
    token = env["INSPAN_TOOLS_TOKEN"]
    argv = [server["command"], *server["args"]]
    bridge = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    def send(method, id=None, **params):
        message = {"jsonrpc": "2.0", "method": method, "params": params, **({"id": id} if id else {})}
        bridge.stdin.write(json.dumps(message).encode() + b"\\n")
        bridge.stdin.flush()
    def read(): return json.loads(bridge.stdout.readline())
    send("initialize", 1, protocolVersion="2025-06-18")
    name = read()["result"]["serverInfo"]["name"]
    send("notifications/initialized")
    send("tools/list", 2)
    tools = sorted(tool["name"] for tool in read()["result"]["tools"])
    send("tools/call", 3, name="count", arguments={}, _meta={"progressToken": "p"})
    steps = [read()["params"]["progress"]]
    counted = read()["result"]["content"][0]["text"]
    send("tools/call", 4, name="wait", arguments={}, _meta={"progressToken": "q"})
    read()  # It is at it.
    send("tools/call", 5, name="add", arguments={"a": 1, "b": 2})
    added = read()  # Beside the one that waits.
    send("notifications/cancelled", requestId=4)
    cancelled = read()
    bridge.stdin.write(b"this is no JSON\\n")
    bridge.stdin.flush()
    odd = read()["error"]["code"]
    bridge.stdin.close()
    code = bridge.wait(30)
    found = {"name": name, "tools": tools, "steps": steps, "counted": counted, "code": code, "odd": odd}
    found["added"] = [added["id"], added["result"]["content"][0]["text"]]
    found["cancelled"] = [cancelled["id"], cancelled["result"]["isError"]]
    found["hidden"] = not any(token in word for word in argv)
    say(json.dumps(found))
"""


@inspan.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@inspan.tool
async def count(context: ToolContext) -> str:
    """Counts to two."""
    await context.report_progress(1)
    return "two"


@inspan.tool
async def wait(context: ToolContext) -> str:
    """Waits for ever."""
    await context.report_progress(1)
    await asyncio.Event().wait()
    return "never"


def test_an_agent_that_takes_none_over_http_gets_a_program_between(agents: RunEnv, fake: Fake) -> None:
    runner = inspan.create_agent_runner(
        f"acp:{make_puppet(fake, _USES_IT)}", cwd=agents.work, profile="user", model_from=agents.scenario(_SAYS)
    )
    result = asyncio.run(runner.exec("use it", tools=[add, count, wait]))
    assert json.loads(result.message) == {
        "name": "inspan",
        "tools": ["add", "count", "wait"],
        "steps": [1],
        "counted": "two",
        "added": [5, "3"],
        "cancelled": [4, True],
        "odd": -32600,
        "code": 0,
        "hidden": True,
    }, result.error


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_real_agent_calls_a_function_by_it(agents: RunEnv, monkeypatch: pytest.MonkeyPatch, agent: str) -> None:
    def without_http(task: Task) -> Driver:
        driver = driver_for_task(task)
        able = msgspec.structs.replace(driver.capabilities, mcp=("stdio",))
        return msgspec.structs.replace(driver, capabilities=able)

    monkeypatch.setattr("inspan.planning.resolve.driver_for_task", without_http)
    scenario = agents.scenario(_ADDS)
    runner = inspan.create_agent_runner(agent, cwd=agents.work, profile="clean", model_from=scenario, tools=[add])
    result = asyncio.run(runner.review("add them"))
    assert (result.message, result.reason) == ("Forty-two.", "done"), result.error
    (requested,) = [event for event in agents.events() if isinstance(event, ToolRequested)]
    assert requested.input == {"a": 2, "b": 40}


def _start_bridge(url: str) -> "subprocess.Popen[bytes]":
    server = build_tool_bridge(Endpoint(url=url, token="t"))
    argv = [server.command, *server.args]
    return subprocess.Popen(argv, env=dict(server.env), stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_a_gateway_that_is_gone_is_an_error_and_no_silence() -> None:
    bridge = _start_bridge("http://127.0.0.1:9")
    given = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n{"jsonrpc":"2.0","id":7,"method":"ping"}\n'
    assert bridge.stdin and bridge.stdout
    bridge.stdin.write(given)
    bridge.stdin.flush()
    answer: dict[str, Any] = json.loads(bridge.stdout.readline())
    assert (answer["id"], "cannot be reached" in answer["error"]["message"]) == (7, True)
    bridge.communicate(timeout=WAIT_S)
    assert bridge.returncode == 0


def test_it_loads_nothing_of_ours() -> None:
    server = build_tool_bridge(Endpoint(url="http://127.0.0.1:9", token="t"))
    listing = f"import runpy, sys; runpy.run_path({server.args[-1]!r}); print('inspan' in sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", listing], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
