"""Whole sessions as a person at a terminal sees them, on an emulated screen of 80 and of 40 columns."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from inspan.agents.registry import find_driver
from inspan.protocol.ids import make_short_name
from tests.agents.conversation import build_turn_scenario, list_runs
from tests.cli_env import CliEnv
from tests.emulated_terminal import EmulatedTerminal
from tests.npm_registry import Registry

from .conftest import Open
from .test_diff import WRITES_AND_RUNS, make_repository
from .test_installs import list_versions, publish
from .test_live_console import no_status
from .test_resume import begin
from .test_undo import FOUND, LEFT, read_files

# An answer with all that Markdown has, in lines that fit no terminal of these.
ANSWER = """
[[call]]
say = '''
# What was wrong

The function `total` **subtracted its second price** where it should have added it to the first one, as the test says.

- the first of the prices was taken as it is, and so was the currency that it was given in
'''
"""
ENDED_BY_BUDGET = """
[[call]]
run = "true"

[[call]]
say = "Not reached."
"""

each_width = pytest.mark.parametrize("columns", [80, 40])


@pytest.fixture
def no_agents(tmp_path: Path) -> Iterator[CliEnv]:
    """A house without any agent, on PATH or named by a variable."""
    (tmp_path / "no agents").mkdir()
    made = CliEnv(tmp_path / "no agents")
    yield made
    made.close()


def read_words(terminal: EmulatedTerminal) -> str:
    """All that stands on the screen and above it, without its rows: what was broken at the edge is whole again."""
    return "".join("".join(row.split()) for row in terminal.scrolled)


def joined(words: str) -> str:
    return "".join(words.split())


def resume(cli_env: CliEnv, open_terminal: Open, *words: str, holds: str, columns: int, cwd: Path) -> EmulatedTerminal:
    """Goes on with a conversation; the model must have been shown what was said before."""
    scenario = build_turn_scenario(f"I still know the {holds}, and go on from there.", holds=(holds,))
    model = cli_env.scenario(scenario, name=f"turn-{len(os.listdir(cli_env.root))}")
    return open_terminal("resume", *words, "--model-from", model, columns=columns, cwd=cwd)


@each_width
def test_conversations_in_two_folders_are_resumed_each_in_its_own(
    cli_env: CliEnv, open_terminal: Open, columns: int
) -> None:
    other = cli_env.root / "other"
    other.mkdir()
    begin(cli_env, "alpha-word", "--name", "boat")
    begin(cli_env, "beta-word", cwd=other)
    for folder, word in ((cli_env.work, "alpha-word"), (other, "beta-word")):
        shown = "boat" if word == "alpha-word" else make_short_name(list_runs(cli_env)[1])
        terminal = resume(cli_env, open_terminal, "go on please", holds=word, columns=columns, cwd=folder)
        assert terminal.wait_for_end() == 0, terminal.text
        assert joined(f"inspan: run {shown}: codex in {folder},") in read_words(terminal)
        said = f"I still know the {word}, and go on from there."
        assert said in " ".join(" ".join(terminal.scrolled).split()), terminal.text
        assert any(row.startswith("✔ completed in ") for row in terminal.scrolled)
        assert no_status(terminal)
        assert all(len(row) <= columns for row in terminal.scrolled)


@each_width
def test_a_conversation_of_another_folder_is_refused_with_the_way_to_it(
    cli_env: CliEnv, open_terminal: Open, columns: int
) -> None:
    other = cli_env.root / "other"
    other.mkdir()
    first = begin(cli_env, "alpha-word", "--name", "boat")
    terminal = resume(cli_env, open_terminal, "boat", "go on", holds="alpha-word", columns=columns, cwd=other)
    assert terminal.wait_for_end() == 2, terminal.text
    shown = read_words(terminal)
    assert joined(f"the session belongs to {cli_env.work}.") in shown
    assert joined(f"`inspan resume -C {cli_env.work} {first} 'go on'`") in shown
    assert no_status(terminal)
    assert list_runs(cli_env) == [first]


@each_width
def test_an_install_shows_how_far_it_is_and_then_what_is_there(
    no_agents: CliEnv, open_terminal: Open, node: Path, npm_registry: Registry, columns: int
) -> None:
    (no_agents.root / "data" / "inspan").mkdir(parents=True)
    (no_agents.root / "data" / "inspan" / "node").symlink_to(node)
    recipe = find_driver("pi").program.install
    publish(npm_registry, recipe)
    npm_registry.gives_archives.clear()
    terminal = EmulatedTerminal(
        no_agents.argv("agents", "install", "pi"),
        cwd=no_agents.work,
        env={**no_agents.env, **npm_registry.env},
        columns=columns,
    )
    with terminal:
        clocks: set[str] = set()
        terminal.wait_for(
            lambda: clocks.add(terminal.lines[-1] if terminal.lines else "") or len(clocks - {""}) > 2,
            "a line of progress that goes on",
        )
        assert [row[:15] for row in terminal.lines] == ["● installing pi"], terminal.text
        assert len(terminal.lines[0]) < columns
        npm_registry.gives_archives.set()
        assert terminal.wait_for_end() == 0, terminal.text
    assert "●" not in terminal.text, "the line of progress is gone"
    assert joined(f"pi {recipe.version}") in read_words(terminal)
    assert list_versions(no_agents) == [recipe.version]


@each_width
def test_an_install_that_fails_leaves_the_reason_alone_on_the_screen(
    no_agents: CliEnv, open_terminal: Open, node: Path, npm_registry: Registry, columns: int
) -> None:
    (no_agents.root / "data" / "inspan").mkdir(parents=True)
    (no_agents.root / "data" / "inspan" / "node").symlink_to(node)
    terminal = EmulatedTerminal(
        no_agents.argv("agents", "install", "pi"),
        cwd=no_agents.work,
        env={**no_agents.env, **npm_registry.env},
        columns=columns,
    )
    with terminal:
        assert terminal.wait_for_end() != 0, terminal.text
    assert "●" in terminal.written.decode()
    assert "●" not in terminal.text
    assert terminal.lines[0].startswith("inspan: ")
    assert list_versions(no_agents) == []


@each_width
def test_a_run_is_undone_by_a_yes_below_what_will_happen(cli_env: CliEnv, open_terminal: Open, columns: int) -> None:
    assert make_repository(cli_env).run("scripted", WRITES_AND_RUNS).code == 0
    terminal = open_terminal("undo", columns=columns)
    terminal.wait_for_text("[y/N]:")
    table = [row.split() for row in terminal.scrolled if row.startswith(("delete", "change", "add"))]
    assert table == [
        ["delete", "by-shell.txt", "−1"],
        ["delete", "by-tool.txt", "−1"],
        ["change", "kept.txt", "−1"],
        ["add", "old.txt", "+1"],
    ]
    run = make_short_name(cli_env.folder().name)
    question = f"Take back the changes of run {run} to 4 files in {cli_env.work}? [y/N]:"
    assert joined(question) in read_words(terminal)
    assert read_files(cli_env) == LEFT, "nothing is done before the answer"
    terminal.type_keys("y\r")
    assert terminal.wait_for_end() == 0, terminal.text
    assert "undone;`inspanapply" in read_words(terminal)
    assert read_files(cli_env) == FOUND
    assert all(len(row) <= columns for row in terminal.scrolled)


@each_width
def test_an_undo_that_nobody_confirms_leaves_everything(cli_env: CliEnv, open_terminal: Open, columns: int) -> None:
    assert make_repository(cli_env).run("scripted", WRITES_AND_RUNS).code == 0
    terminal = open_terminal("undo", columns=columns)
    terminal.wait_for_text("[y/N]:")
    terminal.type_keys("n\r")
    assert terminal.wait_for_end() == 1, terminal.text
    assert terminal.lines[-1] == "nothing undone"
    assert read_files(cli_env) == LEFT


@pytest.fixture(scope="module")
def used_house(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> Iterator[CliEnv]:
    """A house with a run that has said much, one with a session of its agent's, and one that a budget has ended."""
    made = CliEnv(tmp_path_factory.mktemp("used"), binaries=binaries)
    # Paths take a row of their own where they are long, and hide what is looked for.
    made.work = Path(made.sockets, "shop")
    made.work.mkdir()
    said, spent = made.scenario(ANSWER), made.scenario(ENDED_BY_BUDGET, name="spent")
    for name, *words in (
        ("session", "-a", "codex", "--profile", "clean", "--model-from", said),
        ("broke", "-a", "scripted", "--model-from", spent, "--budget", "1calls"),
        ("said", "-a", "scripted", "--model-from", said),
    ):
        made.inspan("run", "tell me at some length what was wrong with it", "--name", name, *words)
    yield made
    made.close()


@each_width
@pytest.mark.parametrize(
    "command", ["cost", "budget", "show said", "show broke", "transcript session", "demo", "wait said"]
)
def test_no_row_of_a_command_ends_within_a_word(used_house: CliEnv, command: str, columns: int) -> None:
    terminal = EmulatedTerminal(
        used_house.argv(*command.split()), cwd=used_house.work, env=used_house.env, columns=columns, rows=50
    )
    with terminal:
        assert terminal.wait_for_end() == 0, terminal.text
    assert terminal.broken == [], terminal.text


def test_the_answer_of_a_run_that_is_over_is_shown_as_it_was_live(used_house: CliEnv) -> None:
    terminal = EmulatedTerminal(used_house.argv("show", "said"), cwd=used_house.work, env=used_house.env)
    with terminal:
        assert terminal.wait_for_end() == 0, terminal.text
    rows = terminal.scrolled
    assert "What was wrong" in rows
    assert any(row.startswith("The function `total` subtracted its second price") for row in rows)
    assert any(row.startswith("• the first of the prices") for row in rows)
    piped = used_house.inspan("show", "said").stdout.splitlines()
    assert "# What was wrong" in piped
