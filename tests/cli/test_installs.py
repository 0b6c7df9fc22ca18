"""`agents uninstall` and `agents update`: only what inspan installed, all of it or nothing, and asked before."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from inspan.agents.registry import find_driver
from inspan.contracts.driver import Install
from tests.cli_env import CliEnv
from tests.npm_registry import Registry

from .dialogue import CTRL_C, answer_questions
from .refusal import expect_refusal, parse_refusal

RECIPE = find_driver("pi").program.install
NEWEST = RECIPE.version
# Nothing can be had here: the port is closed.
NO_REGISTRY = {"npm_config_registry": "http://127.0.0.1:9", "npm_config_fetch_retries": "0"}


@pytest.fixture
def cli_env(tmp_path: Path) -> Iterator[CliEnv]:
    """A house without any agent, on PATH or named by a variable."""
    (tmp_path / "house").mkdir()
    made = CliEnv(tmp_path / "house")
    yield made
    made.close()


def agents_folder(cli_env: CliEnv) -> Path:
    return cli_env.root / "data" / "inspan" / "agents"


def put(cli_env: CliEnv, version: str, *, command: str = "pi") -> Path:
    """A program of that version in inspan's own folder."""
    file = agents_folder(cli_env) / command / version / "bin" / command
    file.parent.mkdir(parents=True)
    file.write_text(f"#!/bin/sh\necho {version}\n")
    file.chmod(0o755)
    return file


def list_versions(cli_env: CliEnv, command: str = "pi") -> list[str]:
    folder = agents_folder(cli_env) / command
    return sorted(os.listdir(folder)) if folder.exists() else []


def test_every_version_is_deleted_and_told(cli_env: CliEnv) -> None:
    put(cli_env, "1.3.0")
    put(cli_env, NEWEST)
    folder = agents_folder(cli_env) / "pi"
    dry = cli_env.inspan("agents", "uninstall", "pi", "--dry-run")
    assert (dry.returncode, dry.stderr) == (0, "")
    assert dry.stdout.splitlines()[0] == f"pi 1.3.0 would be deleted from {folder}/1.3.0"
    assert list_versions(cli_env) == ["1.3.0", NEWEST]
    done = cli_env.inspan("agents", "uninstall", "pi", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == dry.stdout.replace("would be ", "")
    assert not folder.exists()


def test_one_version_is_deleted_and_the_others_stay(cli_env: CliEnv) -> None:
    put(cli_env, "1.3.0")
    put(cli_env, NEWEST)
    done = cli_env.inspan("agents", "uninstall", "pi@1.3.0", "--yes", "--json")
    value = json.loads(done.stdout)
    assert [each["version"] for each in value["programs"]] == ["1.3.0"]
    assert value["freed_bytes"] > 0
    assert list_versions(cli_env) == [NEWEST]


def test_the_program_of_a_channel_goes_with_its_agent_or_alone(cli_env: CliEnv) -> None:
    adapter = next(each.program for each in find_driver("claude").channels if each.program)
    put(cli_env, "1.0.0", command=adapter)
    put(cli_env, "2.1.325", command="claude")
    done = cli_env.inspan("agents", "uninstall", "claude", "--channel", "acp", "--dry-run", "--json")
    assert [Path(each["folder"]).parent.name for each in json.loads(done.stdout)["programs"]] == [adapter]
    done = cli_env.inspan("agents", "uninstall", "claude", "--yes", "--json")
    assert len(json.loads(done.stdout)["programs"]) == 2
    assert os.listdir(agents_folder(cli_env)) == []


def test_without_a_terminal_nothing_is_deleted_unless_it_is_said(cli_env: CliEnv) -> None:
    put(cli_env, NEWEST)
    refusal = expect_refusal(cli_env, "agents", "uninstall", "pi")
    assert (refusal.exit_code, refusal.code) == (2, "usage")
    assert f"Delete pi {NEWEST} (" in refusal.message
    assert "--yes" in refusal.message
    assert list_versions(cli_env) == [NEWEST]


@pytest.mark.parametrize(("answer", "left", "code"), [(b"n\n", [NEWEST], 1), (b"y\n", [], 0), (CTRL_C, [NEWEST], 130)])
def test_at_a_terminal_it_asks(cli_env: CliEnv, answer: bytes, left: list[str], code: int) -> None:
    put(cli_env, NEWEST)
    found, shown = answer_questions(cli_env, ("agents", "uninstall", "pi"), [("[y/N]", answer)])
    assert (found, list_versions(cli_env)) == (code, left), shown


@pytest.mark.parametrize("order", ["uninstall", "update"])
def test_what_inspan_did_not_install_is_named_and_left_alone(cli_env: CliEnv, tmp_path: Path, order: str) -> None:
    mine = tmp_path / "bin" / "goose"
    mine.parent.mkdir()
    mine.write_text("#!/bin/sh\necho goose 1.52.0\n")
    mine.chmod(0o755)
    env = {"PATH": f"{mine.parent}{os.pathsep}{cli_env.env['PATH']}"}
    refusal = expect_refusal(cli_env, "agents", order, "goose", env=env)
    assert (refusal.exit_code, refusal.code) == (5, "agent_missing")
    assert refusal.message.endswith(f"{mine} is not inspan's (found on PATH).")
    assert "the way it came" in refusal.next
    named = expect_refusal(cli_env, "agents", order, "goose", env={"INSPAN_GOOSE_BIN": str(mine)})
    assert named.message.endswith(f"{mine} is not inspan's (named by INSPAN_GOOSE_BIN).")
    wheel = expect_refusal(cli_env, "agents", order, "codex")
    assert wheel.message.endswith("is not inspan's (installed with pip).")
    assert mine.exists()


@pytest.mark.parametrize("order", ["uninstall", "update"])
@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("pi", 5, "inspan has not installed it"),
        ("xai", 5, "it is an API without a program"),
        ("scripted", 5, "it is a part of inspan"),
        ("acp:no-such-program", 5, "inspan has not installed it"),
        ("pii", 2, "unknown agent"),
        ("", 2, "it is empty"),
    ],
)
def test_what_is_not_there_is_told(cli_env: CliEnv, order: str, name: str, code: int, words: str) -> None:
    refusal = expect_refusal(cli_env, "agents", order, name)
    assert refusal.exit_code == code
    assert words in refusal.message


