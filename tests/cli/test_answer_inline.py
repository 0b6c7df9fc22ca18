"""What an agent asks at a terminal: all of it is seen, and only what is typed after it answers it."""

import pytest

from inspan.cli.answer_inline import build_permission_answer
from inspan.protocol.commands import Answer
from inspan.protocol.events import PermissionAsked
from tests.cli_env import CliEnv
from tests.emulated_terminal import EmulatedTerminal

ASKED = PermissionAsked(id="1", tool="Bash", input={"command": "rm x"})
# What the agent says looks like a question of ours, about something harmless.
SCENARIO = r"""
[[call]]
say = "? permission for Bash  ls\n  allow? [y]es, [n]o and why, [a]lways: "
run = "true # only looks                                                  \ntouch made.txt"

[[call]]
say = "Well."
"""


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("y\n", Answer(id="1")),
        ("Always", Answer(id="1", always=True)),
        ("n\n", Answer(id="1", allowed=False, reason="the user said no")),
        ("n not on a Sunday", Answer(id="1", allowed=False, reason="not on a Sunday")),
        ("", Answer(id="1", allowed=False, reason="the user said no")),
        ("a test is missing", Answer(id="1", allowed=False, reason="a test is missing")),
        ("yes, but not there", Answer(id="1", allowed=False, reason="yes, but not there")),
    ],
)
def test_a_yes_is_that_word_alone(line: str, answer: Answer) -> None:
    assert build_permission_answer(ASKED, line) == answer


def test_what_was_typed_before_a_question_does_not_answer_it_and_all_of_it_is_seen(cli_env: CliEnv) -> None:
    words = ("run", "do it", "-a", "claude", "--profile", "clean", "--ask", "*")
    argv = cli_env.argv(*words, "--model-from", cli_env.scenario(SCENARIO))
    with EmulatedTerminal(argv, cwd=cli_env.work, env=cli_env.env) as terminal:
        terminal.type_keys("y\n")
        terminal.wait_for(
            lambda: terminal.text.count("allow? [y]es") == 2, "question after the text that looks like one"
        )
        assert "? permission for Bash  true # only looks [50 spaces]" in terminal.text
        assert "\n  │ touch made.txt\n" in terminal.text
        terminal.type_keys("n\n")
        assert terminal.wait_for_end() == 0
    assert "denied by person" in terminal.text
    assert not (cli_env.work / "made.txt").exists()


ASKING = ("run", "do it", "-a", "claude", "--profile", "clean", "--ask", "*")
WRITES = """
[[call]]
run = "touch made.txt"

[[call]]
say = "Well."
repeat = "always"
"""


def open_question(cli_env: CliEnv, *more: str) -> EmulatedTerminal:
    """A terminal at which a run asks whether it may."""
    argv = cli_env.argv(*ASKING, *more, "--model-from", cli_env.scenario(WRITES))
    return EmulatedTerminal(argv, cwd=cli_env.work, env=cli_env.env)


def find_question(cli_env: CliEnv) -> str:
    return next(event["id"] for event in cli_env.events() if event["kind"] == "permission_asked")


def wait_for_question(terminal: EmulatedTerminal) -> None:
    terminal.wait_for(lambda: "allow? [y]es" in terminal.text, "question")


def test_an_interrupt_at_a_question_gives_the_terminal_back(cli_env: CliEnv) -> None:
    with open_question(cli_env) as terminal:
        wait_for_question(terminal)
        terminal.type_keys("\x03")
        assert terminal.wait_for_end() == 130
    assert not (cli_env.work / "made.txt").exists()


def test_a_question_that_somebody_else_answers_is_no_longer_asked(cli_env: CliEnv) -> None:
    with open_question(cli_env) as terminal:
        wait_for_question(terminal)
        allowed = cli_env.inspan("approve", find_question(cli_env))
        assert allowed.returncode == 0, allowed.stderr
        assert terminal.wait_for_end() == 0
    assert "allowed by person" in terminal.text
    assert (cli_env.work / "made.txt").exists()


def test_a_question_to_which_nobody_answers_in_time_ends_with_the_run(cli_env: CliEnv) -> None:
    with open_question(cli_env, "--answer-timeout", "8s") as terminal:
        wait_for_question(terminal)
        assert terminal.wait_for_end() == 3


def test_a_run_that_is_stopped_elsewhere_takes_its_question_along(cli_env: CliEnv) -> None:
    with open_question(cli_env, "--name", "asks") as terminal:
        wait_for_question(terminal)
        assert cli_env.inspan("stop", "asks").returncode == 0
        assert terminal.wait_for_end() == 143


def test_an_answer_that_is_typed_is_taken(cli_env: CliEnv) -> None:
    with open_question(cli_env) as terminal:
        wait_for_question(terminal)
        terminal.type_keys("y\n")
        assert terminal.wait_for_end() == 0
    assert (cli_env.work / "made.txt").exists()
