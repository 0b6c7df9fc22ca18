"""The command line of Codex for every mode, its settings as TOML reads them, and that no secret is on it."""

import subprocess
import tomllib
from typing import Any

import msgspec
import pytest

from inspan.contracts.driver import Attachment, Launch, LaunchContext
from inspan.drivers.codex import DRIVER
from inspan.drivers.codex.launch import is_strict
from inspan.protocol.task import McpServer

from .launches import ENDPOINT, build_launch, values_after

CLEAN = LaunchContext(program="codex", cwd="/WORK/sub", scratch="/SCRATCH", config="/CONFIG", endpoint=ENDPOINT)
USER = LaunchContext(program="codex", cwd="/WORK/sub", scratch="/SCRATCH")
HEAD = ("codex", "exec", "--json", "--skip-git-repo-check")
UNTRUSTED = {folder: {"trust_level": "untrusted"} for folder in ("/WORK/sub", "/WORK", "/")}
NO_TOOLS: dict[str, Any] = {
    "agents": {"enabled": False},
    "web_search": "disabled",
    "tools": {"experimental_request_user_input": {"enabled": False}},
}
HELD = (*HEAD, "-s", "read-only", "--ignore-rules")


def settings(launch: Launch) -> dict[str, Any]:
    """All that is said with `-c`, as a TOML reader understands it."""
    return tomllib.loads("\n".join(values_after(launch.argv, "-c")))


def options(launch: Launch) -> tuple[str, ...]:
    """The other words of the command line."""
    skipped = {index + step for index, word in enumerate(launch.argv) if word == "-c" for step in (0, 1)}
    return tuple(word for index, word in enumerate(launch.argv) if index not in skipped)


def test_in_exec_everything_is_allowed() -> None:
    launch = build_launch(DRIVER, USER)
    assert launch.argv == (*HEAD, "--dangerously-bypass-approvals-and-sandbox", "-")
    assert (launch.env, launch.files, launch.stdin) == ({}, {}, b"do it")


@pytest.mark.parametrize(
    "fields",
    [{"mode": "review"}, {"mode": "complete", "allowed_tools": ("Read",)}],
    ids=["review", "reading-completion"],
)
def test_reading_is_held_by_its_sandbox_and_trust_is_taken_back(fields: dict[str, Any]) -> None:
    launch = build_launch(DRIVER, USER, **fields)
    assert options(launch) == (*HELD, "-")
    assert settings(launch) == {"features": {"hooks": False}, "projects": UNTRUSTED}
    assert launch.env == {"TMPDIR": "/dev/shm"}


def test_a_completion_has_no_tools_at_all() -> None:
    launch = build_launch(DRIVER, USER, mode="complete", mcp_servers={"one": McpServer(command="run")})
    assert options(launch) == (*HELD, "-")
    features = {"hooks": False, "goals": False, "sleep_tool": False}
    assert settings(launch) == {"features": features, "projects": UNTRUSTED, **NO_TOOLS}
    assert launch.env == {"TMPDIR": "/dev/shm", "CODEX_EXEC_SERVER_URL": "none"}


def test_behind_a_gateway_its_provider_is_ours_and_the_token_a_variable() -> None:
    launch = build_launch(DRIVER, CLEAN)
    given = settings(launch)
    assert (given["model_provider"], given["model_providers"]["inspan"]["base_url"]) == (
        "inspan",
        "http://127.0.0.1:1",
    )
    assert launch.env == {given["model_providers"]["inspan"]["env_key"]: "run-token"}
    assert "run-token" not in " ".join(launch.argv)


@pytest.mark.parametrize(("fork", "word"), [(False, "resume"), (True, "fork")])
def test_nothing_but_the_session_stands_behind_resume(fork: bool, word: str) -> None:
    place = msgspec.structs.replace(
        CLEAN, resume="R", attachments=(Attachment(path="/a.png", media_type="image/png", data=b"x"),)
    )
    launch = build_launch(
        DRIVER, place, fork=fork, model="m", effort="low", options=("-c", "own=1"), extra_dirs=("/d",)
    )
    assert launch.argv[-3:] == (word, "R", "-")
    assert launch.argv[-5:-3] == ("-c", "own=1")
    assert "--image=/SCRATCH/image-0" in launch.argv
    assert launch.files == {"/SCRATCH/image-0": b"x"}


AWKWARD = "Say \"it\" 'twice'\\n\n\t${HOME} `x` é \x7f \x01 # = [a]"


def test_words_are_quoted_so_that_they_arrive_as_they_are() -> None:
    place = msgspec.structs.replace(CLEAN, scratch='/SCRATCH "x"')
    launch = build_launch(DRIVER, place, effort=AWKWARD, append_system_prompt=AWKWARD, system_prompt="Own")
    given = settings(launch)
    assert (given["model_reasoning_effort"], given["developer_instructions"]) == (AWKWARD, AWKWARD)
    assert launch.files == {given["model_instructions_file"]: b"Own"}


@pytest.mark.parametrize(
    ("resume", "words", "in_prompt"),
    [("", "Be kind.", False), ("R", "Be kind.", True), ("", "Be kind." * 20_000, True)],
    ids=["new", "resumed", "long"],
)
def test_instructions_that_its_option_does_not_take_stand_before_the_prompt(
    resume: str, words: str, in_prompt: bool
) -> None:
    launch = build_launch(DRIVER, msgspec.structs.replace(CLEAN, resume=resume), append_system_prompt=words)
    assert settings(launch).get("developer_instructions", "") == ("" if in_prompt else words)
    assert launch.stdin.decode() == (f"{words}\n\ndo it" if in_prompt else "do it")


