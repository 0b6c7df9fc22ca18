"""Agents that inspan knows, by their channel in the Agent Client Protocol: how each is started and what it is told."""

import tomllib
from typing import Any

import msgspec
import pytest

from inspan.agents.registry import find_driver, load_drivers
from inspan.agents.select import select_channel, select_provider
from inspan.contracts.driver import Driver, Endpoint, Launch, LaunchContext
from inspan.dialects.acp.session_setup import SessionSetup
from inspan.protocol.task import Mode, Task

WITH_CHANNEL = ("claude", "codex", "copilot", "gemini", "goose", "opencode", "qwen")
_TOKEN = "run-token-0123456789"


def _driver(name: str) -> Driver:
    driver = select_channel(find_driver(name), "acp")
    return select_provider(driver, driver.providers[0].name) if driver.providers else driver


def _place(driver: Driver, *, resume: str = "") -> LaunchContext:
    return LaunchContext(
        program="/bin/agent",
        cwd="/work",
        scratch="/scratch",
        config="/config",
        cache="/cache",
        has_key=True,
        endpoint=Endpoint(url="http://127.0.0.1:1", token=_TOKEN, variable=driver.provider.credentials[0]),
        provider=driver.providers[0].name if driver.providers else "",
        wire=driver.provider.wire,
        resume=resume,
    )


def _build_launch(name: str, *, mode: Mode = "exec", resume: str = "") -> tuple[Launch, SessionSetup]:
    driver = _driver(name)
    task = Task(prompt="do it", cwd="/work", mode=mode, model_from="script:x")
    launch = driver.channels[0].launch(task, _place(driver, resume=resume))
    return launch, msgspec.json.decode(launch.stdin, type=SessionSetup)


def test_these_agents_have_the_channel_beside_their_usual_one() -> None:
    found = [driver.name for driver in load_drivers() if "acp" in [channel.name for channel in driver.channels[1:]]]
    assert tuple(found) == WITH_CHANNEL


@pytest.mark.parametrize("name", WITH_CHANNEL)
def test_the_prompt_is_said_and_stands_in_no_argument(name: str) -> None:
    launch, opening = _build_launch(name)
    assert launch.keeps_stdin
    assert (opening.cwd, opening.prompt) == ("/work", [{"type": "text", "text": "do it"}])
    assert "do it" not in launch.argv


@pytest.mark.parametrize("name", WITH_CHANNEL)
@pytest.mark.parametrize("mode", ["exec", "review", "complete"])
def test_no_token_stands_in_an_argument(name: str, mode: Mode) -> None:
    launch, _ = _build_launch(name, mode=mode)
    assert [word for word in launch.argv if _TOKEN in word] == []
    assert _TOKEN in "".join(launch.env.values())


@pytest.mark.parametrize("name", WITH_CHANNEL)
def test_a_session_that_goes_on_is_named_in_the_conversation_alone(name: str) -> None:
    identity = "0b6f5a3c-1111-4222-8333-444455556666"
    launch, opening = _build_launch(name, resume=identity)
    assert opening.resume == identity
    assert [word for word in launch.argv if identity in word] == []


@pytest.mark.parametrize("name", WITH_CHANNEL)
def test_a_review_is_held_by_a_box(name: str) -> None:
    assert _driver(name).capabilities.review_needs_sandbox


@pytest.mark.parametrize(
    ("name", "argv"),
    [
        ("claude", ("/bin/agent",)),
        ("codex", ("/bin/agent",)),
        ("copilot", ("/bin/agent", "--acp")),
        ("gemini", ("/bin/agent", "--acp")),
        ("goose", ("/bin/agent", "acp")),
        ("opencode", ("/bin/agent", "acp")),
        ("qwen", ("/bin/agent", "--acp")),
    ],
)
def test_each_is_started_as_a_server(name: str, argv: tuple[str, ...]) -> None:
    launch, _ = _build_launch(name)
    assert launch.argv[: len(argv)] == argv
    assert not {"--output-format", "stream-json", "json", "run", "-p"} & set(launch.argv)


