"""Agents of the user's own on the command line: listed, looked at by the doctor, run, resumed, replayed."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.agents.fake_provider import KEY, FakeProvider, PlannedAnswer
from tests.cli_env import CliEnv, FinishedRun

from .refusal import expect_refusal
from .scenarios import SAYS_HELLO


def configure(cli_env: CliEnv, text: str) -> None:
    folder = Path(cli_env.env["HOME"]) / ".config" / "inspan"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(text)


def agents(cli_env: CliEnv) -> dict[str, dict[str, Any]]:
    return {each["agent"]: each for each in json.loads(cli_env.inspan("agents", "--json").stdout)["agents"]}


@pytest.fixture
def wrapper(cli_env: CliEnv) -> str:
    """A program of the user's that starts the real one, and notes how it was started itself."""
    path = cli_env.root / "my-codex"
    noted = cli_env.root / "noted"
    path.write_text(
        f'#!/bin/sh\necho "$MINE|$1|$2|$3" > {noted}\nshift 2\nexec {cli_env.env["INSPAN_CODEX_BIN"]} "$@"\n'
    )
    path.chmod(0o755)
    return str(path)


def test_a_known_program_by_another_name_command_flags_and_variables(cli_env: CliEnv, wrapper: str) -> None:
    configure(
        cli_env,
        f'[agents.mine]\ndialect = "codex"\ncommand = "{wrapper} --first"\nflags = ["--second"]\n'
        'env = {MINE = "here I am"}\nmodel = "gpt-5.5"\n',
    )
    listed = agents(cli_env)["mine"]
    assert (listed["version"], listed["program"]) == ("-", wrapper)
    run = cli_env.run("mine", SAYS_HELLO)
    assert (run.verdict, run.stdout) == (("completed", "done", 0), "hello\n"), run.stderr
    assert (cli_env.root / "noted").read_text() == "here I am|--first|--second|exec\n"
    assert [event["agent"] for event in run.select_events("run_started")] == ["mine"]
    assert [call["model"] for call in run.select_events("model_call_ended")] == ["gpt-5.5"]
    again = cli_env.inspan(
        *("run", "once more", "-r", run.run_id, "--model-from", cli_env.scenario(SAYS_HELLO, "again"), "-q"),
    )
    assert (again.returncode, again.stdout) == (0, "hello\n"), again.stderr
    cli_env.inspan("export", run.run_id, "-o", "r.jsonl")
    header = json.loads((cli_env.work / "r.jsonl").read_text().split("\n")[0])
    assert header["agent"] == "codex"  # For others, who have no such agent.
    assert cli_env.inspan("play", "r.jsonl").returncode == 0


def test_an_api_of_the_users_own_is_asked_at_its_address(cli_env: CliEnv) -> None:
    with FakeProvider(lambda _: PlannedAnswer(words="from my own server"), cwd=cli_env.work) as till:
        configure(
            cli_env,
            f'[agents.local]\ndialect = "chat"\nbase_url = "{till.url}/v1"\nmodel = "llama"\nkey_env = "MY_KEY"\n'
            '[runtime]\ndefault = "local"\nmode = "complete"\n',
        )
        done = cli_env.inspan("run", "hi", env={"MY_KEY": KEY})
    run = FinishedRun(cli_env, done)
    assert (run.verdict, run.stdout) == (("completed", "done", 0), "from my own server\n"), run.stderr
    assert [(entry.asked.key, entry.asked.ask.model) for entry in till.entries] == [(KEY, "llama")]
    assert run.events[0]["agent"] == "local"


def test_the_doctor_looks_at_it_as_at_any_other(cli_env: CliEnv, wrapper: str) -> None:
    configure(
        cli_env,
        f'[agents.mine]\ndialect = "codex"\ncommand = "{wrapper}"\n'
        '[agents.gone]\ndialect = "codex"\ncommand = "nowhere-at-all"\n'
        '[agents.odd]\ndialect = "acp"\n',
    )
    found = {each["subject"]: each for each in json.loads(cli_env.inspan("doctor", "--json").stdout)["findings"]}
    assert wrapper in found["agent mine"]["detail"]
    assert found["agent gone"]["state"] == "problem"
    assert "'nowhere-at-all'" in found["agent gone"]["detail"]
    assert (found["agent odd"]["state"], "it needs one" in found["agent odd"]["detail"]) == ("problem", True)


@pytest.mark.parametrize(
    ("text", "name", "code", "message", "next_step"),
    [
        (
            '[agents.mine]\ndialect = "codex"\n',
            "mien",
            "unknown_agent",
            "agent 'mien': unknown agent.",
            "Did you mean 'mine'? Known agents: ",
        ),
        (
            '[agents.mine]\ndialect = "codex"\ncommand = "nowhere-at-all -v"\n',
            "mine",
            "agent_missing",
            "mine was not found; looked for 'nowhere-at-all' in: PATH.",
            "",
        ),
        (
            '[agents.mine]\ndialect = "codx"\n',
            "mine",
            "bad_config",
            "agents.mine.dialect 'codx': unknown agent (in ",
            "Did you mean 'codex'?",
        ),
        (
            '[agents.codex]\ndialect = "scripted"\n',
            "codex",
            "bad_config",
            "key 'agents.codex': is an agent already, and stays what it is (in ",
            "Choose another name for your own.",
        ),
    ],
)
def test_what_is_wrong_with_it_is_told_with_the_next_step(
    cli_env: CliEnv, text: str, name: str, code: str, message: str, next_step: str
) -> None:
    configure(cli_env, text)
    refusal = expect_refusal(cli_env, "run", "x", "-a", name, "--profile", "clean", env={"CODEX_API_KEY": KEY})
    assert refusal.code == code
    assert refusal.message.startswith(message)
    assert refusal.next.startswith(next_step)


def test_a_project_cannot_bring_a_program_unasked(cli_env: CliEnv) -> None:
    marker = cli_env.root / "ran"
    (cli_env.work / "inspan.toml").write_text(
        f'[agents.mine]\ndialect = "scripted"\ncommand = "/bin/touch {marker}"\n[runtime]\ndefault = "mine"\n'
    )
    refusal = expect_refusal(cli_env, "run", "x")
    assert refusal.code == "bad_config"
    assert "projects.trusted" in refusal.next
    assert not os.path.lexists(marker)
