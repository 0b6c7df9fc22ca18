"""Servers of tools: found, used as the mode allows, given their secrets, and missed loudly when they fail."""

import json
import os
import shutil
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from inspan.testing import tool_server
from tests.cli_env import CliEnv, FinishedRun

from .protected_folders import build_scenario, run_step, say_step, use_step
from .python_program import run_in_python
from .run_checks import DONE, End, check_end
from .styles import CLASSIC, CLAUDE, CODE_MODE, PER_CALL, Style, each_agent, each_style
from .web_server import WebServer

# As each agent names the tool `echo` of the server `tool-box` to its model, and in its events.
ECHO = {CLAUDE: "mcp__tool-box__echo", CODE_MODE: "mcp__tool_box__echo", CLASSIC: "mcp__tool_box__echo"}
TOLD = {CLAUDE: "mcp__tool-box__{}", CODE_MODE: "tool-box.{}", CLASSIC: "tool-box.{}"}
TOKEN = "srv-Wq8Zt3Kx6Lm1Vb5Ny9"
BEARER = "web-Ha4Jd7Pf2Rc0Gs6Ue1"
SECOND = "sec-Xk2Vn8Qp5Tz3Lw7Mb0"
PASSWORD = "pwd-Yr6Fj1Hs9Dc4Ga8Ek5"
ENVIRONMENT = End(outcome="failed", reason="environment", code=1)
# How long a server may take, where nobody wants to wait for it: by each agent's own setting.
IMPATIENT = {
    CLAUDE: ("--env", "MCP_TIMEOUT=1000"),
    CODE_MODE: ("--option", "-c", "--option", "mcp_servers.tool-box.startup_timeout_sec=1"),
}


@each_style
def test_a_tool_of_a_server_is_used_and_told(cli_env: CliEnv, style: Style) -> None:
    fail = ECHO[style].replace("echo", "fail")
    scenario = build_scenario(
        use_step(ECHO[style], text="hello"),
        use_step(fail, expect="echo: hello", text="no"),
        say_step("Done.", expect="refused: no"),
    )
    done = _run(cli_env, style, scenario, _program(cli_env, "works"))
    check_end(cli_env, done.run_id, end=DONE, usage=PER_CALL + PER_CALL + PER_CALL)
    echo, failed = TOLD[style].format("echo"), TOLD[style].format("fail")
    assert [(event["name"], event["input"]) for event in done.select_events("tool_started")] == [
        (echo, {"text": "hello"}),
        (failed, {"text": "no"}),
    ]
    assert [(event["name"], event["output"]) for event in done.select_events("tool_completed")] == [
        (echo, "echo: hello")
    ]
    # One agent adds advice of its own behind it.
    assert [(event["name"], event["output"].split("\n")[0]) for event in done.select_events("tool_failed")] == [
        (failed, "refused: no")
    ]
    assert done.ended.get("denied", []) == []


@each_style
def test_a_server_on_the_web_is_used(cli_env: CliEnv, style: Style) -> None:
    scenario = build_scenario(use_step(ECHO[style], text="hello"), say_step("Done.", expect="echo: hello"))
    with WebServer() as server:
        done = _run(cli_env, style, scenario, server.url)
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
    cli_env: CliEnv, style: Style, allowed: tuple[str, ...], may: bool
) -> None:
    scenario = build_scenario(
        use_step(ECHO[style], text="hello"), say_step("Done.", expect="echo: hello" if may else "")
    )
    words = [word for tool in allowed for word in ("--allow-tool", tool)]
    done = _run(cli_env, style, scenario, _program(cli_env, "works"), "--mode", "review", *words)
    assert done.verdict == ("completed", "done", 0), done.stderr
    assert [event["output"] for event in done.select_events("tool_completed")] == (["echo: hello"] if may else [])
    if style is not CODE_MODE or allowed == ():
        # JavaScript that names a tool which is not offered is told to the model alone.
        assert len(done.ended.get("denied", [])) == (0 if may else 1)