@pytest.mark.parametrize(("mode", "wanted"), [("exec", "approve"), ("review", "approve"), ("complete", "chat")])
def test_goose_asks_before_each_tool_and_runs_none_in_a_completion(mode: Mode, wanted: str) -> None:
    launch, opening = _build_launch("goose", mode=mode)
    assert (launch.env["GOOSE_MODE"], opening.modes) == (wanted, [wanted])


def test_claude_is_given_no_tools_in_a_completion_and_no_editors_in_a_review() -> None:
    _, completion = _build_launch("claude", mode="complete")
    _, review = _build_launch("claude", mode="review")
    assert completion.meta["claudeCode"]["options"]["tools"] == []
    options = review.meta["claudeCode"]["options"]
    assert {"Edit", "Write", "NotebookEdit"} <= set(options["disallowedTools"])
    assert options["settingSources"] == []


def test_the_settings_of_a_run_stand_above_those_that_lead_past_the_gateway() -> None:
    _, opening = _build_launch("claude")
    settings = opening.meta["claudeCode"]["options"]["settings"]
    assert settings["env"]["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1"
    assert settings["apiKeyHelper"] == ""


def test_opencode_keeps_what_a_setting_may_not_expand() -> None:
    driver = _driver("opencode")
    task = Task(prompt="do it", cwd="/here/{env:HOME}", model_from="script:x")
    place = msgspec.structs.replace(_place(driver), cwd="/here/{env:HOME}")
    settings = driver.channels[0].launch(task, place).env["OPENCODE_CONFIG_CONTENT"]
    assert "{env:" not in settings
    assert '"title":{"disable":true}' in settings.replace(" ", "")


ASKING = ("copilot", "gemini", "goose", "opencode", "qwen")
_APPROVALS = ("yolo", "--allow-all", "--allow-tool", "--allowed-tools", "--auto", "bypass")


def _build_asking_launch(name: str, **fields: Any) -> Launch:
    driver = _driver(name)
    task = Task(prompt="do it", cwd="/work", model_from="script:x", ask=("*",))
    return driver.channels[0].launch(msgspec.structs.replace(task, **fields), _place(driver))


def test_these_agents_ask_by_this_channel() -> None:
    found = [name for name in WITH_CHANNEL if _driver(name).channels[0].session.ask]
    assert tuple(found) == ASKING


@pytest.mark.parametrize("name", ASKING)
@pytest.mark.parametrize("allowed", [None, ("Read", "Bash(git *)")])
def test_an_asking_agent_is_started_with_nothing_approved(name: str, allowed: tuple[str, ...] | None) -> None:
    launch = _build_asking_launch(name, allowed_tools=allowed)
    assert [word for word in launch.argv for flag in _APPROVALS if flag in word] == []
    assert launch.conversation


def _gemini_decisions(launch: Launch) -> dict[str, str]:
    policy = tomllib.loads(launch.files["/scratch/policy.toml"].decode())
    return {rule["toolName"]: rule["decision"] for rule in policy["rule"]}


def test_gemini_asks_about_all_that_does_not_only_read() -> None:
    launch = _build_asking_launch("gemini", disallowed_tools=("WebFetch",))
    decisions = _gemini_decisions(launch)
    assert launch.argv[launch.argv.index("--approval-mode") + 1] == "default"
    assert (decisions["*"], decisions["read_file"], decisions["web_fetch"]) == ("ask_user", "allow", "deny")
    assert "run_shell_command" not in decisions


def test_gemini_asks_within_a_list_about_what_is_on_it() -> None:
    decisions = _gemini_decisions(_build_asking_launch("gemini", ask=("Bash(rm *)",), allowed_tools=("Read", "Write")))
    assert (decisions["*"], decisions["read_file"], decisions["write_file"]) == ("deny", "allow", "ask_user")
    assert decisions["run_shell_command"] == "ask_user"


def test_gemini_asks_about_a_tool_that_only_reads_where_it_is_named() -> None:
    assert "read_file" not in _gemini_decisions(_build_asking_launch("gemini", ask=("*", "Read")))


def test_gemini_is_not_given_more_in_a_review_that_asks() -> None:
    decisions = _gemini_decisions(_build_asking_launch("gemini", mode="review"))
    assert (decisions["*"], decisions["run_shell_command"], decisions["read_file"]) == ("deny", "ask_user", "allow")
    assert not {"write_file", "replace"} & decisions.keys()


def test_copilot_is_offered_all_tools_but_those_that_are_forbidden() -> None:
    launch = _build_asking_launch("copilot", disallowed_tools=("WebFetch",))
    assert [word for word in launch.argv if "tool" in word] == ["--excluded-tools=web_fetch", "--deny-tool=url"]
    assert launch.env["COPILOT_ALLOW_ALL"] == "false"


def test_copilot_is_not_given_more_in_a_review_that_asks() -> None:
    launch = _build_asking_launch("copilot", mode="review")
    assert "--deny-tool=write" in launch.argv
    assert [word for word in launch.argv if word.startswith("--allow-tool")] == []
    offered = next(word for word in launch.argv if word.startswith("--available-tools="))
    assert not {"create", "edit", "apply_patch"} & set(offered.partition("=")[2].split(","))


def _opencode_rules(launch: Launch) -> dict[str, Any]:
    settings = msgspec.json.decode(launch.env["OPENCODE_CONFIG_CONTENT"], type=dict[str, Any])
    return settings["agent"]["inspan"]["permission"]


def test_opencode_asks_about_all_that_does_not_only_read() -> None:
    launch = _build_asking_launch("opencode", disallowed_tools=("WebFetch",))
    rules = _opencode_rules(launch)
    assert (rules["*"], rules["read"], rules["webfetch"]) == ("ask", "allow", "deny")
    assert not {"bash", "edit"} & rules.keys()
    assert rules["external_directory"] == {"*": "ask"}
    assert launch.env["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"


def test_opencode_is_not_given_more_in_a_review_that_asks() -> None:
    rules = _opencode_rules(_build_asking_launch("opencode", mode="review"))
    assert (rules["*"], rules["bash"], rules["read"]) == ("deny", "ask", "allow")
    assert "edit" not in rules


def test_qwen_asks_about_all_that_is_not_forbidden() -> None:
    words = [word for word in _build_asking_launch("qwen", disallowed_tools=("WebFetch",)).argv if "tools" in word]
    assert words == ["--exclude-tools=web_fetch"]
    assert {"--approval-mode=default", "--safe-mode"} <= set(_build_asking_launch("qwen").argv)


def test_qwen_is_not_given_more_in_a_review_that_asks() -> None:
    argv = _build_asking_launch("qwen", mode="review").argv
    assert {"--exclude-tools=write_file", "--exclude-tools=edit"} <= set(argv)


@pytest.mark.parametrize(("mode", "wanted"), [("exec", "approve"), ("review", "approve"), ("complete", "chat")])
def test_goose_asks_in_the_same_modes(mode: Mode, wanted: str) -> None:
    assert _build_asking_launch("goose", mode=mode).env["GOOSE_MODE"] == wanted


def test_codex_fetches_no_plugins_in_a_folder_of_ours_and_its_own_settings_stay_as_they_are() -> None:
    driver = _driver("codex")
    own = msgspec.structs.replace(_place(driver), config="")
    launch, _ = _build_launch("codex")
    (path,) = launch.files
    settings = tomllib.loads(launch.files[path].decode())
    assert (path, settings["features"]["plugins"]) == ("/config/config.toml", False)
    assert settings["analytics"]["enabled"] is settings["check_for_update_on_startup"] is False
    assert driver.channels[0].launch(Task(prompt="do it", cwd="/work", mode="exec"), own).files == {}
