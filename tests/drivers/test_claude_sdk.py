"""Claude Code by its vendor's SDK: the program is started with the options of the channel `rpc`."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest
from claude_agent_sdk import ClaudeAgentOptions
from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

from inspan.agents.select import select_channel
from inspan.contracts.dialect import DialectOutput
from inspan.contracts.driver import Attachment, LaunchContext
from inspan.drivers.claude import DRIVER
from inspan.drivers.claude.rpc import ClaudeRpcDialect, Setup
from inspan.drivers.claude.sdk import ClaudeSdkDialect, build_options
from inspan.errors import BadInput
from inspan.protocol.commands import Configure, Interrupt, SendMessage
from inspan.protocol.events import ErrorReported, TurnInterrupted
from inspan.protocol.limits import Limits
from inspan.protocol.task import McpServer, Task
from inspan.protocol.usage import SessionTotals

from .launches import ENDPOINT, build_launch

RPC, SDK = select_channel(DRIVER, "rpc"), select_channel(DRIVER, "sdk")
CLEAN = LaunchContext(
    program="/bin/claude",
    cwd="/WORK",
    version=(2, 1, 325),
    scratch="/SCRATCH",
    config="/CONFIG",
    has_key=True,
    endpoint=ENDPOINT,
    session_id="S",
    python="/bin/python",
    package="/lib/claude_agent_sdk/__init__.py",
)
USER = msgspec.structs.replace(CLEAN, config="", session_id="")
RESUMED = msgspec.structs.replace(CLEAN, session_id="", resume="-R")
IMAGE = Attachment(path="/a.png", media_type="image/png", data=b"x")
TASKS: dict[str, tuple[LaunchContext, dict[str, Any]]] = {
    "exec": (CLEAN, {}),
    "user": (USER, {}),
    "denied": (CLEAN, {"disallowed_tools": ("Bash(rm *)", "Write(secret/*)")}),
    "listed": (CLEAN, {"allowed_tools": ("Bash(git *)", "Read")}),
    "listed-nothing": (USER, {"allowed_tools": ()}),
    "review": (CLEAN, {"mode": "review", "allowed_tools": ("WebFetch", "mcp__srv")}),
    "complete": (CLEAN, {"mode": "complete"}),
    "complete-user": (USER, {"mode": "complete", "allowed_tools": ("Read",)}),
    "asked": (CLEAN, {"ask": ("*",), "allowed_tools": ("Read",)}),
    "resumed": (RESUMED, {"append_system_prompt": "Be brief."}),
    "forked": (msgspec.structs.replace(RESUMED, session_id="F"), {"fork": True, "system_prompt": "You are Ada."}),
    "both-prompts": (CLEAN, {"system_prompt": "You are Ada.", "append_system_prompt": "Be brief."}),
    "chosen": (CLEAN, {"model": "claude-haiku-4-5", "effort": "low", "limits": Limits(max_turns=3), "partial": True}),
    "schema": (CLEAN, {"output_schema": {"type": "object", "properties": {"a": {"type": "string"}}}}),
    "folders": (CLEAN, {"extra_dirs": ("/one", "/two, too")}),
    "servers": (CLEAN, {"mcp_servers": {"srv": McpServer(command="serve", args=("--all",), env={"TOKEN": "t"})}}),
    "attached": (msgspec.structs.replace(CLEAN, attachments=(IMAGE,)), {}),
    "options": (CLEAN, {"options": ("--settings", "own.json", "--debug", "--betas=a,b", "--agent", "x", "--chrome")}),
}


async def _say_nothing() -> AsyncIterator[dict[str, Any]]:
    return
    yield {}


def _build_sdk_argv(options: dict[str, Any], *, asks: bool) -> list[str]:
    """What the SDK itself makes of its options."""
    tool = "stdio" if asks else None
    made = ClaudeAgentOptions(**options, permission_prompt_tool_name=tool)
    return SubprocessCLITransport(_say_nothing(), made)._build_command()  # pyright: ignore[reportPrivateUsage]  the SDK's own words are the test


def _to_pairs(argv: list[str]) -> list[tuple[str, str]]:
    """Every option and its value, in one spelling and one order."""
    pairs: list[tuple[str, str]] = []
    for index, word in enumerate(argv):
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            following = argv[index + 1] if index + 1 < len(argv) else "--"
            value = value if equals or following.startswith("--") else following
            pairs.append((name, json.dumps(json.loads(value)) if name == "--json-schema" else value))
    return sorted(pairs)


@pytest.mark.parametrize(("place", "fields"), TASKS.values(), ids=TASKS)
def test_the_sdk_starts_the_program_with_the_same_options(place: LaunchContext, fields: dict[str, Any]) -> None:
    rpc, sdk = build_launch(RPC, place, **fields), build_launch(SDK, place, **fields)
    setup = msgspec.json.decode(sdk.stdin, type=Setup)
    assert setup.options is not None
    argv = _build_sdk_argv(setup.options, asks=bool(fields.get("ask")))
    # Of two files of settings the last counts, and the SDK passes on that one.
    expected = [pair for pair in _to_pairs(list(rpc.argv)) if not ("options" in fields and "/SCRATCH/" in pair[1])]
    assert (argv[0], _to_pairs(argv)) == ("/bin/claude", expected)
    assert (sdk.env, sdk.files) == (rpc.env, rpc.files)
    assert msgspec.structs.replace(setup, options=None) == msgspec.json.decode(rpc.stdin, type=Setup)


def test_the_process_is_ours_and_takes_nothing_of_the_users_python() -> None:
    launch = build_launch(SDK, CLEAN)
    host = launch.argv[2]
    assert host.endswith("/drivers/claude/sdk_host.py")
    assert launch.argv == ("/bin/python", "-I", host, "/lib")
    assert launch.reads == ("/bin/python", "/lib/claude_agent_sdk/__init__.py", host)
    assert (launch.keeps_stdin, launch.conversation) == (True, True)


@pytest.mark.parametrize("words", [("-d",), ("--debug", "api", "more")])
def test_words_that_the_sdk_has_no_place_for_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(BadInput, match="options that have a long name only"):
        build_options(words)


def test_the_options_go_with_the_first_request() -> None:
    task = Task(prompt="do it", cwd="/WORK", ask=("Bash(git *)",))
    launch = SDK.channels[0].launch(task, CLEAN)
    dialect = ClaudeRpcDialect(task, SessionTotals())
    (frame,) = dialect.begin(launch.stdin).frames
    request = json.loads(frame)["request"]
    assert (request["subtype"], request["asks"], list(request["hooks"])) == ("initialize", True, ["PreToolUse"])
    assert request["options"]["cli_path"] == "/bin/claude"
    (plain,) = ClaudeRpcDialect(task, SessionTotals()).begin(b"{}").frames
    assert "options" not in json.loads(plain)["request"]


def _begin() -> ClaudeSdkDialect:
    dialect = ClaudeSdkDialect(Task(prompt="", cwd="/WORK"), SessionTotals())
    dialect.begin(b'{"options":{}}')
    return dialect


def _answer(kind: str) -> bytes:
    response: dict[str, Any] = {"subtype": kind, "request_id": "inspan-initialize", "error": "no", "response": {}}
    return json.dumps({"type": "control_response", "response": response}).encode()


def _list_types(frames: Sequence[bytes]) -> list[str]:
    return [json.loads(frame)["type"] for frame in frames]


def test_the_first_message_waits_until_the_sdk_has_started_the_program() -> None:
    dialect = _begin()
    assert dialect.send(SendMessage(id="1", text="hello")).frames == ()
    assert _list_types(dialect.send(Configure(model="m")).frames) == ["control_request"]
    assert dialect.send(SendMessage(id="2", text="more", when="steer")).frames == ()
    (frame,) = dialect.receive(_answer("success")).frames
    assert json.loads(frame)["message"]["content"] == "hello"
    assert _list_types(dialect.send(SendMessage(id="3", text="next")).frames) == ["user"]


def test_a_message_that_still_waits_is_interrupted_at_once() -> None:
    dialect = _begin()
    assert dialect.send(Interrupt()).events == ()
    dialect.send(SendMessage(id="1", text="hello"))
    assert dialect.send(Interrupt()) == DialectOutput([TurnInterrupted()])
    assert dialect.receive(_answer("success")).frames == ()
    assert _list_types(dialect.send(SendMessage(id="2", text="again")).frames) == ["user"]
    assert _list_types(dialect.send(Interrupt()).frames) == ["control_request"]


def test_a_program_that_could_not_be_started_hears_nothing() -> None:
    dialect = _begin()
    dialect.send(SendMessage(id="1", text="hello"))
    output = dialect.receive(_answer("error"))
    assert output.frames == ()
    assert [event.message for event in output.events if isinstance(event, ErrorReported)] == ["initialize: no"]
