"""The command line of Gemini CLI for every mode, its settings and rules as files, and that no secret is on it."""

import json
import tomllib
from typing import Any

import msgspec
import pytest

from inspan.contracts.driver import Attachment, Endpoint, Launch, LaunchContext
from inspan.drivers.gemini import DRIVER
from inspan.errors import BadInput
from inspan.protocol.limits import Limits
from inspan.protocol.task import McpServer

from .launches import build_launch, values_after

ENDPOINT = Endpoint(url="http://127.0.0.1:1", token="run-token", variable="GEMINI_API_KEY")
CLEAN = LaunchContext(program="gemini", cwd="/WORK", scratch="/SCRATCH", config="/CONFIG", endpoint=ENDPOINT)
USER = LaunchContext(program="gemini", cwd="/WORK", scratch="/SCRATCH")
HEAD = ("gemini", "--output-format", "stream-json", "--approval-mode")
HELD = (*HEAD, "default", "--skip-trust", "--extensions", "none", "--allowed-mcp-server-names", "inspan-none")
RULED = ("--admin-policy", "/SCRATCH/policy.toml", "--policy", "/SCRATCH/policy.toml")
ALWAYS = {"NODE_OPTIONS": "--import=file:///SCRATCH/preload.mjs", "GEMINI_CLI_NO_RELAUNCH": "true"}
NOTHING = {"toolName": "*", "decision": "deny", "priority": 1}
SHELL = "run_shell_command"


def settings(launch: Launch) -> dict[str, Any]:
    return json.loads(launch.files["/CONFIG/.gemini/settings.json"])


def rules(launch: Launch) -> list[dict[str, Any]]:
    """What stands in the file of rules, as a TOML reader understands it."""
    return tomllib.loads(launch.files["/SCRATCH/policy.toml"].decode())["rule"]


def allow_rule(**match: Any) -> dict[str, Any]:
    return {**match, "decision": "allow", "priority": 500}


