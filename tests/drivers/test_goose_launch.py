"""The command line of Goose for every mode, its ways to a model, and that no secret is on it."""

import json
import shlex
from typing import Any

import msgspec
import pytest

from inspan.contracts.driver import Endpoint, LaunchContext
from inspan.drivers.goose import DRIVER
from inspan.drivers.goose.acp import build_setup
from inspan.drivers.goose.acp import launch as acp_launch
from inspan.protocol.budget import Budget
from inspan.protocol.limits import Limits
from inspan.protocol.task import McpServer, Task

from .launches import ENDPOINT, build_launch, values_after

CLEAN = LaunchContext(
    program="goose",
    cwd="/WORK",
    scratch="/SCRATCH",
    config="/CONFIG",
    endpoint=ENDPOINT,
    session_id="S",
    provider="anthropic",
    wire="messages",
)
USER = LaunchContext(
    program="goose", cwd="/WORK", scratch="/SCRATCH", session_id="S", provider="anthropic", wire="messages"
)
KEYED = msgspec.structs.replace(USER, has_key=True)
HEAD = ("run", "--quiet", "--output-format", "stream-json", "--instructions", "-", "--name=S")
HABITS = {"GOOSE_MODE": "auto", "GOOSE_DISABLE_SESSION_NAMING": "true", "GOOSE_PROVIDER_SKIP_BACKOFF": "true"}


def test_in_the_users_profile_nothing_but_habits_is_changed() -> None:
    launch = build_launch(DRIVER, USER)
    assert (launch.argv, launch.env, launch.files) == (("goose", *HEAD), HABITS, {})
    assert launch.stdin == b"do it"


def test_a_clean_run_behind_a_gateway_has_provider_model_and_token_by_variables() -> None:
    launch = build_launch(DRIVER, CLEAN)
    assert launch.argv == ("goose", *HEAD, "--provider", "anthropic", "--model", "claude-sonnet-5")
    assert launch.env == {
        **HABITS,
        "GOOSE_DISABLE_KEYRING": "true",
        "GOOSE_TELEMETRY_OFF": "true",
        "GOOSE_SUBAGENT_PROVIDER": "anthropic",
        "GOOSE_SUBAGENT_MODEL": "claude-sonnet-5",
        "GOOSE_TOOLSHIM": "false",
        "ANTHROPIC_HOST": "http://127.0.0.1:1",
        "ANTHROPIC_API_KEY": "run-token",
        "GOOSE_ADDITIONAL_CONFIG_FILES": "/SCRATCH/extensions.yaml",
    }
    assert json.loads(launch.files["/SCRATCH/extensions.yaml"])["extensions"]["skills"]["enabled"] is False


@pytest.mark.parametrize(
    ("way", "model", "env"),
    [
        ("anthropic", "claude-opus-5", {"ANTHROPIC_HOST": "http://127.0.0.1:1"}),
        ("openai", "gpt-4o", {"OPENAI_HOST": "http://127.0.0.1:1", "OPENAI_BASE_PATH": "chat/completions"}),
        ("openai", "gpt-5.4", {"OPENAI_HOST": "http://127.0.0.1:1", "OPENAI_BASE_PATH": "responses"}),
        ("google", "gemini-2.5-pro", {"GOOGLE_HOST": "http://127.0.0.1:1"}),
        ("openrouter", "some/model", {"OPENROUTER_HOST": "http://127.0.0.1:1"}),
        ("xai", "grok-4", {"XAI_HOST": "http://127.0.0.1:1"}),
    ],
)
def test_each_way_has_its_own_variables(way: str, model: str, env: dict[str, str]) -> None:
    place = msgspec.structs.replace(
        USER, provider=way, endpoint=Endpoint(url="http://127.0.0.1:1", token="run-token", variable="THE_KEY")
    )
    launch = build_launch(DRIVER, place, model=f"{way}/{model}")
    subagents = {"GOOSE_SUBAGENT_PROVIDER": way, "GOOSE_SUBAGENT_MODEL": model, "GOOSE_TOOLSHIM": "false"}
    assert launch.argv == ("goose", *HEAD, "--provider", way, "--model", model)
    assert launch.env == {**HABITS, "THE_KEY": "run-token", **subagents, **env}


