"""Servers of tools: found, used as the mode allows, given their secrets, and missed loudly when they fail."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from inspan.testing import tool_server
from tests.house import Finished, House

from .ground import calls, run, say, use
from .program import in_python
from .proof import DONE, End, prove
from .styles import CLASSIC, CLAUDE, CODE_MODE, PER_CALL, Style, each_agent, each_style
from .web_server import WebServer

# As each agent names the tool `echo` of the server `tool-box` to its model, and in its events.
ECHO = {CLAUDE: "mcp__tool-box__echo", CODE_MODE: "mcp__tool_box__echo", CLASSIC: "mcp__tool_box__echo"}
TOLD = {CLAUDE: "mcp__tool-box__{}", CODE_MODE: "tool-box.{}", CLASSIC: "tool-box.{}"}
TOKEN = "srv-Wq8Zt3Kx6Lm1Vb5Ny9"
BEARER = "web-Ha4Jd7Pf2Rc0Gs6Ue1"
ENVIRONMENT = End(outcome="failed", reason="environment", code=1)
# How long a server may take, where nobody wants to wait for it: by each agent's own setting.
IMPATIENT = {
    CLAUDE: ("--env", "MCP_TIMEOUT=1000"),
    CODE_MODE: ("--option", "-c", "--option", "mcp_servers.tool-box.startup_timeout_sec=1"),
}


@each_style
def test_a_tool_of_a_server_is_used_and_told(house: House, style: Style) -> None:
    fail = ECHO[style].replace("echo", "fail")
    scenario = calls(
        use(ECHO[style], text="hello"),
        use(fail, expect="echo: hello", text="no"),
        say("Done.", expect="refused: no"),
    )
    done = _run(house, style, scenario, _program(house, "works"))
    prove(house, done.run_id, end=DONE, usage=PER_CALL + PER_CALL + PER_CALL)
    echo, failed = TOLD[style].format("echo"), TOLD[style].format("fail")
    assert [(event["name"], event["input"]) for event in done.of("tool_started")] == [
        (echo, {"text": "hello"}),
        (failed, {"text": "no"}),
    ]
    assert [(event["name"], event["output"]) for event in done.of("tool_completed")] == [(echo, "echo: hello")]
    # One agent adds advice of its own behind it.
    assert [(event["name"], event["output"].split("\n")[0]) for event in done.of("tool_failed")] == [
        (failed, "refused: no")
    ]
    assert done.ended.get("denied", []) == []


@each_style
def test_a_server_on_the_web_is_used(house: House, style: Style) -> None:
    scenario = calls(use(ECHO[style], text="hello"), say("Done.", expect="echo: hello"))
    with WebServer() as server:
        done = _run(house, style, scenario, server.url)
    assert done.verdict == ("completed", "done", 0), done.stderr


@each_style
@pytest.mark.parametrize(
    ("allowed", "may"),
    [
        pytest.param((), False, id="nothing"),
        pytest.param(("mcp__tool-box",), True, id="server"),
        pytest.param(("mcp__tool-box__echo",), True, id="tool"),
        pytest.param(("mcp__tool-box__fail", "mcp__tool-boxes", "mcp__tool"), False, id="others"),
    ],
)
def test_a_review_uses_only_the_servers_that_it_was_allowed(
    house: House, style: Style, allowed: tuple[str, ...], may: bool
) -> None:
    scenario = calls(use(ECHO[style], text="hello"), say("Done.", expect="echo: hello" if may else ""))
    words = [word for tool in allowed for word in ("--allow-tool", tool)]
    done = _run(house, style, scenario, _program(house, "works"), "--mode", "review", *words)
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert [event["output"] for event in done.of("tool_completed")] == (["echo: hello"] if may else [])
    if style is not CODE_MODE or allowed == ():
        # JavaScript that names a tool which is not offered is told to the model alone.
        assert len(done.ended.get("denied", [])) == (0 if may else 1)


@each_agent
def test_secrets_reach_their_server_and_nobody_else(house: House, style: Style) -> None:
    command = _words(house, "works")
    with WebServer() as web:
        servers: dict[str, Any] = {
            "tool-box": {
                "command": command[0],
                "args": command[1:],
                "env": {"API_TOKEN": TOKEN, "PATH": f"/own/path:{os.environ['PATH']}", "COLOUR": 'it\'s "$blue"'},
            },
            "other-box": {"command": command[0], "args": [*command[1:3], *_second(house)], "env": {"API_TOKEN": "two"}},
            "web": {"url": web.url, "headers": {"Authorization": f"Bearer {BEARER}", "X-Colour": "green one"}},
        }
        scenario = calls(
            use(ECHO[style], text="hello"),
            run("env", expect="echo: hello"),
            say("Done."),
        )
        result = in_python(house, style.agent, "exec", scenario, mcp_servers=servers)
    assert (result["outcome"], result["reason"]) == ("completed", "done"), result["error"]
    seen = json.loads((house.work / "seen.json").read_text())
    assert (seen["API_TOKEN"], seen["COLOUR"]) == (TOKEN, 'it\'s "$blue"')
    assert seen["PATH"].startswith("/own/path:")
    assert json.loads((house.work / "second.json").read_text())["API_TOKEN"] == "two"
    assert {(head["authorization"], head["x-colour"]) for head in web.headers} == {(f"Bearer {BEARER}", "green one")}
    for path in Path(result["folder"]).rglob("*"):
        held = path.read_bytes() if path.is_file() else b""
        assert (TOKEN.encode() in held, BEARER.encode() in held) == (False, False), path
    [printed] = [event["output"] for event in house.events() if event["kind"] == "tool_completed" and _is_shell(event)]
    assert "[REDACTED:API_TOKEN]" in printed
    assert "PATH=/own/path:" not in printed


@pytest.mark.parametrize("way", ["exits", "babbles", "hangs", "missing", "refused"])
def test_an_agent_that_works_without_a_failed_server_says_so(house: House, way: str) -> None:
    scenario = calls(use(ECHO[CLAUDE], text="hello"), say("Done.", expect="No such tool available"))
    done = _run(house, CLAUDE, scenario, _broken(house, way), *IMPATIENT[CLAUDE])
    prove(house, done.run_id, end=DONE, usage=PER_CALL + PER_CALL)
    assert [event["name"] for event in done.of("mcp_server_failed")] == ["tool-box"]
    assert done.ended["denied"] == [ECHO[CLAUDE]]


@pytest.mark.parametrize("way", ["exits", "babbles", "hangs", "missing", "refused"])
def test_an_agent_that_needs_its_servers_fails_and_names_the_one(house: House, way: str) -> None:
    scenario = "[[call]]\nsay = 'never'\nrepeat = 'always'\n"
    done = _run(house, CODE_MODE, scenario, _broken(house, way), *IMPATIENT[CODE_MODE])
    ended = prove(house, done.run_id, end=ENVIRONMENT)
    assert ended.message.startswith("the server of tools tool-box could not be started: ")
    [failed] = done.of("mcp_server_failed")
    assert failed["name"] == "tool-box"
    assert failed["message"] in ended.message
    assert ended.model_calls == 0


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ("tool-box", "--mcp 'tool-box': no NAME=VALUE."),
        ("tool-box=", "--mcp 'tool-box=': there is no command."),
        ("tool-box='", '--mcp "tool-box=\'": No closing quotation.'),
        ("tool.box=true", "mcp_servers 'tool.box': no name of a server."),
        ("tool__box=true", "mcp_servers 'tool__box': no name of a server."),
    ],
)
def test_what_is_no_server_is_refused_before_anything_starts(house: House, given: str, field: str) -> None:
    model = house.scenario(calls(say("Done.")))
    done = house.inspan("run", "do it", "-a", "codex", "--mcp", given, "--model-from", model)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"inspan: {field}\n")
    assert not house.state.exists()


def _run(house: House, style: Style, scenario: str, server: str, *more: str) -> Finished:
    return house.run(style.agent, scenario, *style.arguments, "--mcp", f"tool-box={server}", *more)


def _program(house: House, behaviour: str) -> str:
    return " ".join(_words(house, behaviour))


def _words(house: House, behaviour: str) -> list[str]:
    """The command line of a server; all of it lies in the working folder, for a box has a /tmp of its own."""
    script = house.work / "server.py"
    shutil.copy(tool_server.__file__, script)
    return [os.path.realpath(sys.executable), "-IS", str(script), str(house.work / "seen.json"), behaviour]


def _second(house: House) -> list[str]:
    return [str(house.work / "second.json"), "works"]


def _broken(house: House, way: str) -> str:
    others = {"missing": "/no/such/server --now", "refused": "http://127.0.0.1:9/mcp"}
    return others.get(way) or _program(house, way)


def _is_shell(event: dict[str, Any]) -> bool:
    return event["name"] in ("Bash", "shell")