def test_in_exec_everything_is_allowed_and_the_project_is_trusted() -> None:
    launch = build_launch(DRIVER, USER)
    assert launch.argv == (*HEAD, "yolo")
    assert launch.env == {**ALWAYS, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    assert (list(launch.files), launch.stdin) == (["/SCRATCH/preload.mjs"], b"do it")


def test_in_the_profile_clean_everything_is_allowed_and_no_project_is_trusted() -> None:
    launch = build_launch(DRIVER, CLEAN, mcp_servers={"own": McpServer(command="x")})
    assert launch.argv == (*HEAD, "yolo", "--skip-trust", "--extensions", "none", "--allowed-mcp-server-names", "own")
    assert "GEMINI_CLI_TRUST_WORKSPACE" not in launch.env


def test_a_review_has_readers_and_a_shell_and_trusts_no_project() -> None:
    launch = build_launch(DRIVER, USER, mode="review")
    assert launch.argv == (*HELD, *RULED)
    assert launch.env == ALWAYS
    readers = ["read_file", "read_many_files", "list_directory", "grep_search", "glob", "list_directory"]
    assert rules(launch) == [
        NOTHING,
        *(allow_rule(toolName=name) for name in readers),
        {**allow_rule(toolName=SHELL), "allowRedirection": True},
    ]


def test_a_completion_has_no_tools_at_all() -> None:
    launch = build_launch(DRIVER, USER, mode="complete")
    assert launch.argv == (*HELD, *RULED)
    assert rules(launch) == [NOTHING]


@pytest.mark.parametrize(
    ("tool", "matches"),
    [
        ("Edit", [{"toolName": "replace"}]),
        ("web_fetch", [{"toolName": "web_fetch"}]),
        ("Bash(git *)", [{"toolName": SHELL, "commandPrefix": "git"}]),
        ("Bash(git:*)", [{"toolName": SHELL, "commandPrefix": "git"}]),
        ("run_shell_command(git *)", [{"toolName": SHELL, "commandPrefix": "git"}]),
        ("Bash(git status)", [{"toolName": SHELL, "commandRegex": 'git\\ status"'}]),
        ("Bash(npm run *:fix)", [{"toolName": SHELL, "commandRegex": 'npm\\ run\\ .*:fix"'}]),
        ('Bash(echo "a.b")', [{"toolName": SHELL, "commandRegex": 'echo\\ \\\\"a\\.b\\\\""'}]),
        ("mcp__box", [{"mcpName": "box", "toolName": "*"}]),
        ("mcp__box__*", [{"mcpName": "box", "toolName": "*"}]),
        ("mcp__box__add_two", [{"mcpName": "box", "toolName": "add_two"}]),
    ],
)
def test_a_list_of_tools_is_all_that_it_may_use(tool: str, matches: list[dict[str, Any]]) -> None:
    launch = build_launch(DRIVER, CLEAN, allowed_tools=(tool,), disallowed_tools=(tool,))
    assert values_after(launch.argv, "--approval-mode") == ["default"]
    denied = [{**match, "decision": "deny", "priority": 900} for match in matches]
    assert rules(launch) == [NOTHING, *(allow_rule(**match) for match in matches), *denied]


@pytest.mark.parametrize("tool", ["Bash", "Bash()", "Bash(*)"])
def test_who_may_run_every_command_may_write_by_it(tool: str) -> None:
    launch = build_launch(DRIVER, CLEAN, allowed_tools=(tool,))
    assert rules(launch) == [NOTHING, {**allow_rule(toolName=SHELL), "allowRedirection": True}]


def test_what_is_taken_away_leaves_the_rest() -> None:
    launch = build_launch(DRIVER, USER, disallowed_tools=("Write",))
    assert launch.argv == (*HEAD, "yolo", *RULED)
    assert rules(launch) == [{"toolName": "write_file", "decision": "deny", "priority": 900}]


def test_a_shell_that_is_taken_away_writes_nothing_either() -> None:
    launch = build_launch(DRIVER, USER, disallowed_tools=("Bash",))
    assert rules(launch) == [{"toolName": SHELL, "decision": "deny", "priority": 900}]


@pytest.mark.parametrize("field", ["allowed_tools", "disallowed_tools"])
def test_a_pattern_for_anything_but_commands_is_refused(field: str) -> None:
    with pytest.raises(BadInput, match="only commands to a pattern"):
        build_launch(DRIVER, CLEAN, **{field: ("Edit(src/*)",)})


AWKWARD = "\"it\" 'is'\\n\n\t${HOME} é \x7f \x01 # = [a]"


def test_rules_are_quoted_so_that_they_arrive_as_they_are() -> None:
    launch = build_launch(DRIVER, CLEAN, allowed_tools=(f"Bash({AWKWARD} *)", AWKWARD))
    assert rules(launch)[1:] == [allow_rule(toolName=SHELL, commandPrefix=AWKWARD), allow_rule(toolName=AWKWARD)]


def test_behind_a_gateway_every_address_is_its_own_and_the_token_a_variable() -> None:
    launch = build_launch(DRIVER, CLEAN)
    names = ("GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "CODE_ASSIST_ENDPOINT")
    assert launch.env == {
        **ALWAYS,
        **dict.fromkeys(names, "http://127.0.0.1:1"),
        "GEMINI_API_KEY": "run-token",
        "GEMINI_TELEMETRY_OUTFILE": "/dev/null",
    }
    assert "run-token" not in f"{launch.argv}{launch.files}"


def test_in_its_own_folder_it_takes_a_key_and_tries_nothing_twice() -> None:
    given = settings(build_launch(DRIVER, CLEAN))
    assert given["security"] == {"auth": {"selectedType": "gemini-api-key"}}
    assert (given["general"]["maxAttempts"], given["general"]["retryFetchErrors"]) == (1, False)
    assert given["privacy"] == {"usageStatisticsEnabled": False}
    assert (given["model"], given["mcpServers"]) == ({"name": "pro"}, {})


def test_the_users_own_settings_are_not_written() -> None:
    assert not [path for path in build_launch(DRIVER, USER).files if not path.startswith("/SCRATCH/")]


@pytest.mark.parametrize("fields", [{"effort": "low"}, {"mcp_servers": {"box": McpServer(command="run")}}])
def test_what_only_its_settings_can_say_is_refused_with_the_users(fields: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="settings file alone"):
        build_launch(DRIVER, USER, **fields)


@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        ("gemini-2.5-pro", {"thinkingBudget": 2048}),
        ("gemini-3.1-pro-preview", {"thinkingLevel": "LOW"}),
        ("", {"thinkingLevel": "LOW"}),
    ],
)
def test_an_effort_is_said_as_the_generation_of_the_model_takes_it(model: str, thinking: dict[str, Any]) -> None:
    launch = build_launch(DRIVER, CLEAN, effort="low", model=model)
    (override,) = settings(launch)["modelConfigs"]["customOverrides"]
    assert override["modelConfig"]["generateContentConfig"] == {"thinkingConfig": thinking}
    assert values_after(launch.argv, "--model") == ([model] if model else [])