@pytest.mark.parametrize(
    ("place", "model", "words"),
    [
        (USER, "gpt-4o", ("--model", "gpt-4o")),
        (USER, "anthropic/some-model", ("--provider", "anthropic", "--model", "some-model")),
        (KEYED, "", ("--provider", "anthropic", "--model", "claude-sonnet-5")),
    ],
    ids=["own-provider", "named-provider", "own-key"],
)
def test_without_a_gateway_the_users_provider_is_left_unless_another_is_meant(
    place: LaunchContext, model: str, words: tuple[str, ...]
) -> None:
    launch = build_launch(DRIVER, place, model=model)
    assert (launch.argv, launch.env) == (("goose", *HEAD, *words), HABITS)


@pytest.mark.parametrize(
    ("resume", "model", "words", "env"),
    [
        ("20261115_3", "", (), {"GOOSE_PROVIDER": "anthropic", "GOOSE_MODEL": "claude-sonnet-5"}),
        ("20261115_3", "m", ("--provider", "anthropic", "--model", "m"), {}),
        ("name", "", ("--provider", "anthropic", "--model", "claude-sonnet-5"), {}),
    ],
    ids=["foreign", "foreign-with-model", "own"],
)
def test_a_session_that_inspan_did_not_begin_keeps_its_model(
    resume: str, model: str, words: tuple[str, ...], env: dict[str, str]
) -> None:
    launch = build_launch(DRIVER, msgspec.structs.replace(KEYED, session_id="", resume=resume), model=model)
    assert launch.argv[15:] == words
    assert launch.env == {**HABITS, **env}


@pytest.mark.parametrize(
    ("fields", "room"),
    [
        ({"budgets": {"run": Budget(tokens=9)}}, "32000"),
        ({"limits": Limits(largest_answer=500)}, "500"),
        ({"budgets": {"run": Budget(calls=9)}}, None),
    ],
)
def test_a_budget_bounds_the_answers(fields: dict[str, Any], room: str | None) -> None:
    assert build_launch(DRIVER, USER, **fields).env.get("GOOSE_MAX_TOKENS") == room


def test_a_review_has_the_tools_that_read_and_no_servers() -> None:
    launch = build_launch(DRIVER, USER, mode="review", mcp_servers={"cal": McpServer(command="run")})
    assert launch.argv == ("goose", *HEAD, "--no-profile", "--with-builtin", "developer,analyze")
    assert (launch.env, launch.files) == (HABITS, {})
    assert DRIVER.capabilities.review_needs_sandbox


def test_a_completion_runs_no_tool_and_away_from_the_project() -> None:
    launch = build_launch(DRIVER, USER, mode="complete", mcp_servers={"cal": McpServer(command="run")})
    assert launch.argv[:2] == ("/bin/sh", "-c")
    assert launch.argv[3:] == ("/SCRATCH", "goose", *HEAD, "--no-profile")
    assert launch.env == {**HABITS, "GOOSE_MODE": "chat"}


@pytest.mark.parametrize(
    ("resume", "option"), [("old name", "--name=old name"), ("20261115_3", "--session-id=20261115_3")]
)
def test_a_session_is_gone_on_with_by_name_or_id(resume: str, option: str) -> None:
    launch = build_launch(DRIVER, msgspec.structs.replace(USER, session_id="", resume=resume))
    assert launch.argv[3:] == (
        *("goose", option, "/SCRATCH/session.json", ""),
        *(*HEAD[:-1], "--resume", option),
    )


def test_a_fork_goes_on_in_a_copy_with_a_name_of_its_own() -> None:
    launch = build_launch(DRIVER, msgspec.structs.replace(USER, resume="OLD"), fork=True)
    assert launch.argv[3:] == ("goose", "--name=OLD", "/SCRATCH/session.json", "S", *HEAD, "--resume")


def test_a_completion_can_go_on_too() -> None:
    launch = build_launch(DRIVER, msgspec.structs.replace(USER, session_id="", resume="OLD"), mode="complete")
    assert launch.argv[3:6] == ("/SCRATCH", "/bin/sh", "-c")
    assert launch.argv[7:9] == ("goose", "--name=OLD")


