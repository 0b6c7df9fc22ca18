"""Agents of the user's own: what the configuration makes of one that inspan knows."""

import pytest

from inspan.agents import presets, registry
from inspan.agents.presets import build_preset, build_preset_driver, driver_for_task
from inspan.config import AgentSettings
from inspan.contracts.driver import Install, LaunchContext
from inspan.errors import BadConfig, BadInput, UnknownAgent
from inspan.protocol.task import Preset, Task

PLACE = LaunchContext(program="/bin/mine", cwd="/w")


def test_an_agent_without_a_dialect_is_none_of_the_users_own() -> None:
    assert build_preset("codex", AgentSettings(model="x")) is None


@pytest.mark.parametrize(
    ("own", "preset"),
    [
        (AgentSettings(dialect="codex"), Preset(like="codex")),
        (
            AgentSettings(dialect="codex", command="npx 'my codex' -v", flags=("--x",)),
            Preset(like="codex", command=("npx", "my codex", "-v"), flags=("--x",)),
        ),
        (AgentSettings(dialect="chat"), Preset(like="openai-compatible")),
        (
            AgentSettings(dialect="acp", command="my-agent --acp", flags=("a b",)),
            Preset(like="acp:my-agent --acp 'a b'"),
        ),
    ],
)
def test_the_configuration_says_what_it_is_like(own: AgentSettings, preset: Preset) -> None:
    assert build_preset("mine", own) == preset


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (
            AgentSettings(dialect="codex", command="'x"),
            'agents.mine.command "\'x": is not a command line: No closing quotation.',
        ),
        (AgentSettings(dialect="codex", command="a/b"), "agents.mine.command 'a/b': is a path within some folder."),
        (AgentSettings(dialect="acp"), "agents.mine.command '': acp is spoken by many: it needs one."),
    ],
)
def test_a_command_that_cannot_be_one_is_refused(own: AgentSettings, message: str) -> None:
    with pytest.raises(BadConfig) as refused:
        build_preset("mine", own)
    assert refused.value.message == message
    assert refused.value.next_step


def test_it_is_the_other_agent_by_another_name_command_and_with_more_words() -> None:
    base = registry.find_driver("codex")
    made = build_preset_driver("mine", Preset(like="codex", command=("mine", "-q"), flags=("--x",)))
    assert (made.name, made.title, made.program.command, made.program_variable) == (
        "mine",
        "mine",
        "mine",
        "INSPAN_MINE_BIN",
    )
    assert (made.program.install, made.program.oldest, made.default, made.trials.demo_agent) == (
        Install(),
        (),
        False,
        False,
    )
    assert (made.capabilities, made.provider.credentials, made.provider.wire) == (
        base.capabilities,
        base.provider.credentials,
        base.provider.wire,
    )
    task = Task(prompt="p", cwd="/w")
    argv, before = (each.channels[0].launch(task, PLACE).argv for each in (made, base))
    assert argv == (before[0], "-q", "--x", *before[1:])


def test_without_a_command_of_its_own_it_is_the_same_program() -> None:
    base, made = registry.find_driver("codex"), build_preset_driver("mine", Preset(like="codex"))
    assert (made.program.command, made.program.install, made.program.oldest) == (
        base.program.command,
        base.program.install,
        base.program.oldest,
    )
    assert made.channels[0].launch == base.channels[0].launch


def test_an_api_has_no_command() -> None:
    with pytest.raises(BadInput, match="starts no program") as refused:
        build_preset_driver("mine", Preset(like="xai", command=("x",)))
    assert refused.value.next_step == "Leave command and flags out, or choose another dialect for mine."


def test_a_task_knows_its_agent_by_itself() -> None:
    task = Task(prompt="p", cwd="/w", agent="mine", preset=Preset(like="codex"))
    assert driver_for_task(task).name == "mine"
    assert driver_for_task(Task(prompt="p", cwd="/w"), agent="codex").name == "codex"
    described = {"agent": "mine", "task": {"preset": {"like": "codex"}}}
    assert presets.driver_from_description(described).name == "mine"
    assert presets.driver_from_description({"agent": "codex", "task": {}}).name == "codex"


def test_what_it_is_like_has_to_exist() -> None:
    with pytest.raises(UnknownAgent):
        driver_for_task(Task(prompt="p", cwd="/w", agent="mine", preset=Preset(like="nobody")))


def test_one_of_a_family_is_started_by_its_own_command() -> None:
    made = driver_for_task(Task(prompt="p", cwd="/w", agent="helper", preset=Preset(like="acp:my-agent --acp")))
    assert (made.name, made.program.command, made.family) == ("helper", "my-agent", False)
    assert made.channels[0].launch(Task(prompt="p", cwd="/w"), PLACE).argv == ("/bin/mine", "--acp")
