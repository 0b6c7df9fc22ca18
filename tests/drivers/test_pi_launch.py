"""The command line of Pi for every mode and profile, what its extension is told, and that no secret is in either."""

import json
import re
from typing import Any

import msgspec
import pytest

from inspan.contracts.driver import Attachment, Endpoint, Launch, LaunchContext
from inspan.drivers.pi import DRIVER
from inspan.protocol.budget import Budget
from inspan.protocol.limits import Limits
from inspan.protocol.task import McpServer

from .launches import ENDPOINT, build_launch, values_after

CLEAN = LaunchContext(
    program="pi",
    cwd="/WORK",
    scratch="/SCRATCH",
    config="/CONFIG",
    endpoint=ENDPOINT,
    provider="anthropic",
    wire="messages",
)
USER = LaunchContext(program="pi", cwd="/WORK", scratch="/SCRATCH", provider="anthropic", wire="messages")
EXTENSION = "/SCRATCH/extension.mjs"
HEAD = ("pi", "--print", "--mode", "json", "--extension", EXTENSION)
SKILLS = ("--skill", "/WORK/.pi/skills", "--skill", "/WORK/.agents/skills")
HELD = ("--no-extensions",)
EMPTY: dict[str, Any] = {"provider": "", "url": "", "headers": {}, "servers": {}, "allowed": {}, "denied": {}}


def run_of(launch: Launch) -> dict[str, Any]:
    """What the extension knows of its run."""
    found = re.search(rb"^const RUN = (\{.*\});$", launch.files[EXTENSION], re.MULTILINE)
    assert found
    return json.loads(found[1])


def test_in_exec_everything_is_allowed_and_the_users_own_settings_hold() -> None:
    launch = build_launch(DRIVER, USER)
    assert launch.argv == (*HEAD, *SKILLS)
    assert launch.env == {"PI_SKIP_VERSION_CHECK": "1", "JITI_FS_CACHE": "false"}
    assert (list(launch.files), run_of(launch), launch.stdin) == ([EXTENSION], EMPTY, b"do it")


def test_a_clean_run_sees_nothing_of_the_user_and_trusts_no_project() -> None:
    launch = build_launch(DRIVER, CLEAN)
    assert launch.argv == (*HEAD, "--no-approve", "--no-skills", *SKILLS)
    assert launch.env == {
        "PI_SKIP_VERSION_CHECK": "1",
        "JITI_FS_CACHE": "false",
        "PI_OFFLINE": "1",
        "PI_TELEMETRY": "0",
        "PI_CODING_AGENT_SESSION_DIR": "/CONFIG/sessions/all",
        "ANTHROPIC_API_KEY": "run-token",
    }


def test_a_review_is_offered_no_tool_that_edits() -> None:
    launch = build_launch(DRIVER, USER, mode="review")
    assert launch.argv == (*HEAD, *HELD, "--tools", "read,bash,ls", "--no-approve", *SKILLS)
    assert launch.env["GIT_OPTIONAL_LOCKS"] == "0"


def test_a_completion_has_no_tools() -> None:
    assert build_launch(DRIVER, USER, mode="complete").argv == (*HEAD, *HELD, "--no-tools", "--no-approve", *SKILLS)


@pytest.mark.parametrize(
    ("mode", "allowed", "offered", "rules"),
    [
        ("exec", ("Read", "Bash(git diff *)", "Bash(git log:*)"), "read,bash", {"bash": ["git diff *", "git log:*"]}),
        ("exec", ("Bash", "Bash(git diff *)", "Glob", "LS"), "bash,find,ls", {}),
        ("review", ("Bash(git push *)", "Edit(docs/**)"), "read,bash,ls,edit", {"edit": ["docs/**"]}),
        ("complete", ("Grep", "mine"), "grep,mine", {}),
    ],
)
def test_allowed_tools_are_offered_by_their_own_names_and_their_patterns_kept(
    mode: str, allowed: tuple[str, ...], offered: str, rules: dict[str, list[str]]
) -> None:
    launch = build_launch(DRIVER, USER, mode=mode, allowed_tools=allowed)
    assert values_after(launch.argv, "--tools") == [offered]
    assert run_of(launch) == {**EMPTY, "allowed": rules}


def test_nothing_allowed_is_no_tools() -> None:
    assert "--no-tools" in build_launch(DRIVER, USER, allowed_tools=()).argv


def test_denied_tools_are_left_out_and_denied_patterns_kept() -> None:
    launch = build_launch(DRIVER, USER, disallowed_tools=("Write", "Bash(rm *)", "mcp__box"))
    assert launch.argv == (*HEAD, "--exclude-tools", "write,mcp__box__*", *SKILLS)
    assert run_of(launch) == {**EMPTY, "denied": {"bash": ["rm *"]}}


@pytest.mark.parametrize(
    ("way", "wire", "variable", "header"),
    [
        ("anthropic", "messages", "ANTHROPIC_API_KEY", {"x-api-key": "$ANTHROPIC_API_KEY"}),
        ("openai", "responses", "OPENAI_API_KEY", {"authorization": "Bearer $OPENAI_API_KEY"}),
        ("groq", "chat", "GROQ_API_KEY", {"authorization": "Bearer $GROQ_API_KEY"}),
        ("google", "generate", "GEMINI_API_KEY", {"x-goog-api-key": "$GEMINI_API_KEY"}),
    ],
)
def test_the_chosen_provider_leads_to_the_gateway_with_the_token_in_a_variable(
    way: str, wire: Any, variable: str, header: dict[str, str]
) -> None:
    endpoint = Endpoint(url="http://127.0.0.1:1", token="run-token", variable=variable)
    launch = build_launch(DRIVER, msgspec.structs.replace(USER, endpoint=endpoint, provider=way, wire=wire))
    assert run_of(launch) == {**EMPTY, "provider": way, "url": "http://127.0.0.1:1", "headers": header}
    assert launch.env[variable] == "run-token"
    assert b"run-token" not in launch.files[EXTENSION]


