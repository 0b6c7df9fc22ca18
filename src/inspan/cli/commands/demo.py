"""Watch a real agent fix a failing test, on a scripted model: no key, no account."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from inspan.agents.install import install
from inspan.agents.program import locate_program
from inspan.agents.registry import find_built_in_driver, find_demo_driver, find_driver
from inspan.cli.console import Console
from inspan.cli.follow import follow_run, stop_on_signals
from inspan.cli.output import apply_style, find_width, print_words, wants_colour
from inspan.cli.progress import Progress
from inspan.cli.run_names import AgentName, choose_hint_name, shorten_shown_path
from inspan.cli.start_run import start_run
from inspan.contracts.driver import Driver
from inspan.errors import AgentMissing, AgentUnusable
from inspan.protocol.reasons import FAILED, REASONS
from inspan.protocol.task import Task
from inspan.reporters.prose import fit_words
from inspan.reporters.width import cut_to_width
from inspan.stores.git import find_git
from inspan.system.programs import helper_path

_SCENARIO = Path(__file__).parent.parent / "demo.toml"
_FILES = {
    "basket.py": '"""Prices."""\n\n\ndef total(first: int, second: int) -> int:\n    return first - second\n',
    "test_basket.py": (
        "import unittest\n\nfrom basket import total\n\n\nclass Basket(unittest.TestCase):\n"
        "    def test_total_adds_prices(self) -> None:\n        self.assertEqual(total(2, 3), 5)\n"
    ),
}
_TESTS_TIMEOUT_S = 60.0


@click.command()
@click.option("-a", "--agent", type=AgentName(), help="Which agent does the work. [default: one that needs no Node]")
@click.option("--keep", is_flag=True, help="Keep the little repository afterwards.")
def command(agent: str | None, keep: bool) -> int:
    """Watch a real agent fix a failing test, on a scripted model: no key, no account, nothing to pay.

    The agent, its tools and its edits are real; only the model's answers come from a file.
    """
    chosen = _ensure_agent(find_driver(agent) if agent else find_demo_driver())
    folder = Path(tempfile.mkdtemp(prefix="inspan-demo-"))
    try:
        return _run_demo(chosen, folder)
    finally:
        if keep:
            print_words(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _ensure_agent(wanted: Driver) -> Driver:
    """The wanted agent, installed if need be; else the built-in one, and the screen says so."""
    try:
        try:
            locate_program(wanted)
        except AgentMissing:
            if os.environ.get(wanted.program_variable):
                raise
            _print_heading(f"installing {wanted.title} {wanted.program.install.version} from its wheel (once)")
            with Progress("installing") as progress:
                install(wanted, report=progress.show_install)
        return wanted
    except AgentUnusable as error:
        print_words(f"{error}\n", err=True)
        _print_heading(f"{wanted.title} is not available here: this is the BUILT-IN SCRIPTED AGENT, not {wanted.title}")
        return find_built_in_driver()


def _run_demo(agent: Driver, folder: Path) -> int:
    _make_repository(folder)
    _print_heading("a small repository with a failing test")
    red = _run_tests(folder)
    program = "not a vendor's" if agent.built_in else "real program"
    _print_heading(f"{agent.title} at work ({program}, SCRIPTED model: {_SCENARIO.name})")
    task = Task(
        prompt="The tests fail. Find out why and fix it.",
        cwd=str(folder.resolve()),
        agent=agent.name,
        profile="clean",
        model_from=f"script:{_SCENARIO}",
        project="demo",
        # A test, an edit of the same length and a test within one second: a cached .pyc would hide the edit.
        env={"PYTHONDONTWRITEBYTECODE": "1"},
    )
    prepared = start_run(task)
    stop_on_signals(prepared.folder)
    console = Console(sys.stdout, folder=prepared.folder)
    with console.hold_terminal():
        ended = follow_run(
            prepared.plan.state,
            prepared.folder,
            show=lambda record: console.show(record.event, at=record.at),
            on_idle=console.tick,
            wait_s=console.wait_s,
        )
    _print_heading("what it changed")
    _git(folder, "--no-pager", "diff", "--stat", "-p", show=True)
    _print_heading("the tests again")
    green = _run_tests(folder)
    _print_heading("red → green" if red and not green else "the demo did NOT end as it should")
    _print_next_steps(choose_hint_name(prepared.folder), prepared.folder.path)
    return REASONS[ended.reason].exit_code or (0 if red and not green else FAILED)


def _print_next_steps(run: str, path: str) -> None:
    print_words("cost: not paid; tokens are the scenario's numbers")
    print_words(f"run folder: {shorten_shown_path(path)}")
    name = "inspan" if shutil.which("inspan") else _command_name()
    print_words(f"next: `{name} show {run}` · `{name} events {run}` · `{name} doctor`")


def _command_name() -> str:
    """How this command can be called again by somebody who does not have it on PATH."""
    called = _from_here(sys.argv[0])
    return called if os.path.basename(called) == "inspan" else f"{_from_here(sys.executable)} -m inspan"


def _from_here(path: str) -> str:
    try:
        return os.path.relpath(path)
    except FileNotFoundError:  # The current folder is gone.
        return path


def _make_repository(folder: Path) -> None:
    for name, text in _FILES.items():
        (folder / name).write_text(text)
    (folder / ".gitignore").write_text("__pycache__/\n")
    _git(folder, "init", "-q")
    _git(folder, "add", ".")
    _git(folder, "-c", "user.name=demo", "-c", "user.email=demo@localhost", "commit", "-q", "-m", "A basket")


def _git(folder: Path, *arguments: str, show: bool = False) -> None:
    try:
        argv = [find_git(str(folder)), *arguments]
        env = {**os.environ, "PATH": helper_path()}
        done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        if show:
            click.echo("(git is not installed: no diff)", err=True)
        return
    if show:
        _print_verbatim(done.stdout.rstrip("\n"))


def _run_tests(folder: Path) -> int:
    """Runs the little repository's tests and prints the last lines; gives their exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "unittest"],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=_TESTS_TIMEOUT_S,
        check=False,
    )
    _print_verbatim("\n".join(done.stderr.strip().splitlines()[-4:]))
    return done.returncode


def _print_verbatim(text: str) -> None:
    """What other programs print: lines that mean something, of which a terminal shows what fits."""
    columns = find_width(sys.stdout)
    for line in text.split("\n"):
        click.echo(line if columns is None else cut_to_width(line, columns))


def _print_heading(text: str) -> None:
    colour = wants_colour(sys.stdout)
    click.echo("\n" + apply_style(fit_words(f"── {text}", sys.stdout), "bold", colour=colour), color=colour)
