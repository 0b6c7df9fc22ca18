"""The command line of OpenCode, the settings and files that go with it, and that no secret is on the command line."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inspan.contracts.driver import BASE_ALLOWED_TOOLS, Attachment, Endpoint, Launch, LaunchContext
from inspan.credentials.resolve import Credential
from inspan.drivers.opencode import DRIVER
from inspan.planning.route import choose_route
from inspan.protocol.task import McpServer, Task

from .launches import ENDPOINT, build_launch

Json = dict[str, Any]
CLEAN = LaunchContext(
    program="opencode",
    cwd="/WORK",
    scratch="/SCRATCH",
    config="/CONFIG",
    endpoint=ENDPOINT,
    provider="anthropic",
    wire="messages",
)
USER = LaunchContext(program="opencode", cwd="/WORK", scratch="/SCRATCH", provider="anthropic", wire="messages")
HEAD = ("opencode", "run", "--format", "json", "--thinking", "--auto")
PLUGIN = {"plugin": ["file:///SCRATCH/inspan.js"]}
READING = ("read", "glob", "grep", "list", "bash", "lsp", "skill", "todowrite", "webfetch", "websearch")
OUTSIDE = {"external_directory": {"*": "deny"}}


def settings(launch: Launch) -> Json:
    return json.loads(launch.env["OPENCODE_CONFIG_CONTENT"])


def permission(**fields: Any) -> Json:
    return settings(build_launch(DRIVER, CLEAN, **fields))["agent"]["inspan"]["permission"]


def test_in_exec_everything_is_allowed_and_the_users_own_agent_works() -> None:
    launch = build_launch(DRIVER, USER)
    assert launch.argv == (*HEAD, "--title=")
    assert settings(launch) == PLUGIN
    assert launch.env.keys() == {"OPENCODE_CONFIG_CONTENT", "OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_FFF"}
    assert launch.files.keys() == {"/SCRATCH/inspan.js"}
    assert launch.stdin == b"do it"


def test_in_clean_everything_of_its_own_lies_in_the_sessions_folder_and_no_library_is_fetched() -> None:
    launch = build_launch(DRIVER, CLEAN)
    assert {name: value for name, value in launch.env.items() if value.startswith("/")} == {
        "XDG_DATA_HOME": "/CONFIG",
        "XDG_CONFIG_HOME": "/CONFIG/settings",
        "XDG_STATE_HOME": "/CONFIG/state",
        "XDG_CACHE_HOME": "/CONFIG/cache",
        "OPENCODE_TEST_HOME": "/CONFIG/home",
    }
    assert launch.files.keys() == {
        "/SCRATCH/inspan.js",
        "/CONFIG/settings/opencode/package-lock.json",
        "/CONFIG/settings/opencode/node_modules/.installed",
    }


def test_a_folder_with_a_blank_in_its_name_holds_the_plugin_too() -> None:
    launch = build_launch(DRIVER, msgspec.structs.replace(USER, scratch="/A b#c"))
    assert settings(launch) == {"plugin": ["file:///A%20b%23c/inspan.js"]}
    assert launch.files.keys() == {"/A b#c/inspan.js"}


def test_the_shared_cache_is_used_where_there_is_one() -> None:
    launch = build_launch(DRIVER, msgspec.structs.replace(CLEAN, cache="/CACHE"))
    assert launch.env["XDG_CACHE_HOME"] == "/CACHE"


def test_behind_a_gateway_no_other_provider_is_left_and_the_token_is_on_no_command_line() -> None:
    launch = build_launch(DRIVER, CLEAN)
    assert settings(launch) == {
        **PLUGIN,
        "share": "disabled",
        "instructions": ["/WORK/AGENTS.md"],
        "provider": {
            "anthropic": {"options": {"baseURL": "http://127.0.0.1:1/v1", "apiKey": "run-token"}, "models": {}}
        },
        "enabled_providers": ["anthropic"],
        "disabled_providers": [],
    }
    assert launch.env["ANTHROPIC_API_KEY"] == "run-token"
    assert "run-token" not in " ".join(launch.argv)


@pytest.mark.parametrize(
    ("way", "address"),
    [
        ("anthropic", "http://127.0.0.1:1/v1"),
        ("openai", "http://127.0.0.1:1"),
        ("google", "http://127.0.0.1:1/v1beta"),
        ("openrouter", "http://127.0.0.1:1"),
    ],
)
@pytest.mark.parametrize("prefix", [True, False])
def test_each_provider_has_its_address_and_the_model_that_was_asked_for(way: str, address: str, prefix: bool) -> None:
    variable = {each.name: each for each in DRIVER.providers}[way].credentials[0]
    endpoint = Endpoint(url="http://127.0.0.1:1", token="run-token", variable=variable)
    place = msgspec.structs.replace(CLEAN, provider=way, endpoint=endpoint)
    launch = build_launch(DRIVER, place, model=f"{way}/a/b" if prefix else "a/b")
    assert launch.argv == (*HEAD, "--title=", "--model", f"{way}/a/b")
    given = settings(launch)
    assert given["provider"] == {way: {"options": {"baseURL": address, "apiKey": "run-token"}, "models": {"a/b": {}}}}
    assert given["enabled_providers"] == [way]
    assert launch.env[variable] == "run-token"


def test_effort_system_prompt_and_words_behind_it() -> None:
    launch = build_launch(DRIVER, USER, effort="high", system_prompt="I am {env:HOME}", append_system_prompt="behind")
    assert launch.argv == (*HEAD, "--title=", "--variant", "high", "--agent", "inspan")
    assert settings(launch) == {
        **PLUGIN,
        "instructions": ["/SCRATCH/appended-prompt.md"],
        "agent": {"inspan": {"mode": "primary", "permission": {}, "prompt": "{file:/SCRATCH/system-prompt.md}"}},
    }
    assert launch.files["/SCRATCH/system-prompt.md"] == b"I am {env:HOME}"
    assert launch.files["/SCRATCH/appended-prompt.md"] == b"behind"


@pytest.mark.parametrize(("fork", "words"), [(False, ()), (True, ("--fork",))])
def test_a_session_goes_on_under_its_own_title(fork: bool, words: tuple[str, ...]) -> None:
    launch = build_launch(DRIVER, msgspec.structs.replace(CLEAN, resume="ses_1"), fork=fork)
    assert launch.argv == (*HEAD, "--session", "ses_1", *words)


def test_options_of_the_user_stand_last() -> None:
    assert build_launch(DRIVER, USER, options=("--log-level", "DEBUG")).argv == (
        *HEAD,
        "--title=",
        "--log-level",
        "DEBUG",
    )


def test_what_is_attached_lies_where_a_box_lets_it_be_read() -> None:
    image = Attachment(path="/a/b.png", media_type="image/png", data=b"png")
    launch = build_launch(DRIVER, msgspec.structs.replace(CLEAN, attachments=(image,)), model="m")
    assert launch.argv[-1] == "--file=/SCRATCH/attached-0.png"
    assert launch.files["/SCRATCH/attached-0.png"] == b"png"
    assert settings(launch)["provider"]["anthropic"]["models"]["m"]["attachment"] is True


def test_in_a_review_nothing_is_edited_and_the_projects_settings_are_left_out_but_not_its_instructions() -> None:
    launch = build_launch(DRIVER, USER, mode="review")
    assert launch.argv == (*HEAD, "--title=", "--agent", "inspan")
    assert launch.env["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"
    assert settings(launch)["instructions"] == ["/WORK/AGENTS.md"]
    rules = {"*": "deny", **dict.fromkeys(READING, "allow"), "external_directory": "allow"}
    assert settings(launch)["agent"] == {"inspan": {"mode": "primary", "permission": rules}}


def test_in_the_profile_clean_the_projects_settings_are_left_out_but_not_its_instructions() -> None:
    launch = build_launch(DRIVER, CLEAN)
    assert launch.env["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"
    assert settings(launch)["instructions"] == ["/WORK/AGENTS.md"]
    usual = build_launch(DRIVER, USER)
    assert "OPENCODE_DISABLE_PROJECT_CONFIG" not in usual.env
    assert "instructions" not in settings(usual)


def test_a_completion_has_no_tools_at_all() -> None:
    launch = build_launch(DRIVER, USER, mode="complete", mcp_servers={"one": McpServer(command="run")})
    assert settings(launch)["agent"]["inspan"]["permission"] == {"*": "deny", **OUTSIDE}
    assert "mcp" not in settings(launch)


RULES: dict[str, tuple[Json, Json]] = {
    "base": (
        {"allowed_tools": BASE_ALLOWED_TOOLS},
        {
            "*": "deny",
            "read": "allow",
            "edit": "allow",
            "bash": {
                "*": "deny",
                "pnpm *": "allow",
                "git diff *": "allow",
                "git status *": "allow",
                "*>*": "deny",
                "*<*": "deny",
            },
            "glob": "allow",
            "grep": "allow",
            **OUTSIDE,
        },
    ),
    "nothing": ({"allowed_tools": ()}, {"*": "deny", **OUTSIDE}),
    "whole-beats-pattern": ({"allowed_tools": ("Bash", "Bash(git *)")}, {"*": "deny", "bash": "allow", **OUTSIDE}),
    "folders": (
        {"allowed_tools": ("Read",), "extra_dirs": ("/other",)},
        {"*": "deny", "read": "allow", "external_directory": {"*": "deny", "/other/*": "allow"}},
    ),
    "servers": (
        {"mode": "complete", "allowed_tools": ("mcp__box", "mcp__web__look")},
        {"*": "deny", "box_*": "allow", "web_look": "allow", **OUTSIDE},
    ),
    "denied": (
        {"disallowed_tools": ("Write", "Bash(rm *)", "Bash(rm:*)")},
        {"edit": "deny", "bash": {"*": "allow", "rm *": "deny"}},
    ),
    "listed-and-denied": (
        {"allowed_tools": ("Bash", "Read"), "disallowed_tools": ("Bash(rm *)",)},
        {"*": "deny", "read": "allow", **OUTSIDE, "bash": {"*": "allow", "rm *": "deny"}},
    ),
}


@pytest.mark.parametrize(("fields", "expected"), RULES.values(), ids=RULES)
def test_tools_become_rules_of_which_the_last_counts(fields: Json, expected: Json) -> None:
    assert list(permission(**fields).items()) == list(expected.items())


@pytest.mark.parametrize(("name", "rule"), [("bash", RULES["base"]), ("bash", RULES["denied"])])
def test_of_patterns_too_the_last_counts(name: str, rule: tuple[Json, Json]) -> None:
    assert list(permission(**rule[0])[name]) == list(rule[1][name])


def test_servers_of_tools_are_started_soon_or_missed() -> None:
    servers = {
        "one": McpServer(command="run", args=("-x",), env={"A": "b"}),
        "two": McpServer(url="http://127.0.0.1:2", headers={"H": "v"}),
    }
    usual = {"enabled": True, "timeout": 10_000}
    assert settings(build_launch(DRIVER, USER, mcp_servers=servers))["mcp"] == {
        "one": {"type": "local", "command": ["run", "-x"], "environment": {"A": "b"}, **usual},
        "two": {"type": "remote", "url": "http://127.0.0.1:2", "headers": {"H": "v"}, "oauth": False, **usual},
    }


@pytest.mark.parametrize("words", ["{env:SECRET}", "{file:/etc/passwd}", "a {env:A} {file:~/b}"])
def test_nobodys_words_are_taken_for_a_variable_or_a_file(words: str) -> None:
    launch = build_launch(DRIVER, USER, mcp_servers={"one": McpServer(command="run", args=(words,))})
    written = launch.env["OPENCODE_CONFIG_CONTENT"]
    assert "{env:" not in written and "{file:" not in written
    assert settings(launch)["mcp"]["one"]["command"] == ["run", words]


@pytest.mark.parametrize(("partial", "word"), [(True, b"partial = true"), (False, b"partial = false")])
def test_pieces_of_text_are_told_only_where_they_are_wanted(partial: bool, word: bytes) -> None:
    assert word in build_launch(DRIVER, USER, partial=partial).files["/SCRATCH/inspan.js"]


def test_commands_see_nothing_of_the_folders_that_are_its_own() -> None:
    plugin = build_launch(DRIVER, CLEAN).files["/SCRATCH/inspan.js"]
    names = '"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "OPENCODE_TEST_HOME"'
    assert f'of ["OPENCODE_CONFIG_CONTENT", {names}]'.encode() in plugin
    assert b'of ["OPENCODE_CONFIG_CONTENT"]' in build_launch(DRIVER, USER).files["/SCRATCH/inspan.js"]


@pytest.mark.parametrize("name", ["opencode.json", "opencode.jsonc", "config.json"])
def test_a_provider_in_the_users_own_settings_is_left_to_the_user(tmp_path: Path, name: str) -> None:
    own = tmp_path / ".config" / "opencode" / name
    own.parent.mkdir(parents=True)
    own.write_text('{"provider": {"anthropic": {"options": {"baseURL": "http://127.0.0.1:1"}}}}')
    access = Credential(kind="key", description="key", key="some-long-key", variable="ANTHROPIC_API_KEY")
    task = Task(prompt="do it", cwd="/WORK", profile="user")
    assert choose_route(task, DRIVER, access, {"HOME": str(tmp_path)}).model_from == "direct"


@pytest.mark.parametrize(
    ("way", "path"), [("anthropic", "/v1"), ("openai", ""), ("google", "/v1beta"), ("openrouter", "")]
)
def test_without_a_gateway_the_provider_is_where_the_run_says(way: str, path: str) -> None:
    place = msgspec.structs.replace(USER, base_url="http://said", provider=way)
    made = settings(build_launch(DRIVER, place, model=f"{way}/x"))
    assert made["provider"] == {way: {"options": {"baseURL": f"http://said{path}"}, "models": {"x": {}}}}
    assert made["enabled_providers"] == [way]
    assert "provider" not in settings(build_launch(DRIVER, USER, model="anthropic/x"))