@pytest.mark.parametrize(
    ("place", "asked", "given"),
    [
        (CLEAN, "sonnet", ["anthropic/sonnet"]),
        (CLEAN, "anthropic/claude-haiku-4-5", ["anthropic/claude-haiku-4-5"]),
        (CLEAN, "", []),
        (USER, "sonnet", ["sonnet"]),
    ],
)
def test_a_model_is_looked_for_at_the_provider_behind_the_gateway(
    place: LaunchContext, asked: str, given: list[str]
) -> None:
    assert values_after(build_launch(DRIVER, place, model=asked).argv, "--model") == given


@pytest.mark.parametrize(
    ("place", "fork", "words"),
    [
        ({"session_id": "new"}, False, ("--session-id", "new")),
        ({"resume": "old"}, False, ("--session", "old")),
        ({"resume": "old", "session_id": "new"}, True, ("--fork", "old", "--session-id", "new")),
    ],
)
def test_a_session_is_begun_by_its_id_and_resumed_only_if_it_is_there(
    place: dict[str, str], fork: bool, words: tuple[str, ...]
) -> None:
    launch = build_launch(DRIVER, msgspec.structs.replace(USER, **place), fork=fork)
    assert launch.argv == (*HEAD, *SKILLS, *words)


def test_prompts_and_images_are_files_and_the_users_options_stand_behind_ours() -> None:
    place = msgspec.structs.replace(USER, attachments=(Attachment(path="/a.png", media_type="image/png", data=b"png"),))
    launch = build_launch(
        DRIVER, place, system_prompt="one", append_system_prompt="two", effort="high", options=("--no-context-files",)
    )
    assert launch.argv == (
        *HEAD,
        *SKILLS,
        *("--thinking", "high"),
        *("--system-prompt", "/SCRATCH/system-prompt.md"),
        *("--append-system-prompt", "/SCRATCH/appended-prompt.md"),
        "--no-context-files",
        "@/SCRATCH/attachment-0",
    )
    assert {path: text for path, text in launch.files.items() if path != EXTENSION} == {
        "/SCRATCH/system-prompt.md": b"one",
        "/SCRATCH/appended-prompt.md": b"two",
        "/SCRATCH/attachment-0": b"png",
    }


SERVERS = {
    "my-box": McpServer(command="run", args=("-x",), env={"TOKEN": "first-secret"}),
    "far": McpServer(url="https://example.com/mcp", headers={"Authorization": "second-secret"}),
}


def test_servers_of_tools_go_by_the_extension_and_their_secrets_by_variables() -> None:
    launch = build_launch(DRIVER, USER, mcp_servers=SERVERS)
    assert run_of(launch)["servers"] == {
        "my-box": {"command": "run", "args": ["-x"], "env": {"TOKEN": "${INSPAN_MCP_0}"}},
        "far": {"url": "https://example.com/mcp", "headers": {"Authorization": "${INSPAN_MCP_1}"}},
    }
    assert (launch.env["INSPAN_MCP_0"], launch.env["INSPAN_MCP_1"]) == ("first-secret", "second-secret")
    assert "secret" not in f"{launch.argv} {launch.files}"


@pytest.mark.parametrize(
    ("allowed", "offered", "started"),
    [
        (("mcp__my-box__echo",), "read,bash,ls,mcp__my_box__echo", ["my-box"]),
        (("mcp__far",), "read,bash,ls,mcp__far__*", ["far"]),
        ((), "read,bash,ls", []),
    ],
)
def test_a_review_starts_only_servers_of_which_a_tool_is_allowed(
    allowed: tuple[str, ...], offered: str, started: list[str]
) -> None:
    launch = build_launch(DRIVER, USER, mode="review", allowed_tools=allowed, mcp_servers=SERVERS)
    assert values_after(launch.argv, "--tools") == [offered]
    assert values_after(launch.argv, "--extension")[1:] == ["builtin:mcp"] * bool(started)
    assert list(run_of(launch)["servers"]) == started


def test_each_provider_has_a_key_of_its_own() -> None:
    keys = [key for way in DRIVER.providers for key in way.credentials]
    assert len(set(keys)) == len(keys)
    first = DRIVER.providers[0]
    assert (DRIVER.provider.wire, DRIVER.provider.vendor, DRIVER.provider.base_url, DRIVER.provider.credentials) == (
        first.wire,
        first.vendor,
        first.base_url,
        first.credentials,
    )


@pytest.mark.parametrize(
    ("fields", "room"),
    [
        ({"budgets": {"run": Budget(usd=2)}}, {"largestAnswer": 32000}),
        ({"limits": Limits(largest_answer=500)}, {"largestAnswer": 500}),
        ({"budgets": {"run": Budget(calls=9)}}, {}),
    ],
)
def test_a_budget_bounds_the_answers(fields: dict[str, Any], room: dict[str, int]) -> None:
    assert run_of(build_launch(DRIVER, USER, **fields)) == {**EMPTY, **room}
