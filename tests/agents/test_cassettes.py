"""Cassettes on the command line: real agents, recorded from a provider on loopback, are played to the same events."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from inspan.gateway.cassettes.file import load_cassette
from inspan.gateway.cassettes.path_placeholders import PathPlaceholders
from inspan.gateway.cassettes.rules import normalize_text
from inspan.redaction import SecretSet
from tests.cli_env import CliEnv
from tests.gateway.scripted_gateway import TOKEN, ScriptedGateway

from .styles import CLAUDE, Style, each_agent, each_style

Event = dict[str, Any]
# A provider's key, which is all that the provider of the tests lets in.
KEYS = {"ANTHROPIC_API_KEY": TOKEN, "CODEX_API_KEY": TOKEN}
PLANTED = "pl4nted-s3cret-value"
RUN_ID = re.compile(r"\d{8}-\d{9}-\d+")
# How long it took, and what it cost: a replay costs nothing.
NOT_PLAYED = ("duration_s", "cost_usd", "cost_kind")
STEPS = f"""
[[call]]
think = "pondering"
say = ["All ", "right, {PLANTED[:5]}", "{PLANTED[5:]}."]
run = "pwd; date; echo $HOME; cat /proc/sys/kernel/random/uuid; printenv THE_SECRET; cat greeting.txt; false"
[[call]]
write = {{path = "written.txt", content = "one\\ntwo\\n"}}
[[call]]
edit = {{path = "greeting.txt", old = "hello", new = "good day"}}
[[call]]
say = "Finished."
usage = {{input = 250, output = 12}}
"""


@pytest.fixture
def other_cli_env(tmp_path: Path, binaries: dict[str, str]) -> Iterator[CliEnv]:
    """A house in another place, where the same is done again."""
    root = tmp_path / "somewhere" / "else" / "another-house"
    root.mkdir(parents=True)
    made = CliEnv(root, binaries=binaries)
    yield made
    made.close()


def run(cli_env: CliEnv, style: Style, *more: str, prompt: str = "do it", env: dict[str, str] | None = None) -> int:
    (cli_env.work / "greeting.txt").write_text("hello\nworld\n")
    planted = ("--env", f"THE_SECRET={PLANTED}")
    arguments = ("-q", "-a", style.agent, "--profile", "clean", *style.arguments, *planted, *more)
    return cli_env.inspan("run", prompt, *arguments, env=env).returncode


def record(cli_env: CliEnv, style: Style, tape: Path, *, steps: str = STEPS, prompt: str = "do it") -> None:
    with ScriptedGateway(steps, cwd=str(cli_env.work)) as provider:
        where = ("--model-from", f"record:{tape}", "--base-url", f"http://127.0.0.1:{provider.port}")
        code = run(cli_env, style, *where, prompt=prompt, env=KEYS)
        assert (code, provider.script.mismatch) == (0, ""), cli_env.events()[-1]
    assert {call.problem for call in provider.calls_so_far()} == {""}


def events(cli_env: CliEnv) -> tuple[list[Event], list[Event]]:
    """What the agent and what the gateway told, each in its order, without what is different each time."""
    places = PathPlaceholders(
        {"cwd": str(cli_env.work), "home": str(cli_env.root / "home"), "state": str(cli_env.state)}
    )
    told = [env_without_agents(event, places) for event in cli_env.events() if event["kind"] != "run_started"]
    calls = [event for event in told if event["kind"] == "model_call_ended"]
    return [event for event in told if event not in calls], calls


def env_without_agents(value: Any, places: PathPlaceholders) -> Any:
    if isinstance(value, dict):
        found = cast(dict[str, Any], value)
        return {key: env_without_agents(item, places) for key, item in found.items() if key not in NOT_PLAYED}
    if isinstance(value, list):
        return [env_without_agents(item, places) for item in cast(list[Any], value)]
    return (
        normalize_text(RUN_ID.sub("RUN", places.to_placeholders(value)), is_result=True)
        if isinstance(value, str)
        else value
    )


@each_style
def test_a_recorded_run_is_played_in_another_house(
    cli_env: CliEnv, other_cli_env: CliEnv, style: Style, tmp_path: Path
) -> None:
    tape = tmp_path / "tape.jsonl"
    record(cli_env, style, tape)
    assert run(other_cli_env, style, "--model-from", f"replay:{tape}") == 0
    assert events(other_cli_env) == events(cli_env)
    names = ("greeting.txt", "written.txt")
    written = [[(each.work / name).read_text() for name in names] for each in (cli_env, other_cli_env)]
    assert written == [["good day\nworld\n", "one\ntwo\n"]] * 2


@each_agent
def test_neither_the_key_nor_a_secret_nor_a_folder_stands_in_the_cassette(
    cli_env: CliEnv, style: Style, tmp_path: Path
) -> None:
    tape = tmp_path / "tape.jsonl"
    record(cli_env, style, tape)
    data = tape.read_bytes()
    assert not SecretSet({"KEY": TOKEN, "THE_SECRET": PLANTED}).has_secret(data)
    assert str(cli_env.root).encode() not in data
    assert load_cassette(tape).about["agent"].startswith(f"{style.agent} ")
    assert len(load_cassette(tape).calls) == 4


@each_agent
def test_a_run_that_does_not_fit_its_cassette_fails_and_says_where(
    cli_env: CliEnv, other_cli_env: CliEnv, style: Style, tmp_path: Path
) -> None:
    tape = tmp_path / "tape.jsonl"
    record(cli_env, style, tape, steps='[[call]]\nsay = "Done."\n', prompt="paint it red")
    assert run(other_cli_env, style, "--model-from", f"replay:{tape}", prompt="paint it blue") == 1
    ended = other_cli_env.events()[-1]
    assert (ended["outcome"], ended["reason"]) == ("failed", "script")
    difference = "part 1, the text, was 'paint it red' and is now 'paint it blue'."
    assert f"Request 1 is not call 1 of the cassette: {difference}" in ended["message"]


def test_a_run_needs_no_key_and_no_provider_to_be_played(
    cli_env: CliEnv, other_cli_env: CliEnv, tmp_path: Path
) -> None:
    tape = tmp_path / "tape.jsonl"
    record(cli_env, CLAUDE, tape, steps='[[call]]\nsay = "Done."\n')
    assert run(other_cli_env, CLAUDE, "--model-from", f"replay:{tape}") == 0


@pytest.mark.parametrize("kind", ["record", "replay"])
def test_a_cassette_that_cannot_be_used_is_refused_before_the_run_starts(
    cli_env: CliEnv, kind: str, tmp_path: Path
) -> None:
    tape = tmp_path / "tape.jsonl"
    tape.write_text("precious")
    done = cli_env.inspan("run", "do it", "-a", "claude", "--model-from", f"{kind}:{tape}", env=KEYS)
    problem = {"record": "the file already exists", "replay": "it is not a cassette: line 1 is not a header"}
    assert done.returncode == 2
    assert f"inspan: --model-from '{tape}': {problem[kind]}" in done.stderr
    assert tape.read_text() == "precious"
    assert list(cli_env.state.glob("projects/*/*/runs/*")) == []
