"""The settings themselves: complete, documented, and in the words that a task uses."""

import msgspec
import pytest

from inspan.config import AgentSettings, Settings
from inspan.config.keys import format_key, key_tree, leaves
from inspan.config.settings import LimitSettings, Server
from inspan.protocol.limits import Limits, WatchdogLimits
from inspan.protocol.task import McpServer, Task

KEYS = {format_key(path).replace('"*"', "NAME"): leaf for path, leaf in leaves(key_tree())}
GUARDED = {
    *(f"runtime.{name}" for name in ("mode", "profile", "sandbox", "net", "read", "image", "print_command")),
    *(f"agents.NAME.{name}" for name in ("program", "login", "key_env", "key_file", "key_cmd", "keyring", "env.NAME")),
    *("agents.NAME.options", "agents.NAME.base_url", "limits.largest_answer"),
    *(f"limits.{name}" for name in ("memory", "cpus", "pids")),
    *(f"agents.NAME.{name}" for name in ("dialect", "command", "flags")),
    *(f"budget.{name}" for name in ("project", "task", "run")),
    *(f"prices.NAME.{name}" for name in ("input", "output", "cache_read", "cache_write")),
    *(f"providers.NAME.{name}" for name in ("requests_per_minute", "tokens_per_minute", "concurrent_calls")),
    *("providers.NAME.longest_hold", "watchdog.triage"),
    *(f"mcp.NAME.{name}" for name in ("command", "args", "env.NAME", "url", "headers.NAME")),
}


def test_every_key_says_what_it_is_for_in_a_sentence() -> None:
    assert [key for key, leaf in KEYS.items() if not leaf.note.doc.endswith(".")] == []


def test_exactly_these_keys_need_trust_and_these_are_hidden() -> None:
    assert {key for key, leaf in KEYS.items() if leaf.note.guarded} == GUARDED
    hidden = {key for key, leaf in KEYS.items() if leaf.note.secret}
    assert hidden == {"agents.NAME.env.NAME", "mcp.NAME.env.NAME", "mcp.NAME.headers.NAME"}
    assert {key for key, leaf in KEYS.items() if leaf.note.user_only} == {"projects.trusted"}


def test_every_default_is_a_value_of_its_key() -> None:
    for leaf in KEYS.values():
        assert leaf.note.value_type.read(leaf.note.value_type.to_toml(leaf.default)) == leaf.default


def test_the_limits_without_configuration_are_those_of_a_task() -> None:
    assert Settings().limits.to_limits() == Limits()
    assert LimitSettings.__struct_fields__ == Limits.__struct_fields__


def test_the_watchdog_without_configuration_is_that_of_a_task() -> None:
    assert Settings().watchdog.to_limits() == WatchdogLimits()


def test_a_server_is_one_that_a_task_can_hold() -> None:
    assert Server.__struct_fields__ == McpServer.__struct_fields__
    task = Task(prompt="x", cwd="/", mcp_servers={"docs": Server(command="serve", args=("-v",))})
    read = msgspec.json.decode(msgspec.json.encode(task), type=Task)
    assert read.mcp_servers == {"docs": McpServer(command="serve", args=("-v",))}


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ({}, ""),
        ({"key_env": "KEY"}, "env:KEY"),
        ({"key_file": "/k"}, "file:/k"),
        ({"key_cmd": "pass show k"}, "cmd:pass show k"),
        ({"keyring": "inspan/me"}, "keyring:inspan/me"),
    ],
)
def test_the_place_of_a_key_is_told_as_a_task_tells_it(said: dict[str, str], place: str) -> None:
    assert AgentSettings(**said).key_from == place  # pyright: ignore[reportArgumentType]  names of texts


MODELS = Settings(
    models={"fast": "small", "deep": "large"},
    agents={"codex": AgentSettings(model="deep", models={"fast": "tiny"})},
)


@pytest.mark.parametrize(
    ("agent", "asked", "model"),
    [
        ("codex", "", "large"),
        ("codex", "fast", "tiny"),
        ("codex", "other", "other"),
        ("scripted", "fast", "small"),
        ("scripted", "", ""),
    ],
)
def test_a_model_is_what_was_asked_for_then_the_agents_own_and_aliases_are_resolved(
    agent: str, asked: str, model: str
) -> None:
    assert MODELS.model(agent, asked=asked) == model