@each_agent
def test_secrets_reach_their_server_and_nobody_else(cli_env: CliEnv, style: Style) -> None:
    command = _words(cli_env, "works")
    with WebServer() as web:
        servers: dict[str, Any] = {
            "tool-box": {
                "command": command[0],
                "args": command[1:],
                "env": {"API_TOKEN": TOKEN, "PATH": f"/own/path:{os.environ['PATH']}", "COLOUR": 'it\'s "$blue"'},
            },
            "other-box": {
                "command": command[0],
                "args": [*command[1:3], *_second(cli_env)],
                "env": {"API_TOKEN": "two"},
            },
            "web": {"url": web.url, "headers": {"Authorization": f"Bearer {BEARER}", "X-Colour": "green one"}},
        }
        scenario = build_scenario(
            use_step(ECHO[style], text="hello"),
            run_step("env", expect="echo: hello"),
            say_step("Done."),
        )
        result = run_in_python(cli_env, style.agent, "exec", scenario, mcp_servers=servers)
    assert (result["outcome"], result["reason"]) == ("completed", "done"), result["error"]
    seen = json.loads((cli_env.work / "seen.json").read_text())
    assert (seen["API_TOKEN"], seen["COLOUR"]) == (TOKEN, 'it\'s "$blue"')
    assert seen["PATH"].startswith("/own/path:")
    assert json.loads((cli_env.work / "second.json").read_text())["API_TOKEN"] == "two"
    assert {(head["authorization"], head["x-colour"]) for head in web.headers} == {(f"Bearer {BEARER}", "green one")}
    for path in Path(result["folder"]).rglob("*"):
        held = path.read_bytes() if path.is_file() else b""
        assert (TOKEN.encode() in held, BEARER.encode() in held) == (False, False), path
    [printed] = [
        event["output"] for event in cli_env.events() if event["kind"] == "tool_completed" and _is_shell(event)
    ]
    assert "[REDACTED:API_TOKEN]" in printed
    assert "PATH=/own/path:" not in printed


@each_agent
def test_secrets_in_words_and_addresses_stand_in_no_file_and_on_no_command_line_of_the_agents(
    cli_env: CliEnv, style: Style
) -> None:
    # Its own command line shows a server's words, whoever starts it: only the agent's is looked at.
    look = "for each in /proc/[0-9]*; do tr '\\0' ' ' < $each/cmdline; echo; done > lines.txt"
    wrapper = cli_env.work / "server.sh"
    wrapper.write_text(f'printf "%s\\n" "$@" > words.txt; exec {_program(cli_env, "works")}\n')
    words = ["--api-key", TOKEN, f"--token={SECOND}", "a b", "$HOME"]
    with WebServer() as web:
        address = web.url.replace("://", f"://me:{PASSWORD}@")
        # One agent has no way to be told an address but by its command line.
        query = "" if style.agent == "codex" else f"?api_key={BEARER}"
        servers: dict[str, Any] = {
            "tool-box": {"command": "/bin/sh", "args": [str(wrapper), *words]},
            "web": {"url": f"{address}{query}"},
        }
        scenario = build_scenario(
            use_step(ECHO[style], text="hello"), run_step(look, expect="echo: hello"), say_step("Done.")
        )
        result = run_in_python(cli_env, style.agent, "exec", scenario, mcp_servers=servers)
    assert (result["outcome"], result["reason"]) == ("completed", "done"), result["error"]
    lines = (cli_env.work / "lines.txt").read_text().splitlines()
    assert (cli_env.work / "words.txt").read_text().splitlines() == words
    basic = b64encode(f"me:{PASSWORD}".encode()).decode()
    assert {head.get("authorization") for head in web.headers} == {f"Basic {basic}"}
    program = os.path.realpath(cli_env.env[f"INSPAN_{style.agent.upper()}_BIN"])
    own = [line for line in lines if program in line]
    assert own
    places = {str(path): path.read_bytes() for path in Path(result["folder"]).rglob("*") if path.is_file()}
    places["command line"] = "".join(own).encode()
    secrets = (TOKEN, SECOND, PASSWORD, BEARER, basic)
    assert [(name, secret) for name, held in places.items() for secret in secrets if secret.encode() in held] == []


