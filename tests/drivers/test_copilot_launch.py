"""The command line of GitHub Copilot for every mode, its files and environment, and that no secret is on it."""

import json
from typing import Any

import msgspec
import pytest

from inspan.contracts.driver import Attachment, Endpoint, Launch, LaunchContext
from inspan.drivers.copilot import DRIVER
from inspan.drivers.copilot.acp import build_setup
from inspan.protocol.budget import Budget
from inspan.protocol.limits import Limits
from inspan.protocol.task import McpServer, Task

from .launches import build_launch, values_after

ENDPOINT = Endpoint(url="http://127.0.0.1:1", token="run-token", variable="COPILOT_PROVIDER_API_KEY")
CLEAN = LaunchContext(
    program="copilot",
    cwd="/WORK",
    version=(1, 0, 102),
    scratch="/SCRATCH",
    config="/CONFIG",
    cache="/CACHE",
    endpoint=ENDPOINT,
    provider="anthropic",
    wire="messages",
)
USER = LaunchContext(program="copilot", cwd="/WORK", version=(1, 0, 102), scratch="/SCRATCH")
HEAD = ("copilot", "--output-format", "json", "--no-ask-user", "--no-auto-update")
PLUGIN = ("--plugin-dir", "/SCRATCH")
MEASURES = {
    "COPILOT_AUTO_UPDATE": "false",
    "COPILOT_OTEL_ENABLED": "true",
    "COPILOT_OTEL_EXPORTER_TYPE": "file",
    "COPILOT_OTEL_FILE_EXPORTER_PATH": "/dev/fd/2",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "false",
    "OTEL_SDK_DISABLED": "false",
    "OTEL_TRACES_SAMPLER": "always_on",
}
NOTHING_OF_PROJECTS = dict.fromkeys(
    (
        "GITHUB_COPILOT_PROMPT_MODE_REPO_HOOKS",
        "GITHUB_COPILOT_PROMPT_MODE_WORKSPACE_MCP",
        "GITHUB_COPILOT_PROMPT_MODE_EXTENSIONS",
    ),
    "false",
)
WHOLE: dict[str, Any] = {"tools": ["*"], "deferTools": "never"}
READERS = "bash,read_bash,write_bash,stop_bash,list_bash,view,glob,grep,rg"


def rules(launch: Launch) -> tuple[str, ...]:
    """The words that say which tools it has and may use."""
    flags = ("--allow", "--deny", "--available", "--excluded")
    return tuple(word for word in launch.argv if word.startswith(flags))


def test_in_exec_everything_is_allowed_and_the_prompt_comes_by_stdin() -> None:
    launch = build_launch(DRIVER, USER)
    assert launch.argv == (*HEAD, "--allow-all", *PLUGIN)
    assert launch.env == MEASURES
    assert launch.stdin == b"do it"


def test_a_review_reads_and_runs_and_writes_nothing() -> None:
    launch = build_launch(DRIVER, USER, mode="review")
    assert rules(launch) == (
        "--allow-all-paths",
        f"--available-tools={READERS}",
        "--allow-tool=shell",
        "--deny-tool=write",
    )
    held = {"COPILOT_ALLOW_ALL": "false", "GIT_OPTIONAL_LOCKS": "0"}
    assert launch.env == {**MEASURES, **NOTHING_OF_PROJECTS, **held}


