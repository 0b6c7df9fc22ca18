"""The command line of Claude Code for every mode, what is handed over beside it, and that no secret is on it."""

import json
from base64 import b64encode
from typing import Any

import msgspec
import pytest

from inspan.contracts.driver import BASE_ALLOWED_TOOLS, Attachment, LaunchContext
from inspan.drivers.claude import DRIVER
from inspan.protocol.limits import Limits
from inspan.protocol.task import McpServer

from .launches import ENDPOINT, build_launch, values_after

CLEAN = LaunchContext(
    program="claude", cwd="/WORK", scratch="/SCRATCH", config="/CONFIG", endpoint=ENDPOINT, session_id="S"
)
USER = LaunchContext(program="claude", cwd="/WORK", scratch="/SCRATCH")
HEAD = ("claude", "-p", "--output-format", "stream-json", "--verbose", "--permission-mode")
BASE_NAMES = "Read,Edit,Write,Bash,Glob,Grep"
# Task → permission mode and what is said of tools and settings.
MODES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "exec": ({}, ("bypassPermissions", "S", "user")),
    "exec-denied": (
        {"disallowed_tools": ("Bash(rm *)", "Write")},
        ("bypassPermissions", "D", "Bash(rm *),Write", "S", "user"),
    ),
    "exec-denied-path": (
        {"disallowed_tools": ("Write(secret/*)",)},
        ("bypassPermissions", "D", "Write(secret/*),Edit(secret/*)", "S", "user"),
    ),
    "listed": ({"allowed_tools": ("Bash(git *)",)}, ("dontAsk", "T", "Bash", "A", "Bash(git *)", "S", "")),
    "base": (
        {"allowed_tools": BASE_ALLOWED_TOOLS},
        ("dontAsk", "T", BASE_NAMES, "A", ",".join(BASE_ALLOWED_TOOLS), "S", ""),
    ),
    "listed-nothing": ({"allowed_tools": ()}, ("dontAsk", "T", "", "S", "")),
    "review": (
        {"mode": "review"},
        ("dontAsk", "T", "Bash,Read,Grep,Glob", "D", "Edit,Write,NotebookEdit", "S", ""),
    ),
    "review-more": (
        {"mode": "review", "allowed_tools": ("Read", "mcp__srv", "WebFetch"), "disallowed_tools": ("Grep",)},
        (
            *("dontAsk", "T", "Bash,Read,Grep,Glob,WebFetch", "A", "Read,mcp__srv,WebFetch"),
            *("D", "Edit,Write,NotebookEdit,Grep", "S", ""),
        ),
    ),
    "complete": ({"mode": "complete"}, ("dontAsk", "T", "", "S", "")),
    "complete-reads": (
        {"mode": "complete", "allowed_tools": ("Read", "Grep")},
        ("dontAsk", "T", "Read,Grep", "A", "Read,Grep", "S", ""),
    ),
}
FLAGS = {"T": "--tools", "A": "--allowedTools", "D": "--disallowedTools", "S": "--setting-sources"}


@pytest.mark.parametrize(("fields", "words"), MODES.values(), ids=MODES)
def test_each_mode_has_its_command_line(fields: dict[str, Any], words: tuple[str, ...]) -> None:
    expected = (*(FLAGS.get(word, word) for word in words), "--session-id", "S")
    ours = () if words[-2:] == ("S", "") else ("--settings", "/SCRATCH/settings.json")
    assert build_launch(DRIVER, CLEAN, **fields).argv == (*HEAD, *expected, *ours, "--strict-mcp-config")


def test_where_settings_apply_ours_stand_above_them_and_lead_to_the_gateway() -> None:
    launch = build_launch(DRIVER, CLEAN, options=("--settings", "own.json"))
    assert json.loads(launch.files["/SCRATCH/settings.json"]) == {
        "env": {
            "ANTHROPIC_BASE_URL": ENDPOINT.url,
            **dict.fromkeys(DRIVER.access.override_variables, ""),
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        },
        "apiKeyHelper": "",
    }
    assert values_after(launch.argv, "--settings") == ["/SCRATCH/settings.json", "own.json"]
    assert build_launch(DRIVER, USER).files == {}


