"""What the pages show is what happens: their files are written, their commands typed, their output compared."""

import json
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cli_env import CliEnv

from .pages import TypeCommand, WriteFile, matches, pages, relative_name, steps
from .terminal import Terminal

LOOKS = re.compile(r"inspan (ps|approvals)\b")
STORIES = [path for path in pages() if steps(path)]
WALKS = 4
"""How many people share the pages: so many tests can run at the same time."""


@pytest.mark.parametrize("page", STORIES, ids=relative_name)
def test_the_examples_of_a_page_do_what_it_says(cli_env: CliEnv, page: Path) -> None:
    _type_page(Terminal(cli_env), page)


@pytest.mark.parametrize("walk", range(WALKS))
def test_the_pages_can_be_typed_one_after_the_other_by_one_person(cli_env: CliEnv, walk: int) -> None:
    """In a folder each, over a history of runs, sessions and settings that grows with every page and began before."""
    _run_earlier_things(cli_env)
    for number, page in enumerate(STORIES[walk::WALKS]):
        folder = cli_env.root / f"page-{number}" / cli_env.work.name
        folder.mkdir(parents=True)
        _type_page(Terminal(cli_env, folder), page)
        assert _read_settings(cli_env) == {}, f"{relative_name(page)} leaves its settings behind"


def _run_earlier_things(cli_env: CliEnv) -> None:
    """Runs of other days in a project that no page knows: one that was done, and one that was not."""
    cli_env.run("scripted", '[[call]]\nrun = "echo earlier > earlier.txt"\n[[call]]\nsay = "Done."\n')
    failing = cli_env.scenario("[[call]]\nfail = {status = 401}\n", "failing")
    done = cli_env.inspan("run", "do it", "-a", "scripted", "--profile", "clean", "--model-from", failing)
    assert done.returncode == 4, done.stderr


def _read_settings(cli_env: CliEnv) -> dict[str, Any]:
    """What is set in the user's own file; a table without a key in it sets nothing."""
    path = Path(cli_env.env["HOME"], ".config", "inspan", "config.toml")
    return _drop_empty_tables(tomllib.loads(path.read_text())) if path.exists() else {}


def _drop_empty_tables(table: dict[str, Any]) -> dict[str, Any]:
    kept = {name: _drop_empty_tables(value) if isinstance(value, dict) else value for name, value in table.items()}  # pyright: ignore[reportUnknownArgumentType]  TOML
    return {name: value for name, value in kept.items() if value != {}}


def _type_page(terminal: Terminal, page: Path) -> None:
    for step in steps(page):
        if isinstance(step, WriteFile) and step.among_drivers:
            terminal.add_driver(step.name, step.text)
        elif isinstance(step, WriteFile):
            (terminal.folder / step.name).write_text(step.text)
        else:
            printed = _type(terminal, step)
            assert matches(step.expected, printed), f"{relative_name(page)}: $ {step.command}\n{printed}"


def _type(terminal: Terminal, step: TypeCommand) -> str:
    """What a command printed. One that only looks at what goes on is typed again, until it sees what the page shows."""
    printed = terminal.type(step.command)
    give_up = time.monotonic() + 60
    while LOOKS.match(step.command) and not matches(step.expected, printed) and time.monotonic() < give_up:
        time.sleep(0.2)
        printed = terminal.type(step.command)
    return printed


def test_the_python_of_the_pages_passes_a_strict_type_check(tmp_path: Path) -> None:
    written = [
        path for page in STORIES for path in _write_python(page, tmp_path / relative_name(page).replace("/", "-"))
    ]
    assert len(written) > 5
    rules = {"typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(rules))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--project", str(tmp_path), "--pythonpath", sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 errors" in done.stdout


def _write_python(page: Path, folder: Path) -> list[Path]:
    found = [step for step in steps(page) if isinstance(step, WriteFile) and step.name.endswith(".py")]
    folder.mkdir()
    for step in found:
        (folder / step.name).write_text(step.text)
    return [folder / step.name for step in found]


def test_the_first_page_and_every_guide_have_examples() -> None:
    names = {relative_name(path) for path in STORIES}
    guides = {relative_name(path) for path in pages() if path.parent.name == "guides"}
    assert {"README.md", *guides} <= names


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("done\n", "done\n", True),
        ("done\n", "done\nmore\n", False),
        ("…\nlast\n", "one\ntwo\nlast\n", True),
        ("…\nlast\n", "one\ntwo\n", False),
        ("added …/a.txt\n", "added /tmp/a.txt\n", True),
        ("added …/a.txt\n", "added /tmp\n/a.txt\n", False),
        ("20260101-000000000-1 in 0.1s\n", "20270202-111111111-22 in 12.5s\n", True),
        ("", "", True),
        ("", "something\n", False),
    ],
)
def test_output_is_compared_by_its_words(expected: str, printed: str, same: bool) -> None:
    assert matches(expected, printed) is same
