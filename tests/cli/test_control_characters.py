"""What an agent prints is shown to the reader and never obeyed by the terminal."""

import io
import sqlite3
from contextlib import closing
from pathlib import Path

from inspan.cli.console import Console
from inspan.protocol.events import TextDelta, TextSaid, ToolCompleted, ToolStarted
from tests.cli_env import CliEnv

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


def _rename_in_ledger(path: Path, **names: str) -> None:
    with closing(sqlite3.connect(path)) as ledger, ledger:
        for (table,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            columns = {row[1] for row in ledger.execute(f"PRAGMA table_info({table})")}
            for name in columns & names.keys():
                ledger.execute(f"UPDATE {table} SET {name} = ? WHERE {name} != ''", (names[name],))
