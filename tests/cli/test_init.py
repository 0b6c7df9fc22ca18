"""`init`: a project's file that is written whole, checked and used, or not written at all."""

import json
import os
import tomllib
from pathlib import Path

import pytest

from tests.cli_env import CliEnv

from .conftest import Open
from .dialogue import CTRL_C, answer_questions
from .refusal import expect_refusal, parse_refusal
from .scenarios import SAYS_HELLO

TWO_CALLS = '[[call]]\nrun = "true"\n\n[[call]]\nsay = "done"\n'


def project_file(cli_env: CliEnv) -> Path:
    return cli_env.work / "inspan.toml"


def user_file(cli_env: CliEnv) -> Path:
    return Path(cli_env.env["HOME"], ".config", "inspan", "config.toml")


def read_values(cli_env: CliEnv) -> dict[str, object]:
    return tomllib.loads(project_file(cli_env).read_text())


def test_what_was_chosen_is_written_with_comments_and_counts(cli_env: CliEnv) -> None:
    done = cli_env.inspan("init", "--agent", "scripted", "--budget", "1calls", "--sandbox", "none")
    assert (done.returncode, done.stderr) == (0, "")
    wrote, trusted, _ = done.stdout.splitlines()
    assert wrote == f"wrote {project_file(cli_env)}"
    assert trusted.startswith(f"trusted: {cli_env.work} ")
    values = {"runtime": {"default": "scripted", "sandbox": "none"}, "budget": {"run": "1calls"}}
    assert read_values(cli_env) == values
    assert project_file(cli_env).read_text().count("\n# ") >= 3
    assert tomllib.loads(user_file(cli_env).read_text()) == {"projects": {"trusted": [str(cli_env.work)]}}
    for key, value in (("runtime.default", "scripted"), ("runtime.sandbox", "none"), ("budget.run", "1calls")):
        assert cli_env.inspan("config", "get", key).stdout == f"{value}\n"


def test_the_next_run_uses_it(cli_env: CliEnv) -> None:
    cli_env.inspan("init", "--agent", "scripted", "--budget", "1calls")
    done = cli_env.inspan("run", "do it", "--model-from", cli_env.scenario(TWO_CALLS))
    assert done.returncode == 6, done.stderr
    assert cli_env.events()[0]["agent"] == "scripted"


def test_comments_stay_when_a_key_is_changed_later(cli_env: CliEnv) -> None:
    cli_env.inspan("init", "--agent", "scripted")
    before = project_file(cli_env).read_text()
    assert cli_env.inspan("config", "set", "--project", "runtime.default", "codex").returncode == 0
    assert project_file(cli_env).read_text() == before.replace('"scripted"', '"codex"')


def test_what_needs_no_trust_brings_none(cli_env: CliEnv) -> None:
    done = cli_env.inspan("init", "--agent", "scripted", "--budget", "none", "--sandbox", "auto", "--json")
    value = json.loads(done.stdout)
    assert value["trusted"] is False
    assert (value["agent"], value["budget"], value["sandbox"]) == ("scripted", "", "")
    assert read_values(cli_env) == {"runtime": {"default": "scripted"}, "budget": {}}
    assert not user_file(cli_env).exists()


def test_what_is_suggested_is_taken_without_a_question(cli_env: CliEnv) -> None:
    cli_env.inspan("config", "set", "runtime.default", "scripted")
    done = cli_env.inspan("init", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert read_values(cli_env) == {"runtime": {"default": "scripted"}, "budget": {}}


def test_the_suggested_agent_is_one_that_could_work(cli_env: CliEnv) -> None:
    done = cli_env.inspan("init", "--yes", "--json", env={"CODEX_API_KEY": "sk-made-up-0123456789"})
    assert json.loads(done.stdout)["agent"] == "codex"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), "usage", "Cannot ask here"),
        (("--agent", "nope"), "unknown_agent", "unknown agent"),
        (("--agent", ""), "unknown_agent", "it is empty"),
        (("--agent", "codex@0.163.0"), "bad_input", "neither a version nor a command"),
        (("--agent", "acp:cat"), "bad_input", "neither a version nor a command"),
        (("--budget", "lots"), "bad_input", "--budget 'lots'"),
        (("--budget", ""), "bad_input", "--budget ''"),
        (("--budget", "2usd\nx"), "bad_input", "budget"),
        (("--sandbox", "nope"), "bad_input", "unknown sandbox"),
        (("--sandbox", ""), "bad_input", "unknown sandbox"),
        (("--yes", "--budget", "lots"), "bad_input", "--budget 'lots'"),
    ],
    ids=str,
)
def test_bad_input_writes_nothing(cli_env: CliEnv, arguments: tuple[str, ...], code: str, words: str) -> None:
    refusal = expect_refusal(cli_env, "init", *arguments)
    assert (refusal.exit_code, refusal.code) == (2, code)
    assert words in refusal.message


@pytest.mark.parametrize("content", ["", "[runtime]\n", "no TOML at all ="])
def test_a_file_that_is_there_is_never_overwritten(cli_env: CliEnv, content: str) -> None:
    project_file(cli_env).write_text(content)
    for arguments in (("--yes",), ("--agent", "scripted")):
        refusal = expect_refusal(cli_env, "init", *arguments)
        assert (refusal.exit_code, refusal.code) == (2, "bad_config")
        assert "is there already" in refusal.message
        assert "inspan config set --project" in refusal.next
    assert project_file(cli_env).read_text() == content


