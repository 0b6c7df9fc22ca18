"""Help, and what a look at it may cost; colours, where they are wanted."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from inspan import __version__
from inspan.cli.main import inspan
from tests.cli_env import CliEnv

from .conftest import Open
from .scenarios import SAYS_HELLO, strip_run_note

COMMANDS = (
    *("agents", "completion", "config", "cost", "demo", "diff", "doctor", "events", "export"),
    *("init", "kill", "login", "logs", "play", "prune", "ps", "reindex", "rm", "run", "schema", "show"),
)
HEAVY = {"asyncio", "msgspec", "genai_prices", "sqlite3", "ssl", "subprocess"}
# Of a terminal, of git, and of sessions that are copied.
FOR_OTHERS = {"shutil", "lzma", "bz2", "inspan.reporters.prose", "inspan.stores.git", "inspan.stores.repository"}
ESCAPE = "\x1b["


def test_help_names_every_command_and_every_exit_code(readonly_env: CliEnv) -> None:
    done = readonly_env.inspan("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert [name for name in (*COMMANDS, "stop", "wait") if f"\n  {name} " not in done.stdout] == []
    told = " ".join(done.stdout.split())
    meanings = ("0 done", "1 failed", "2 usage", "3 needs a person", "4 authentication", "5 agent missing")
    more = ("6 stopped by guard, budget or turn limit", "124 timeout", "130 interrupted", "143 stopped")
    assert [each for each in (*meanings, *more) if each not in told] == []


def test_help_lists_every_command_once_and_what_people_want_first_first(readonly_env: CliEnv) -> None:
    page = readonly_env.inspan("--help").stdout
    listed = re.findall(r"^  ([a-z][a-z-]*) {2,}\S", page, re.MULTILINE)
    assert sorted(listed) == sorted(inspan.list_commands(click.Context(inspan)))
    assert (listed[0], listed.index("ps") < listed.index("matrix")) == ("run", True)


def test_the_readme_names_every_command_and_those_without_json() -> None:
    readme = Path(__file__).parents[2].joinpath("README.md").read_text()
    rows = "".join(line for line in readme.splitlines() if line.startswith("| `inspan "))
    named = set(re.findall(r"`inspan ([a-z][a-z-]*)", rows))
    assert set(inspan.list_commands(click.Context(inspan))) - named == set()
    listed = re.search(r"All commands except (.*?) take `--json`", readme)
    assert listed
    assert set(re.findall(r"`([^`]+)`", listed[1])) == set(_list_commands_without_json(inspan))


def _list_commands_without_json(command: click.Command, *path: str) -> Iterator[str]:
    context = click.Context(command)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner
            yield from _list_commands_without_json(inner, *path, name)
    elif not any("--json" in option.opts for option in command.params):
        yield " ".join(path)


@pytest.mark.parametrize("words", ["--help", "config --help", "show --help"])
def test_a_help_page_fits_a_narrow_terminal(open_terminal: Open, words: str) -> None:
    terminal = open_terminal(*words.split(), columns=40)
    assert terminal.wait_for_end() == 0
    shown = terminal.written.decode().replace("\x1b[?25h", "").split("\r\n")
    assert [line for line in shown if len(line) > 40] == []


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("--version",)], ids=" ".join)
def test_help_loads_nothing_that_takes_time(readonly_env: CliEnv, arguments: tuple[str, ...]) -> None:
    argv = [sys.executable, "-X", "importtime", "-m", "inspan", *arguments]
    done = subprocess.run(argv, env=readonly_env.env, cwd=readonly_env.work, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "click" in loaded
    assert loaded & HEAVY == set()


def test_a_run_in_a_script_loads_nothing_that_only_others_need(cli_env: CliEnv) -> None:
    argv = [sys.executable, "-X", "importtime", "-m", "inspan", "run", "hi", "-a", "scripted", "--json"]
    argv += ["--profile", "clean", "--model-from", cli_env.scenario(SAYS_HELLO)]
    done = subprocess.run(argv, env=cli_env.env, cwd=cli_env.work, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "inspan.cli.follow" in loaded
    assert loaded & FOR_OTHERS == set()


@pytest.mark.parametrize(
    "command", [*COMMANDS, "stop", "wait", "agents install", "agents uninstall", "agents update", "agents exec"]
)
def test_every_command_has_help(readonly_env: CliEnv, command: str) -> None:
    done = readonly_env.inspan(*command.split(), "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: inspan {command} ")
    assert "--json" in done.stdout or command in ("demo", "config", "agents exec")


def test_no_command_at_all_shows_the_help_and_counts_as_misuse(readonly_env: CliEnv) -> None:
    done = readonly_env.inspan()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: inspan ")


def test_the_version_is_told(readonly_env: CliEnv) -> None:
    assert readonly_env.inspan("--version").stdout == f"inspan, version {__version__}\n"


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("help", "--help"),
        ("help help", "--help"),
        ("help ps", "ps --help"),
        ("help ls", "ps --help"),
        ("help agents install", "agents install --help"),
        ("ls -a", "ps -a"),
        ("ls --json", "ps --json"),
        ("version", "--version"),
    ],
)
def test_another_word_does_what_the_usual_one_does(readonly_env: CliEnv, words: str, same: str) -> None:
    done, usual = readonly_env.inspan(*words.split()), readonly_env.inspan(*same.split())
    assert (done.returncode, done.stdout, done.stderr) == (0, usual.stdout, "")


def test_another_word_is_not_listed_beside_the_usual_one(readonly_env: CliEnv) -> None:
    told = readonly_env.inspan("--help").stdout
    assert [word for word in ("ls", "help", "version") if f"\n  {word} " in told] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("help", "nope"), "No such command 'nope'."),
        (("help", "fix the test"), "No such command 'fix the test'."),
        (("help", "pruen"), "No such command 'pruen'. Did you mean 'prune'?"),
        (("help", "agents", "nope"), "No such command 'nope'."),
        (("hepl",), "No such command 'hepl'. Did you mean 'help'?"),
        (("versoin",), "No such command 'versoin'. Did you mean 'version'?"),
        (("version", "2"), "`inspan version` takes nothing more: '2'."),
        (("version", "--json"), "`inspan version` takes nothing more: '--json'."),
    ],
    ids=str,
)
def test_what_is_no_command_has_no_help(readonly_env: CliEnv, words: tuple[str, ...], message: str) -> None:
    done = readonly_env.inspan(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


@pytest.mark.parametrize("command", ["show", "logs", "doctor"])
@pytest.mark.parametrize(
    ("terminal", "env", "coloured"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
        (True, {"TERM": ""}, False),
        (False, {"TERM": "xterm"}, False),
        (False, {"FORCE_COLOR": "1"}, True),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
    ids=["terminal", "NO_COLOR", "empty NO_COLOR", "dumb terminal", "no name", "pipe", "FORCE_COLOR", "both"],
)
def test_colours_are_used_where_they_are_wanted(
    old_runs: CliEnv, command: str, terminal: bool, env: dict[str, str], coloured: bool
) -> None:
    shown = _on_a_terminal(old_runs, command, env) if terminal else old_runs.inspan(command, env=env).stdout
    assert (ESCAPE in shown) == coloured


def test_json_is_never_coloured(old_runs: CliEnv) -> None:
    assert ESCAPE not in old_runs.inspan("doctor", "--json", env={"FORCE_COLOR": "1"}).stdout


def test_what_a_narrow_encoding_cannot_write_is_no_fault(old_runs: CliEnv) -> None:
    for command in ("show", "logs", "doctor"):
        done = old_runs.inspan(command, env={"PYTHONIOENCODING": "ascii"})
        assert (done.returncode, strip_run_note(done.stderr)) == (0, "")


def _on_a_terminal(cli_env: CliEnv, command: str, env: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(cli_env.argv(command), env={**cli_env.env, **env}, cwd=cli_env.work, stdout=theirs)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:
        pass  # Linux says EIO where the other side of a terminal has closed.
    os.close(ours)
    assert process.wait(timeout=120) == 0
    return shown.decode()


@pytest.mark.parametrize(
    ("command", "words"), [("ps", "stuck (nothing was heard of it for too long)"), ("apply", "a worktree of its own")]
)
def test_help_says_all_that_a_command_shows_and_takes(cli_env: CliEnv, command: str, words: str) -> None:
    assert words in " ".join(cli_env.inspan(command, "--help").stdout.split())
