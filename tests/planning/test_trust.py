"""Trust in a project holds for what its files said by then, and not for what an agent makes of them."""

import os
from pathlib import Path

import pytest

from inspan.errors import BadConfig, StateUnusable
from inspan.planning.settings import load_config
from tests.cli.refusal import expect_refusal
from tests.cli_env import CliEnv
from tests.config.home import Home

BOXED = '[runtime]\nsandbox = "bwrap"\n'


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    made.trust()
    return made


def read_sandbox(home: Home) -> str:
    return load_config(str(home.work), home.env).settings.runtime.sandbox


def expect_distrust(home: Home, words: str) -> None:
    with pytest.raises(BadConfig) as refused:
        load_config(str(home.work), home.env)
    assert refused.value.message.startswith(words)
    assert f"`inspan config set projects.trusted {home.work}`" in refused.value.next_step


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("project", '[runtime]\nsandbox = "none"\n', "runtime.sandbox 'none': has changed since you trusted"),
        ("project", f'{BOXED}[mcp.docs]\ncommand = "/evil"\n', "mcp.docs.command '/evil': is new since you trusted"),
        ("project", f"{BOXED}[limits]\npids = 7\n", "limits.pids 7: is new since you trusted"),
        ("project", f'{BOXED}[agents.codex.env]\nA = "plum-4711"\n', "agents.codex.env.A '***': is new since you"),
        ("project", "", "runtime.sandbox '': is gone since you trusted"),
        ("local", 'runtime.sandbox = "none"\n', "runtime.sandbox 'none': is new since you trusted"),
    ],
)
def test_what_has_changed_in_a_trusted_project_is_not_trusted(home: Home, file: str, text: str, words: str) -> None:
    home.write("project", BOXED)
    assert read_sandbox(home) == "bwrap"
    home.write("local" if file == "local" else "project", text)
    expect_distrust(home, words)


def test_a_file_that_is_deleted_takes_no_sandbox_with_it(home: Home) -> None:
    home.write("project", BOXED)
    assert read_sandbox(home) == "bwrap"
    home.paths["project"].unlink()
    expect_distrust(home, "runtime.sandbox '': is gone since you trusted this project")


def test_a_file_that_comes_to_a_trusted_folder_without_one_is_not_trusted(home: Home) -> None:
    assert read_sandbox(home) == ""
    home.write("project", '[agents.codex]\nprogram = "/evil"\n')
    expect_distrust(home, "agents.codex.program '/evil': is new since you trusted this project")


def test_what_needs_no_trust_may_change(home: Home) -> None:
    home.write("project", BOXED)
    assert read_sandbox(home) == "bwrap"
    home.write("project", f'# New.\n[limits]\ntimeout = "1h"\n{BOXED}')
    assert read_sandbox(home) == "bwrap"


def test_a_record_that_cannot_be_read_is_no_trust(home: Home) -> None:
    home.write("project", BOXED)
    assert read_sandbox(home) == "bwrap"
    (record,) = (Path(home.env["HOME"]) / ".local/state/inspan/trusted").iterdir()
    record.write_text("{}")
    with pytest.raises(StateUnusable, match="does not say what was trusted"):
        read_sandbox(home)


def test_commands_of_the_user_keep_trust(cli_env: CliEnv) -> None:
    """By init, by naming the folder again, and by setting a key, which says nothing of the others."""
    file = cli_env.work / "inspan.toml"

    def inspan(*words: str) -> str:
        done = cli_env.inspan(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    inspan("init", "--agent", "scripted", "--sandbox", "bwrap", "--yes")
    file.write_text(file.read_text().replace("bwrap", "none"))
    refusal = expect_refusal(cli_env, "run", "x")
    assert refusal.message.startswith("runtime.sandbox 'none': has changed since you trusted this project")
    inspan("config", "set", "projects.trusted", ".")
    assert inspan("config", "get", "runtime.sandbox") == "none"
    inspan("config", "set", "--project", "runtime.sandbox", "bwrap")
    assert inspan("config", "get", "runtime.sandbox") == "bwrap"
    file.write_text(f'{file.read_text()}\n[agents.codex]\nprogram = "/evil"\n')
    inspan("config", "set", "--project", "runtime.net", "open")
    refusal = expect_refusal(cli_env, "run", "x")
    assert refusal.message.startswith("agents.codex.program '/evil': is new since you trusted this project")
    inspan("config", "unset", "--project", "agents.codex")
    inspan("config", "unset", "--project", "runtime.sandbox")
    assert inspan("config", "get", "runtime.net") == "open"


def test_a_project_is_the_same_by_every_name_of_its_folder(home: Home) -> None:
    home.write("project", BOXED)
    link = home.root / "link"
    link.symlink_to(home.work)
    assert load_config(str(link), home.env).settings.runtime.sandbox == "bwrap"
    home.write("project", '[runtime]\nsandbox = "none"\n')
    expect_distrust(home, "runtime.sandbox 'none'")
    assert len(os.listdir(home.root / ".local/state/inspan/trusted")) == 1