@pytest.mark.parametrize(
    ("fields", "sources", "strict"),
    [
        ({}, [], False),
        ({"allowed_tools": ("Read",)}, [""], True),
        ({"mode": "review"}, [""], True),
        ({"mode": "complete"}, ["user"], True),
    ],
    ids=["exec", "listed", "review", "complete"],
)
def test_settings_of_the_user_apply_where_they_cannot_loosen_the_mode(
    fields: dict[str, Any], sources: list[str], strict: bool
) -> None:
    argv = build_launch(DRIVER, USER, **fields).argv
    assert (values_after(argv, "--setting-sources"), "--strict-mcp-config" in argv) == (sources, strict)


def test_in_the_profile_clean_a_project_has_its_instructions_read_and_nothing_else() -> None:
    launch = build_launch(DRIVER, msgspec.structs.replace(CLEAN, cwd="/MY WORK"))
    assert values_after(launch.argv, "--setting-sources") == ["user"]
    assert launch.files["/CONFIG/CLAUDE.md"].decode().splitlines()[1:] == [
        "@/MY\\ WORK/CLAUDE.md",
        "@/MY\\ WORK/.claude/CLAUDE.md",
    ]
    assert not {"/CONFIG/CLAUDE.md"} & build_launch(DRIVER, CLEAN, mode="review").files.keys()


@pytest.mark.parametrize(
    ("place", "fields", "words"),
    [
        ({"resume": "R", "session_id": ""}, {}, ["--resume", "R"]),
        ({"resume": "R"}, {"fork": True}, ["--resume", "R", "--fork-session", "--session-id", "S"]),
        (
            {"resume": "R", "session_id": ""},
            {"system_prompt": "x"},
            ["--resume", "R", "--settings"],
        ),
        (
            {"resume": "R", "session_id": "", "version": (2, 1, 325)},
            {"append_system_prompt": "x"},
            ["--resume", "R", "--system-prompt-snapshot", "off"],
        ),
    ],
)
def test_a_session_is_gone_on_with(place: dict[str, Any], fields: dict[str, Any], words: list[str]) -> None:
    argv = build_launch(DRIVER, msgspec.structs.replace(CLEAN, **place), **fields).argv
    start = argv.index("--resume")
    assert list(argv[start : start + len(words)]) == words


def test_choices_are_options() -> None:
    fields: dict[str, Any] = {
        "model": "m",
        "effort": "high",
        "limits": Limits(max_turns=3),
        "extra_dirs": ("/a b", "/c"),
        "options": ("--own", "word"),
        "partial": True,
    }
    argv = build_launch(DRIVER, CLEAN, **fields).argv
    flags = ("--model", "--effort", "--max-turns", "--add-dir", "--own")
    assert [values_after(argv, flag) for flag in flags] == [["m"], ["high"], ["3"], ["/a b", "/c"], ["word"]]
    assert "--include-partial-messages" in argv


def test_prompts_lie_in_files_and_the_prompt_itself_goes_in_by_stdin() -> None:
    launch = build_launch(DRIVER, CLEAN, system_prompt="Own é", append_system_prompt="-x", mode="review")
    assert launch.files == {"/SCRATCH/system-prompt.md": "Own é".encode(), "/SCRATCH/appended-prompt.md": b"-x"}
    assert values_after(launch.argv, "--system-prompt-file") == ["/SCRATCH/system-prompt.md"]
    assert values_after(launch.argv, "--append-system-prompt-file") == ["/SCRATCH/appended-prompt.md"]
    assert launch.stdin == b"do it"
    assert "do it" not in launch.argv


