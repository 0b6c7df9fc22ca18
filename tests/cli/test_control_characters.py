"""What an agent prints is shown to the reader and never obeyed by the terminal."""

import io
import re
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from inspan.cli.console import Console
from inspan.protocol.events import TextDelta, TextSaid, ToolCompleted, ToolStarted
from tests.cli_env import CliEnv
from tests.emulated_terminal import EmulatedTerminal

SPELL = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\x00tab\tline\n"


def test_control_characters_of_an_agent_are_made_visible() -> None:
    screen = io.StringIO()
    console = Console(screen)
    for event in (
        TextSaid(text=SPELL),
        TextDelta(block="1", text=SPELL),
        ToolStarted(id="1", name=f"shell{SPELL}", input={"command": SPELL}),
        ToolCompleted(id="1", output=SPELL),
    ):
        console.show(event)
    shown = screen.getvalue()
    assert {character for character in shown if not character.isprintable()} == {"\n", "\t"}
    assert "␛[2J" in shown


@pytest.mark.parametrize(
    "command",
    [("events",), ("show", "--json"), ("ps", "-a", "--json"), ("logs", "--raw"), ("logs",), ("show",), ("ps", "-a")],
)
def test_a_terminal_obeys_nothing_whatever_the_form(spoken: CliEnv, command: tuple[str, ...]) -> None:
    with EmulatedTerminal(spoken.argv(*command), cwd=spoken.work, env=spoken.env) as terminal:
        assert terminal.wait_for_end() == 0
    shown = re.sub(r"\x1b\[[0-9;]*m", "", terminal.written.decode())
    assert "tail" in shown
    assert {character for character in shown if not character.isprintable()} <= {"\r", "\n", "\t"}


@pytest.fixture
def spoken(cli_env: CliEnv) -> CliEnv:
    """A run whose prompt and answer turn text around and have controls of eight bits."""
    scenario = cli_env.scenario('[[call]]\nsay = "\\u009b2J \\u202e \\u2066 \\u200b \\u007f tail"\n')
    prompt = "\x9b2J \u202e tail"
    assert cli_env.inspan("run", prompt, "-q", "-a", "scripted", "--model-from", scenario).returncode == 0
    (raw,) = cli_env.state.glob("projects/*/*/runs/*/stdout")
    raw.write_bytes(raw.read_bytes() + "\x1b]0;owned\x07 \x9b2J tail\n".encode())
    return cli_env


def test_names_of_older_runs_are_shown_in_one_line_and_not_obeyed(cli_env: CliEnv) -> None:
    cli_env.run("scripted", "[[call]]\nsay = 'hi'\n", "--project", "shop", "--task", "fix", "--budget", "project=9usd")
    made = cli_env.state / "projects" / "shop"
    (made / "fix").rename(made / "a\tb")
    made.rename(made.with_name("a\n\x1b[31mb\x9b"))
    _rename_in_ledger(cli_env.state / "ledger.db", project="a\n\x1b[31mb\x9b", task="a\tb")
    assert cli_env.inspan("reindex").returncode == 0
    commands = (
        ("cost", "--by", "project"),
        ("cost", "--by", "task"),
        ("prune", "--older-than", "0d", "--all-projects", "--dry-run"),
        ("prune", "--older-than", "0d", "--all-projects"),
        ("budget",),
        ("ps", "-a"),
    )
    for command in commands:
        done = cli_env.inspan(*command)
        shown = done.stdout + done.stderr
        odd = {character for character in shown if not character.isprintable()}
        assert odd <= {"\n"}, (command, shown)
        assert any("␛[31mb" in line and "␊" in line for line in shown.splitlines()) or command[0] == "ps"


@pytest.mark.parametrize("command", ["show", "diff", "undo --yes", "apply --yes"])
def test_the_name_of_a_folder_is_shown_in_one_line_and_not_obeyed(cli_env: CliEnv, command: str) -> None:
    (odd := cli_env.work / "a\n\x1b[31mb").mkdir()
    subprocess.run(["git", "init", "-q", str(odd)], env=cli_env.env, check=True)
    run = cli_env.run(
        "scripted", "[[call]]\nwrite = {path = 'x.txt', content = 'x'}\n[[call]]\nsay = 'hi'\n", "-C", str(odd)
    )
    shown = [run.stderr.splitlines()[0]]
    # As a terminal gets it: what goes elsewhere has its escape sequences taken out on the way.
    terminal = EmulatedTerminal(
        cli_env.argv(*command.split()[:1], run.run_id, *command.split()[1:]),
        cwd=odd,
        env=cli_env.env,
        columns=200,
        rows=60,
    )
    with terminal:
        assert terminal.wait_for_end() == 0
        shown += terminal.scrolled
    assert [line for line in shown if line.startswith("b") or "/a␛" in line or line.endswith("/a")] == []
    assert any("/a␊␛[31mb" in line for line in shown)


def _rename_in_ledger(path: Path, **names: str) -> None:
    with closing(sqlite3.connect(path)) as ledger, ledger:
        for (table,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            columns = {row[1] for row in ledger.execute(f"PRAGMA table_info({table})")}
            for name in columns & names.keys():
                ledger.execute(f"UPDATE {table} SET {name} = ? WHERE {name} != ''", (names[name],))