def test_an_agent_at_work_is_not_taken_away(cli_env: CliEnv) -> None:
    put(cli_env, NEWEST)
    (agents_folder(cli_env) / "pi" / NEWEST / "bin" / "pi").write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo {NEWEST} && exit\nuntil [ -e go-on ]; do sleep 0.05; done\n'
    )
    run = ("run", "wait", "-d", "-a", "pi", "--direct", "--timeout", "off", "--start-timeout", "off")
    run_id = cli_env.inspan(*run).stdout.strip()
    cli_env.wait_for_events(run_id, "run_started")
    refusal = parse_refusal(cli_env.inspan("agents", "uninstall", "pi", "--yes", "--json"))
    assert (refusal.code, refusal.message) == ("run_busy", f"Pi is at work: {run_id}.")
    assert f"inspan stop {run_id}" in refusal.next
    assert list_versions(cli_env) == [NEWEST]
    (cli_env.work / "go-on").touch()
    cli_env.inspan("wait", run_id)
    assert cli_env.inspan("agents", "uninstall", "pi", "--yes").returncode == 0


def test_an_update_says_from_where_to_where_and_keeps_the_other_version(
    cli_env: CliEnv, node: Path, npm_registry: Registry
) -> None:
    (cli_env.root / "data" / "inspan").mkdir()
    (cli_env.root / "data" / "inspan" / "node").symlink_to(node)
    put(cli_env, "1.3.0")
    publish(npm_registry, RECIPE)
    done = cli_env.inspan("agents", "update", "pi", env=npm_registry.env)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"pi 1.3.0 → {NEWEST}; 1.3.0 stays, for -a pi@1.3.0\n"
    assert list_versions(cli_env) == ["1.3.0", NEWEST]
    again = cli_env.inspan("agents", "update", "--json", env=NO_REGISTRY)
    expected = [{"agent": "pi", "program": "pi", "from": NEWEST, "to": NEWEST}]
    assert json.loads(again.stdout)["programs"] == expected
    assert cli_env.inspan("agents", "update").stdout == f"pi {NEWEST} is the newest that was tested\n"


def publish(npm_registry: Registry, recipe: Install) -> None:
    """The package as its recipe asks for it, with a program that only knows its version."""
    file = recipe.program.removeprefix(f"node_modules/{recipe.package}/")
    npm_registry.publish(recipe.package, recipe.version, {file: f"console.log('{recipe.version}')"})
    for each in recipe.extra_packages:
        name, _, version = each.rpartition("@")
        npm_registry.publish(name, version, {"index.js": ""})


def test_an_update_that_cannot_be_had_changes_nothing(cli_env: CliEnv, node: Path) -> None:
    (cli_env.root / "data" / "inspan").mkdir()
    (cli_env.root / "data" / "inspan" / "node").symlink_to(node)
    file = put(cli_env, "1.3.0")
    done = cli_env.inspan("agents", "update", "pi", "--json", env=NO_REGISTRY)
    assert (done.returncode, done.stdout) == (5, "")
    assert "could not be installed" in json.loads(done.stderr)["error"]["message"]
    assert (list_versions(cli_env), file.exists()) == (["1.3.0"], True)


def test_of_several_names_one_that_cannot_be_updated_stops_all(cli_env: CliEnv) -> None:
    put(cli_env, "1.3.0")
    refusal = expect_refusal(cli_env, "agents", "update", "pi", "qwen", env=NO_REGISTRY)
    assert refusal.message == "Qwen Code cannot be updated: inspan has not installed it."
    refusal = expect_refusal(cli_env, "agents", "update", "pi@1.3.0")
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")


def test_without_any_installed_agent_there_is_nothing_to_update(cli_env: CliEnv) -> None:
    done = cli_env.inspan("agents", "update")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "inspan has installed no agent: `inspan agents install NAME` does.\n"
    assert json.loads(cli_env.inspan("agents", "update", "--json").stdout)["programs"] == []