@pytest.mark.parametrize(("mode", "stdin"), [("exec", b"/cost"), ("review", b" /cost"), ("complete", b" /cost")])
def test_a_prompt_is_no_command_of_the_program(mode: str, stdin: bytes) -> None:
    assert build_launch(DRIVER, CLEAN, prompt="/cost", mode=mode).stdin == stdin


def test_servers_get_their_secrets_by_variables() -> None:
    servers = {
        "one": McpServer(command="run", args=("a b",), env={"TOKEN": "secret-1", "HOME": "/h"}),
        "two": McpServer(command="run", env={"TOKEN": "secret-2"}),
        "web": McpServer(url="https://x/mcp", headers={"Authorization": "Bearer secret-3"}),
    }
    launch = build_launch(DRIVER, CLEAN, mcp_servers=servers)
    written = launch.files["/SCRATCH/mcp.json"]
    assert json.loads(written) == {
        "mcpServers": {
            "one": {
                "command": "run",
                "args": ["a b"],
                "env": {"TOKEN": "${INSPAN_MCP_0}", "HOME": "${INSPAN_MCP_1}"},
            },
            "two": {"command": "run", "args": [], "env": {"TOKEN": "${INSPAN_MCP_2}"}},
            "web": {"type": "http", "url": "https://x/mcp", "headers": {"Authorization": "${INSPAN_MCP_3}"}},
        }
    }
    given = {name: value for name, value in launch.env.items() if name.startswith("INSPAN_MCP_")}
    assert list(given.values()) == ["secret-1", "/h", "secret-2", "Bearer secret-3"]
    assert values_after(launch.argv, "--mcp-config") == ["/SCRATCH/mcp.json"]
    assert "secret" not in f"{launch.argv} {written}"
    assert launch.env["MCP_TIMEOUT"] == "10000"


def test_the_environment_of_a_run() -> None:
    usual = {
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    clean = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "ANTHROPIC_CONFIG_DIR": "/CONFIG/anthropic"}
    gateway = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1", "ANTHROPIC_API_KEY": "run-token"}
    assert build_launch(DRIVER, USER).env == usual
    assert build_launch(DRIVER, CLEAN).env == usual | clean | gateway
    assert build_launch(DRIVER, USER, mode="review").env == usual | {"GIT_OPTIONAL_LOCKS": "0"}


def test_what_is_attached_goes_in_with_the_prompt() -> None:
    image = Attachment(path="/a.png", media_type="image/png", data=b"\x89PNG")
    document = Attachment(path="/a.pdf", media_type="application/pdf", data=b"%PDF-")
    launch = build_launch(DRIVER, msgspec.structs.replace(CLEAN, attachments=(image, document)))
    assert values_after(launch.argv, "--input-format") == ["stream-json"]
    content = [
        {
            "type": kind,
            "source": {"type": "base64", "media_type": each.media_type, "data": b64encode(each.data).decode()},
        }
        for kind, each in (("image", image), ("document", document))
    ]
    message = {"role": "user", "content": [*content, {"type": "text", "text": "do it"}]}
    assert json.loads(launch.stdin) == {"type": "user", "message": message}
    assert launch.stdin.count(b"\n") == 1


OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "forwarded"),
    [
        (OBJECT, OBJECT),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", **OBJECT}, OBJECT),
        ({"type": "array"}, None),
        ({}, None),
        ({**OBJECT, "description": "x" * 130_000}, None),
    ],
    ids=["object", "draft", "array", "anything", "long"],
)
def test_a_schema_is_an_option_or_said_in_words(schema: dict[str, Any], forwarded: dict[str, Any] | None) -> None:
    launch = build_launch(DRIVER, CLEAN, output_schema=schema)
    options = [json.loads(word) for word in values_after(launch.argv, "--json-schema")]
    assert options == ([] if forwarded is None else [forwarded])
    assert (b"exactly one JSON value" in launch.stdin) == (forwarded is None)