def test_a_system_prompt_is_a_template_that_says_just_this() -> None:
    launch = build_launch(DRIVER, USER, system_prompt="Say {{x}} {% y")
    assert launch.env["GOOSE_SYSTEM_PROMPT_FILE_PATH"] == "/SCRATCH/system-prompt.md"
    assert launch.files == {"/SCRATCH/system-prompt.md": b"Say {{'{'}}{{'{'}}x}} {{'{'}}% y"}


@pytest.mark.parametrize(
    ("length", "argument", "prompt"), [(120_000, 1, b"do it"), (120_001, 0, b"a" * 120_001 + b"\n\ndo it")]
)
def test_words_behind_its_prompt_are_an_argument_while_they_fit(length: int, argument: int, prompt: bytes) -> None:
    launch = build_launch(DRIVER, USER, append_system_prompt="a" * length)
    assert (len(values_after(launch.argv, "--system")), launch.stdin) == (argument, prompt)


def test_effort_turns_and_own_options_are_passed_on() -> None:
    launch = build_launch(DRIVER, USER, effort="high", limits=Limits(max_turns=3), options=("--debug",))
    assert launch.argv == ("goose", *HEAD, "--max-turns", "3", "--debug")
    assert launch.env == {**HABITS, "GOOSE_THINKING_EFFORT": "high"}


def test_a_server_that_is_a_command_finds_its_secret_under_its_own_name() -> None:
    servers = {"cal": McpServer(command="/a b/run", args=("it's", "$X"), env={"TOKEN": "s3cret"})}
    launch = build_launch(DRIVER, USER, mcp_servers=servers)
    (given,) = values_after(launch.argv, "--with-extension")
    name, _, line = given.partition(":")
    shell, option, script, *words = shlex.split(line)
    assert (name, shell, option, words) == ("cal", "/bin/sh", "-c", ["/a b/run", "it's", "$X"])
    (variable,) = launch.env.keys() - HABITS.keys()
    assert script == f'export TOKEN="${variable}"; exec "$0" "$@"'
    assert launch.env[variable] == "s3cret"
    assert "s3cret" not in " ".join(launch.argv)


def test_a_server_with_a_url_has_its_headers_from_variables_in_a_file() -> None:
    servers = {"web": McpServer(url="http://127.0.0.1:2/mcp", headers={"Authorization": "Bearer s3cret"})}
    launch = build_launch(DRIVER, USER, mcp_servers=servers)
    assert launch.env["GOOSE_ADDITIONAL_CONFIG_FILES"] == "/SCRATCH/extensions.yaml"
    (variable,) = (name for name, value in launch.env.items() if value == "Bearer s3cret")
    written = launch.files["/SCRATCH/extensions.yaml"]
    assert json.loads(written)["extensions"]["web"] == {
        "type": "streamable_http",
        "name": "web",
        "description": "",
        "enabled": True,
        "uri": "http://127.0.0.1:2/mcp",
        "headers": {"Authorization": f"${{{variable}}}"},
        "env_keys": [variable],
        "timeout": 10,
    }
    assert b"s3cret" not in written


def test_no_two_servers_share_a_variable() -> None:
    def variables(**servers: McpServer) -> set[str]:
        return set(build_launch(DRIVER, USER, mcp_servers=servers).env) - HABITS.keys()

    one: dict[str, Any] = {"command": "run", "env": {"TOKEN": "a"}}
    assert variables(cal=McpServer(**one)).isdisjoint(variables(other=McpServer(**one)))
    assert variables(cal=McpServer(**one)) < variables(other=McpServer(**one), cal=McpServer(**one))


def test_in_a_conversation_too_a_completion_stays_out_of_the_project() -> None:
    task = Task(prompt="do it", cwd="/WORK", mode="complete")
    assert acp_launch(task, USER).argv[3:] == ("/SCRATCH", "goose", "acp")
    assert build_setup(task, USER).cwd == "/SCRATCH"
    assert build_setup(Task(prompt="do it", cwd="/WORK"), USER).cwd == "/WORK"