def test_its_own_count_of_turns_is_set_where_it_can_be() -> None:
    launch = build_launch(DRIVER, CLEAN, limits=Limits(max_turns=3))
    assert settings(launch)["model"] == {"name": "pro", "maxSessionTurns": 3}


SERVERS = {
    "one": McpServer(command="run it", args=("a b", "$HOME"), env={"TOKEN": "secret-1"}),
    "web": McpServer(url="https://x/mcp?k=$K", headers={"Authorization": "Bearer secret-2"}),
}


def test_servers_get_their_secrets_and_their_dollars_by_variables() -> None:
    launch = build_launch(DRIVER, CLEAN, mcp_servers=SERVERS)
    given = settings(launch)["mcpServers"]

    def resolved(word: str) -> str:
        return launch.env[word[2:-1]] if word.startswith("${") else word

    assert (given["one"]["command"], [resolved(word) for word in given["one"]["args"]]) == ("run it", ["a b", "$HOME"])
    assert resolved(given["one"]["env"]["TOKEN"]) == "secret-1"
    assert resolved(given["web"]["httpUrl"]) == "https://x/mcp?k=$K"
    assert resolved(given["web"]["headers"]["Authorization"]) == "Bearer secret-2"
    written = launch.files["/CONFIG/.gemini/settings.json"]
    assert (b"secret" in written, written.count(b"$"), written.count(b"${INSPAN_")) == (False, 4, 4)


def test_where_it_is_held_only_the_servers_that_were_asked_for_are_started() -> None:
    launch = build_launch(DRIVER, CLEAN, mode="review", mcp_servers=SERVERS, allowed_tools=("mcp__one",))
    assert values_after(launch.argv, "--allowed-mcp-server-names") == ["one", "web"]
    assert allow_rule(mcpName="one", toolName="*") in rules(launch)


@pytest.mark.parametrize(
    ("place", "fork", "words"),
    [
        ({"session_id": "S"}, False, ("--session-id", "S")),
        ({"resume": "R"}, False, ("--resume", "R")),
        ({"resume": "R", "session_id": "S"}, True, ("--session-file", "R")),
    ],
)
def test_a_session_is_begun_resumed_or_copied(place: dict[str, str], fork: bool, words: tuple[str, ...]) -> None:
    launch = build_launch(DRIVER, msgspec.structs.replace(USER, **place), fork=fork)
    assert launch.argv == (*HEAD, "yolo", *words)


def test_a_system_prompt_goes_by_a_file() -> None:
    launch = build_launch(DRIVER, USER, system_prompt="Be kind.")
    assert launch.files[launch.env["GEMINI_SYSTEM_MD"]] == b"Be kind."


def test_attached_files_are_named_in_the_prompt_and_lie_where_it_may_read() -> None:
    attached = (Attachment(path="/a.png", media_type="image/png", data=b"x"),)
    launch = build_launch(DRIVER, msgspec.structs.replace(USER, attachments=attached), extra_dirs=("/d",))
    assert launch.stdin == b"do it\n\n@/SCRATCH/attached-0.png"
    assert launch.files["/SCRATCH/attached-0.png"] == b"x"
    assert values_after(launch.argv, "--include-directories") == ["/d", "/SCRATCH"]


def test_options_of_the_user_stand_last() -> None:
    assert build_launch(DRIVER, USER, options=("--debug",), extra_dirs=("/d",)).argv[-3:] == (
        "--include-directories",
        "/d",
        "--debug",
    )


@pytest.mark.parametrize(
    ("mode", "stdin"), [("exec", b"/help me"), ("review", b" /help me"), ("complete", b" /help me")]
)
def test_a_slash_begins_a_command_of_its_own_in_exec_alone(mode: str, stdin: bytes) -> None:
    assert build_launch(DRIVER, USER, mode=mode, prompt="/help me").stdin == stdin


def test_a_prompt_that_would_be_cut_off_is_refused() -> None:
    with pytest.raises(BadInput, match="reads no more than"):
        build_launch(DRIVER, USER, prompt="x" * (8 * 1024 * 1024 + 1))


def test_a_folder_that_would_become_two_is_refused() -> None:
    with pytest.raises(BadInput, match="comma"):
        build_launch(DRIVER, USER, extra_dirs=("/a,b",))


def test_a_scratch_folder_with_a_space_is_an_address_without_one() -> None:
    launch = build_launch(DRIVER, msgspec.structs.replace(USER, scratch="/SCRATCH é %"))
    assert launch.env["NODE_OPTIONS"] == "--import=file:///SCRATCH%20%C3%A9%20%25/preload.mjs"