def test_from_a_folder_below_the_file_is_the_projects(cli_env: CliEnv) -> None:
    (cli_env.work / ".git").mkdir()
    below = cli_env.work / "src" / "deep"
    below.mkdir(parents=True)
    assert cli_env.inspan("init", "--agent", "scripted", cwd=below).returncode == 0
    assert project_file(cli_env).exists()
    assert os.listdir(below) == []


def test_a_folder_that_everybody_may_write_to_has_no_project(cli_env: CliEnv) -> None:
    shared = cli_env.root / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    done = cli_env.inspan("init", "--agent", "scripted", cwd=shared)
    assert (done.returncode, done.stdout, os.listdir(shared)) == (2, "", [])
    assert "everybody may write here" in done.stderr


def test_a_local_file_of_a_stranger_is_not_trusted_along_with_the_new_one(cli_env: CliEnv) -> None:
    (cli_env.work / "inspan.local.toml").write_text('[mcp.x]\ncommand = "./evil"\n')
    refusal = expect_refusal(cli_env, "init", "--agent", "scripted", "--budget", "1calls")
    assert (refusal.exit_code, refusal.code) == (2, "bad_config")
    assert "inspan.local.toml" in refusal.message
    assert "projects.trusted" in refusal.next


def test_where_the_file_cannot_be_written_nothing_is_trusted(user_cli_env: CliEnv) -> None:
    user_cli_env.work.chmod(0o555)
    try:
        done = user_cli_env.inspan("init", "--agent", "scripted", "--budget", "1calls", "--json")
    finally:
        user_cli_env.work.chmod(0o755)
    refusal = parse_refusal(done)
    assert (refusal.code, project_file(user_cli_env).exists()) == ("bad_config", False)
    assert "cannot be written" in refusal.message
    trusted = user_cli_env.inspan("config", "get", "projects.trusted")
    assert (trusted.returncode, trusted.stdout.strip()) == (0, "")


def test_a_home_that_cannot_be_written_to_leaves_the_project_as_it_was(user_cli_env: CliEnv) -> None:
    home = Path(user_cli_env.env["HOME"])
    home.chmod(0o555)
    try:
        refused = user_cli_env.inspan("init", "--agent", "scripted", "--budget", "1calls", "--json")
        fine = user_cli_env.inspan("init", "--agent", "scripted", "--json")
    finally:
        home.chmod(0o755)
    assert parse_refusal(refused).code == "bad_config"
    assert fine.returncode == 0, fine.stderr  # Without a budget there is nothing to write there.


def test_a_broken_file_of_the_users_own_is_told_and_nothing_is_written(cli_env: CliEnv) -> None:
    user_file(cli_env).parent.mkdir(parents=True)
    user_file(cli_env).write_text("[")
    refusal = expect_refusal(cli_env, "init", "--agent", "scripted", "--budget", "1calls")
    assert refusal.code == "bad_config"
    assert str(user_file(cli_env)) in refusal.message


def test_at_a_terminal_it_asks_and_asks_again(cli_env: CliEnv) -> None:
    answers = [
        ("Agent [", b"nope\n"),
        ("Agent [", b"scripted\n"),
        ("or none) [none]", b"lots\n"),
        ("or none) [none]", b"50calls\n"),
        ("none) [auto]", b"\n"),
        ("[Y/n]", b"\n"),
    ]
    code, shown = answer_questions(cli_env, ("init",), answers, env={"CODEX_API_KEY": "sk-made-up-0123456789"})
    assert code == 0, shown
    assert "agent 'nope': unknown agent." in shown
    assert "key in CODEX_API_KEY" in shown
    assert "sk-made-up" not in shown
    assert "budget 'lots': " in shown
    assert "and trust this project" in " ".join(shown.split())
    assert read_values(cli_env) == {"runtime": {"default": "scripted"}, "budget": {"run": "50calls"}}


@pytest.mark.parametrize("question", ["Agent [", "or none) [none]", "[auto]", "[Y/n]"])
def test_ctrl_c_at_any_question_writes_nothing(cli_env: CliEnv, question: str) -> None:
    options = ("--agent", "scripted") if question != "Agent [" else ()
    order = ["Agent [", "or none) [none]", "[auto]", "[Y/n]"]
    before = [(each, b"1calls\n" if "none]" in each else b"\n") for each in order[1 : order.index(question)]]
    code, shown = answer_questions(cli_env, ("init", *options), [*before, (question, CTRL_C)])
    assert code == 130, shown
    assert not project_file(cli_env).exists()
    assert not user_file(cli_env).exists()


def test_a_no_at_the_end_writes_nothing(cli_env: CliEnv) -> None:
    options = ("--agent", "scripted", "--budget", "1calls", "--sandbox", "none")
    code, shown = answer_questions(cli_env, ("init", *options), [("[Y/n]", b"n\n")])
    assert (code, project_file(cli_env).exists()) == (1, False)
    assert shown.rstrip().endswith("nothing written")


def test_its_questions_and_its_preview_are_not_broken_within_words(open_terminal: Open) -> None:
    terminal = open_terminal("init", "--agent", "scripted", "--budget", "50calls", columns=50)
    terminal.wait_for_text("none) [auto]:")
    terminal.type_keys("bwrap\n")
    terminal.wait_for_text("[Y/n]:")
    terminal.type_keys("n\n")
    assert terminal.wait_for_end() == 1
    assert [row for row in terminal.broken if "/" not in row] == []  # Paths of tests are longer than a line.


def test_a_run_says_the_same_as_one_with_options(cli_env: CliEnv) -> None:
    cli_env.inspan("init", "--agent", "scripted")
    done = cli_env.inspan("run", "hello", "-q", "--model-from", cli_env.scenario(SAYS_HELLO))
    assert done.returncode == 0