def test_a_completion_has_no_tools() -> None:
    assert rules(build_launch(DRIVER, USER, mode="complete")) == ("--available-tools=none",)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"allowed_tools": ("Read", "Edit", "Bash(git diff *)", "Bash(ls)")},
            (
                "--available-tools=view,edit,apply_patch,bash,read_bash,write_bash,stop_bash,list_bash",
                "--allow-tool=write",
                "--allow-tool=shell(git diff:*)",
                "--allow-tool=shell(ls)",
            ),
        ),
        ({"allowed_tools": ()}, ("--available-tools=none",)),
        ({"allowed_tools": ("mcp__one__run",)}, ("--available-tools=one-run", "--allow-tool=one(run)")),
        (
            {"allowed_tools": ("Read", "Grep"), "disallowed_tools": ("Grep",)},
            ("--available-tools=view", "--excluded-tools=grep,rg"),
        ),
        (
            {"disallowed_tools": ("Bash(rm *)", "Write", "Edit", "mcp__one")},
            (
                "--allow-all",
                "--excluded-tools=create,apply_patch,edit",
                "--deny-tool=shell(rm:*)",
                "--deny-tool=write",
                "--deny-tool=one",
            ),
        ),
        ({"disallowed_tools": ("Edit",)}, ("--allow-all", "--excluded-tools=edit,apply_patch")),
        (
            {"mode": "complete", "allowed_tools": ("Read",)},
            ("--available-tools=view",),
        ),
    ],
    ids=["listed", "none", "of-a-server", "both", "taken-away", "half", "reading-completion"],
)
def test_lists_of_tools_are_said_in_its_words(fields: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert rules(build_launch(DRIVER, USER, **fields)) == expected


def test_a_whole_server_is_allowed_by_leaving_all_else_out() -> None:
    left_out, allowed = rules(build_launch(DRIVER, USER, mode="complete", allowed_tools=("mcp__one", "Read")))
    assert allowed == "--allow-tool=one"
    assert {"bash", "create", "edit", "apply_patch", "task", "sql"} <= set(left_out.partition("=")[2].split(","))
    assert "view" not in left_out


@pytest.mark.parametrize(
    ("wire", "way", "kind"),
    [
        ("messages", "anthropic", {"COPILOT_PROVIDER_TYPE": "anthropic"}),
        ("responses", "openai", {"COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_WIRE_API": "responses"}),
        ("chat", "compatible", {"COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_WIRE_API": "completions"}),
    ],
)
def test_behind_a_gateway_it_speaks_the_language_of_the_way_and_asks_github_for_nothing(
    wire: str, way: str, kind: dict[str, str]
) -> None:
    place = msgspec.structs.replace(CLEAN, wire=wire, provider=way)
    launch = build_launch(DRIVER, place, model=f"{way}/some/model")
    assert values_after(launch.argv, "--model") == ["some/model"]
    assert launch.env == {
        **MEASURES,
        **NOTHING_OF_PROJECTS,
        "COPILOT_CACHE_HOME": "/CACHE",
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": "http://127.0.0.1:1",
        "COPILOT_PROVIDER_API_KEY": "run-token",
        **kind,
    }


def test_a_model_is_named_where_it_has_no_default() -> None:
    assert values_after(build_launch(DRIVER, CLEAN).argv, "--model") == ["claude-sonnet-5"]
    assert values_after(build_launch(DRIVER, USER).argv, "--model") == []
    assert values_after(build_launch(DRIVER, USER, model="gpt-5.4").argv, "--model") == ["gpt-5.4"]


def test_a_session_begins_with_our_id_and_goes_on_in_our_folder() -> None:
    begun = build_launch(DRIVER, msgspec.structs.replace(USER, session_id="one"))
    resumed = build_launch(DRIVER, msgspec.structs.replace(USER, session_id="two", resume="one"))
    assert begun.argv[len(HEAD) :] == ("--session-id", "one", "--allow-all", *PLUGIN)
    assert resumed.argv[len(HEAD) :] == ("--resume=one", "-C", "/WORK", "--allow-all", *PLUGIN)


@pytest.mark.parametrize("place", [USER, msgspec.structs.replace(USER, resume="one")], ids=["new", "resumed"])
def test_a_completion_stays_out_of_a_project_whose_hooks_would_run(place: LaunchContext) -> None:
    assert values_after(build_launch(DRIVER, place, mode="complete").argv, "-C") == ["/SCRATCH"]
    with_tools = build_launch(DRIVER, place, mode="complete", allowed_tools=("Read",))
    assert values_after(with_tools.argv, "-C") == (["/WORK"] if place.resume else [])


def test_its_hook_for_errors_ends_it_before_it_tries_again() -> None:
    files = build_launch(DRIVER, USER).files
    assert json.loads(files["/SCRATCH/plugin.json"])["hooks"] == "hooks.json"
    [hook] = json.loads(files["/SCRATCH/hooks.json"])["hooks"]["errorOccurred"]
    assert hook["bash"] == """grep -q '"errorContext":"model_call"' && kill -TERM "$PPID\""""


def test_secrets_of_servers_stand_in_variables_and_on_no_command_line() -> None:
    servers = {
        "one": McpServer(command="run", args=("it",), env={"KEY": "secret-1"}),
        "two": McpServer(url="http://127.0.0.1:2", headers={"Authorization": "secret-2"}),
    }
    launch = build_launch(DRIVER, USER, mcp_servers=servers)
    assert values_after(launch.argv, "--additional-mcp-config") == ["@/SCRATCH/mcp.json"]
    assert json.loads(launch.files["/SCRATCH/mcp.json"])["mcpServers"] == {
        "one": {"type": "local", "command": "run", "args": ["it"], "env": {"KEY": "${INSPAN_MCP_0}"}, **WHOLE},
        "two": {"type": "http", "url": "http://127.0.0.1:2", "headers": {"Authorization": "${INSPAN_MCP_1}"}, **WHOLE},
    }
    assert {name: launch.env[name] for name in ("INSPAN_MCP_0", "INSPAN_MCP_1")} == {
        "INSPAN_MCP_0": "secret-1",
        "INSPAN_MCP_1": "secret-2",
    }
    assert "secret" not in " ".join(launch.argv)


def test_instructions_and_images_lie_beside_the_run() -> None:
    place = msgspec.structs.replace(USER, attachments=(Attachment(path="a", media_type="image/webp", data=b"picture"),))
    launch = build_launch(DRIVER, place, append_system_prompt="Be brief.", effort="high", extra_dirs=("/MORE",))
    assert launch.env["COPILOT_CUSTOM_INSTRUCTIONS_DIRS"] == "/SCRATCH"
    assert launch.files["/SCRATCH/inspan.instructions.md"] == b'---\napplyTo: "**"\n---\nBe brief.\n'
    assert launch.files["/SCRATCH/attached-0.webp"] == b"picture"
    assert [values_after(launch.argv, flag) for flag in ("--attachment", "--reasoning-effort", "--add-dir")] == [
        ["/SCRATCH/attached-0.webp"],
        ["high"],
        ["/MORE"],
    ]


def test_a_users_own_options_come_last() -> None:
    assert build_launch(DRIVER, USER, options=("--banner",)).argv[-1] == "--banner"


@pytest.mark.parametrize(("version", "quiet"), [((1, 0, 92), False), ((1, 0, 102), True)])
def test_without_a_gateway_a_clean_run_sends_no_telemetry_where_it_can_say_so(
    version: tuple[int, ...], quiet: bool
) -> None:
    place = msgspec.structs.replace(CLEAN, endpoint=None, version=version)
    assert ("--disable-client-telemetry" in build_launch(DRIVER, place).argv) is quiet
    assert "--disable-client-telemetry" not in build_launch(DRIVER, CLEAN).argv


def test_in_a_conversation_too_a_completion_stays_out_of_the_project() -> None:
    assert build_setup(Task(prompt="do it", cwd="/WORK", mode="complete"), USER).cwd == "/SCRATCH"
    assert build_setup(Task(prompt="do it", cwd="/WORK"), USER).cwd == "/WORK"


@pytest.mark.parametrize(
    ("fields", "room"),
    [
        ({"budgets": {"run": Budget(usd=2)}}, "32000"),
        ({"limits": Limits(largest_answer=500)}, "500"),
        ({"budgets": {"run": Budget(calls=9)}}, None),
    ],
)
def test_a_budget_bounds_the_answers(fields: dict[str, Any], room: str | None) -> None:
    assert build_launch(DRIVER, CLEAN, **fields).env.get("COPILOT_PROVIDER_MAX_OUTPUT_TOKENS") == room