SERVERS = {
    "one-1": McpServer(command="run it", args=("a b", '"'), env={"TOKEN": "secret-1", "PATH": "/p"}),
    "two": McpServer(command="run", env={"TOKEN": "secret-2"}),
    "bare": McpServer(command="run", args=("x",)),
    "web": McpServer(url="https://x/mcp", headers={"Authorization": "Bearer secret-3"}),
}


def test_servers_get_their_secrets_by_variables() -> None:
    launch = build_launch(DRIVER, CLEAN, mcp_servers=SERVERS)
    common = {"required": True, "startup_timeout_sec": 10, "default_tools_approval_mode": "approve"}
    rename = 'export TOKEN="$INSPAN_MCP_0"; export PATH="$INSPAN_MCP_1"; exec "$0" "$@"'
    assert settings(launch)["mcp_servers"] == {
        "one-1": {
            "command": "/bin/sh",
            "args": ["-c", rename, "run it", "a b", '"'],
            "env_vars": ["INSPAN_MCP_0", "INSPAN_MCP_1"],
            **common,
        },
        "two": {
            "command": "/bin/sh",
            "args": ["-c", 'export TOKEN="$INSPAN_MCP_2"; exec "$0" "$@"', "run"],
            "env_vars": ["INSPAN_MCP_2"],
            **common,
        },
        "bare": {"command": "run", "args": ["x"], "env_vars": [], **common},
        "web": {"url": "https://x/mcp", "env_http_headers": {"Authorization": "INSPAN_MCP_3"}, **common},
    }
    given = {name: value for name, value in launch.env.items() if name.startswith("INSPAN_MCP_")}
    assert list(given.values()) == ["secret-1", "/p", "secret-2", "Bearer secret-3"]
    assert "secret" not in " ".join(launch.argv)


def test_the_shell_before_a_server_changes_neither_words_nor_values() -> None:
    value = 'it\'s "$blue" `x`\n\\'
    server = McpServer(command="printenv", args=("COLOUR",), env={"COLOUR": value})
    launch = build_launch(DRIVER, USER, mcp_servers={"one": server})
    table = settings(launch)["mcp_servers"]["one"]
    done = subprocess.run(
        [table["command"], *table["args"]], env={"PATH": "/usr/bin:/bin", **launch.env}, capture_output=True, check=True
    )
    assert done.stdout.decode() == f"{value}\n"


@pytest.mark.parametrize(
    ("allowed", "grant"),
    [
        ((), {"default_tools_approval_mode": "prompt"}),
        (("Read", "mcp__other", "mcp__ones", "mcp__on"), {"default_tools_approval_mode": "prompt"}),
        (("mcp__one",), {"default_tools_approval_mode": "approve"}),
        (("mcp__one__*",), {"default_tools_approval_mode": "approve"}),
        (("mcp__one__a", "mcp__one"), {"default_tools_approval_mode": "approve"}),
        (
            ("mcp__one__a", "mcp__one__b-c"),
            {"default_tools_approval_mode": "approve", "enabled_tools": ["a", "b-c"]},
        ),
    ],
)
def test_in_review_only_what_was_allowed_of_a_server_is_granted(
    allowed: tuple[str, ...], grant: dict[str, Any]
) -> None:
    servers = {"one": McpServer(command="run")}
    launch = build_launch(DRIVER, CLEAN, mode="review", allowed_tools=allowed, mcp_servers=servers)
    table = settings(launch)["mcp_servers"]["one"]
    usual: dict[str, Any] = {"command": "run", "args": [], "env_vars": [], "required": True, "startup_timeout_sec": 10}
    assert table == {**usual, **grant}


def _object(**more: Any) -> dict[str, Any]:
    closed = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    return {**closed, "additionalProperties": False, **more}


STRICT: dict[str, tuple[dict[str, Any], bool]] = {
    "closed": (_object(), True),
    "open": (_object(additionalProperties=True), False),
    "optional": (_object(required=[]), False),
    "array": ({"type": "array", "items": _object()}, False),
    "any": ({}, False),
    "union": ({"anyOf": [_object(), _object()]}, False),
    "inside": (_object(properties={"a": {"type": "array", "items": _object()}}), True),
    "open-inside": (_object(properties={"a": {"type": "array", "items": {"type": "object"}}}), False),
    "open-in-union": (_object(properties={"a": {"anyOf": [{"type": "null"}, {"properties": {"b": {}}}]}}), False),
    "definitions": (_object(**{"$defs": {"x": _object()}}), True),
    "open-definitions": (_object(**{"$defs": {"x": {"type": "object"}}}), False),
    "draft": (_object(**{"$schema": "https://json-schema.org/draft/2020-12/schema"}), True),
    "default": (_object(properties={"a": {"type": "string", "default": "x"}}), False),
    "one-of": (_object(properties={"a": {"oneOf": [{"type": "string"}]}}), False),
    "named-like-a-keyword": (
        _object(properties={"not": {"type": "string"}, "default": {"type": "null"}}, required=["not", "default"]),
        True,
    ),
    "data-like-a-schema": (_object(properties={"a": {"enum": [{"type": "object"}, {"not": 1}]}}), True),
}


@pytest.mark.parametrize(("schema", "strict"), STRICT.values(), ids=STRICT)
def test_a_schema_goes_to_the_provider_only_if_it_takes_it(schema: dict[str, Any], strict: bool) -> None:
    assert is_strict(schema) == strict
    launch = build_launch(DRIVER, CLEAN, output_schema=schema)
    assert values_after(launch.argv, "--output-schema") == (["/SCRATCH/schema.json"] if strict else [])
    assert launch.files == ({"/SCRATCH/schema.json": msgspec.json.encode(schema)} if strict else {})
    assert (b"exactly one JSON value" in launch.stdin) == (not strict)