@pytest.mark.parametrize("way", ["exits", "babbles", "hangs", "missing", "refused"])
def test_an_agent_that_works_without_a_failed_server_says_so(cli_env: CliEnv, way: str) -> None:
    scenario = build_scenario(use_step(ECHO[CLAUDE], text="hello"), say_step("Done.", expect="No such tool available"))
    done = _run(cli_env, CLAUDE, scenario, _broken_server(cli_env, way), *IMPATIENT[CLAUDE])
    check_end(cli_env, done.run_id, end=DONE, usage=PER_CALL + PER_CALL)
    assert [event["name"] for event in done.select_events("mcp_server_failed")] == ["tool-box"]
    assert done.ended["denied"] == [ECHO[CLAUDE]]


@pytest.mark.parametrize("way", ["exits", "babbles", "hangs", "missing", "refused"])
def test_an_agent_that_needs_its_servers_fails_and_names_the_one(cli_env: CliEnv, way: str) -> None:
    scenario = "[[call]]\nsay = 'never'\nrepeat = 'always'\n"
    done = _run(cli_env, CODE_MODE, scenario, _broken_server(cli_env, way), *IMPATIENT[CODE_MODE])
    ended = check_end(cli_env, done.run_id, end=ENVIRONMENT)
    assert ended.message.startswith("the MCP server tool-box could not be started: ")
    [failed] = done.select_events("mcp_server_failed")
    assert failed["name"] == "tool-box"
    assert failed["message"] in ended.message
    assert ended.model_calls == 0


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ("tool-box", "--mcp 'tool-box': no NAME=VALUE."),
        ("tool-box=", "--mcp 'tool-box=': there is no command."),
        ("tool-box='", '--mcp "tool-box=\'": No closing quotation.'),
        ("tool.box=true", "mcp_servers 'tool.box': not a valid server name."),
        ("tool__box=true", "mcp_servers 'tool__box': not a valid server name."),
    ],
)
def test_what_is_no_server_is_refused_before_anything_starts(cli_env: CliEnv, given: str, field: str) -> None:
    model = cli_env.scenario(build_scenario(say_step("Done.")))
    done = cli_env.inspan("run", "do it", "-a", "codex", "--mcp", given, "--model-from", model)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"inspan: {field}\n")
    assert not cli_env.state.exists()


def _run(cli_env: CliEnv, style: Style, scenario: str, server: str, *more: str) -> FinishedRun:
    return cli_env.run(style.agent, scenario, *style.arguments, "--mcp", f"tool-box={server}", *more)


def _program(cli_env: CliEnv, behaviour: str) -> str:
    return " ".join(_words(cli_env, behaviour))


def _words(cli_env: CliEnv, behaviour: str) -> list[str]:
    """The command line of a server; all of it lies in the working folder, for a box has a /tmp of its own."""
    script = cli_env.work / "server.py"
    shutil.copy(tool_server.__file__, script)
    return [os.path.realpath(sys.executable), "-IS", str(script), str(cli_env.work / "seen.json"), behaviour]


def _second(cli_env: CliEnv) -> list[str]:
    return [str(cli_env.work / "second.json"), "works"]


def _broken_server(cli_env: CliEnv, way: str) -> str:
    others = {"missing": "/no/such/server --now", "refused": "http://127.0.0.1:9/mcp"}
    return others.get(way) or _program(cli_env, way)


def _is_shell(event: dict[str, Any]) -> bool:
    return event["name"] in ("Bash", "shell")
