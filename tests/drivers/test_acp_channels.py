"""Agents that inspan knows, by their channel in the Agent Client Protocol: how each is started and what it is told."""

import msgspec
import pytest

from inspan.contracts.driver import Driver, Endpoint, Launch, Place
from inspan.dialects.acp.opening import Opening
from inspan.engine.narrowing import by_channel, by_way
from inspan.engine.registry import driver as driver_of
from inspan.engine.registry import drivers
from inspan.protocol.task import Mode, Task

WITH_CHANNEL = ("claude", "codex", "copilot", "gemini", "goose", "opencode", "qwen")
_TOKEN = "run-token-0123456789"


def _driver(name: str) -> Driver:
    driver = by_channel(driver_of(name), "acp")
    return by_way(driver, driver.ways[0].name) if driver.ways else driver


def _place(driver: Driver, *, resume: str = "") -> Place:
    return Place(
        program="/bin/agent",
        cwd="/work",
        scratch="/scratch",
        config="/config",
        cache="/cache",
        has_key=True,
        endpoint=Endpoint(url="http://127.0.0.1:1", token=_TOKEN, variable=driver.credentials[0]),
        way=driver.ways[0].name if driver.ways else "",
        wire=driver.wire,
        resume=resume,
    )


def _launched(name: str, *, mode: Mode = "exec", resume: str = "") -> tuple[Launch, Opening]:
    driver = _driver(name)
    task = Task(prompt="do it", cwd="/work", mode=mode, model_from="script:x")
    launch = driver.channels[0].launch(task, _place(driver, resume=resume))
    return launch, msgspec.json.decode(launch.stdin, type=Opening)


def test_these_agents_have_the_channel_beside_their_usual_one() -> None:
    found = [driver.name for driver in drivers() if "acp" in [channel.name for channel in driver.channels[1:]]]
    assert tuple(found) == WITH_CHANNEL


@pytest.mark.parametrize("name", WITH_CHANNEL)
def test_the_prompt_is_said_and_stands_in_no_argument(name: str) -> None:
    launch, opening = _launched(name)
    assert launch.keeps_stdin
    assert (opening.cwd, opening.prompt) == ("/work", [{"type": "text", "text": "do it"}])
    assert "do it" not in launch.argv


@pytest.mark.parametrize("name", WITH_CHANNEL)
@pytest.mark.parametrize("mode", ["exec", "review", "complete"])
def test_no_token_stands_in_an_argument(name: str, mode: Mode) -> None:
    launch, _ = _launched(name, mode=mode)
    assert [word for word in launch.argv if _TOKEN in word] == []
    assert _TOKEN in "".join(launch.env.values())


@pytest.mark.parametrize("name", WITH_CHANNEL)
def test_a_session_that_goes_on_is_named_in_the_conversation_alone(name: str) -> None:
    identity = "0b6f5a3c-1111-4222-8333-444455556666"
    launch, opening = _launched(name, resume=identity)
    assert opening.resume == identity
    assert [word for word in launch.argv if identity in word] == []


@pytest.mark.parametrize("name", WITH_CHANNEL)
def test_a_review_is_held_by_a_box(name: str) -> None:
    assert _driver(name).capabilities.review_needs_box


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
    launch, _ = _launched(name)
    assert launch.argv[: len(argv)] == argv
    assert not {"--output-format", "stream-json", "json", "run", "-p"} & set(launch.argv)


@pytest.mark.parametrize(("mode", "wanted"), [("exec", "approve"), ("review", "approve"), ("complete", "chat")])
def test_goose_asks_before_each_tool_and_runs_none_in_a_completion(mode: Mode, wanted: str) -> None:
    launch, opening = _launched("goose", mode=mode)
    assert (launch.env["GOOSE_MODE"], opening.modes) == (wanted, [wanted])


def test_claude_is_given_no_tools_in_a_completion_and_no_editors_in_a_review() -> None:
    _, completion = _launched("claude", mode="complete")
    _, review = _launched("claude", mode="review")
    assert completion.meta["claudeCode"]["options"]["tools"] == []
    options = review.meta["claudeCode"]["options"]
    assert {"Edit", "Write", "NotebookEdit"} <= set(options["disallowedTools"])
    assert options["settingSources"] == []


def test_the_settings_of_a_run_stand_above_those_that_lead_past_the_gateway() -> None:
    _, opening = _launched("claude")
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
