"""What a person at a terminal sees of a run: the real command on an emulated screen, at 80, 40 and 20 columns."""

import re
import signal
import subprocess

import pytest

from tests.cli_env import CliEnv, kill_process, wait_until
from tests.emulated_terminal import EmulatedTerminal

from .conftest import Open

FIX = """
[[call]]
say = "I'll **look** first."
run = "cat missing.txt"

[[call]]
write = {path = "greeting.txt", content = "good morning\\n"}

[[call]]
say = "Done, see `greeting.txt`."
"""
# The tool waits for a file: what is on the screen by then stays until the test lets it go on.
LONG = """
[[call]]
say = "Waiting."
run = "until test -e go; do test -e told || echo 2/4 | tee told; sleep 0.05; done; echo gone on"

[[call]]
say = "Finished."
"""
FAILING = """
[[call]]
run = "seq 1 500; echo 'E       assert 1 == 3'; exit 1"

[[call]]
say = "It fails."
"""
# What is below the cursor is erased, and a row of its own is begun for somebody else.
ERASED = b"\x1b[J\r\r\n"
STATUS = re.compile(r"^[●◐◓◑◒○▲◷■·] .*", re.MULTILINE)
SPINNER = re.compile("^[◐◓◑◒]")


def run_words(cli_env: CliEnv, scenario: str, *more: str) -> tuple[str, ...]:
    return "run", "do it", "-a", "scripted", "--model-from", cli_env.scenario(scenario), *more


def has_status(terminal: EmulatedTerminal, words: str) -> bool:
    """Whether the last row of the screen is a status line with these words."""
    last = terminal.lines[-1] if terminal.lines else ""
    return STATUS.match(last) is not None and words in stop_spinner(last)


def stop_spinner(row: str) -> str:
    """The row with the glyph of its state in the place of the spinner's."""
    return SPINNER.sub("●", row)


def count_working(terminal: EmulatedTerminal) -> int:
    return sum(stop_spinner(row).startswith("● working") for row in terminal.lines)


def no_status(terminal: EmulatedTerminal) -> bool:
    marks = ("Ctrl-C stops", "waiting for the model", "● working")
    return not any(mark in stop_spinner(row) for row in terminal.scrolled for mark in marks)


def no_row_is_too_long(terminal: EmulatedTerminal) -> bool:
    return all(len(row) <= terminal.screen.columns for row in terminal.scrolled)


@pytest.mark.parametrize("columns", [80, 40, 20])
def test_a_first_run(cli_env: CliEnv, open_terminal: Open, columns: int) -> None:
    terminal = open_terminal(*run_words(cli_env, FIX), columns=columns)
    assert terminal.wait_for_end() == 0
    rows = terminal.scrolled
    assert "I'll look first." in rows
    assert "● cat missing.txt" in [row[:17] for row in rows]
    assert "● write greeting.txt" in [row[:20] for row in rows] or columns == 20
    assert "  │ +good morning" in rows
    assert any(row.startswith("✔ completed in ") for row in rows)
    assert "1 file changed" in terminal.text
    assert no_status(terminal)
    ending = next(row for row in rows if row.endswith("exit 1"))
    assert ending.startswith("● cat") is (columns == 80)


@pytest.mark.parametrize(("agent", "is_offered"), [("scripted", False), ("codex", True)])
def test_a_session_is_offered_only_where_the_agent_can_resume_it(
    cli_env: CliEnv, open_terminal: Open, agent: str, is_offered: bool
) -> None:
    scenario = cli_env.scenario('[[call]]\nsay = "Hello."\n')
    terminal = open_terminal("run", "say hello", "-a", agent, "--profile", "clean", "--model-from", scenario)
    assert terminal.wait_for_end() == 0
    assert ("inspan resume" in terminal.text) == is_offered


@pytest.mark.parametrize("has_git", [True, False])
def test_an_undo_is_offered_only_where_there_is_something_to_go_back_to(
    cli_env: CliEnv, open_terminal: Open, has_git: bool
) -> None:
    if has_git:
        subprocess.run(["git", "init", "-q"], cwd=cli_env.work, check=True)
    terminal = open_terminal(*run_words(cli_env, FIX))
    assert terminal.wait_for_end() == 0
    assert terminal.lines[-1] == ("  inspan diff · inspan undo" if has_git else "  inspan diff")


@pytest.mark.parametrize("columns", [80, 40])
def test_a_long_tool_has_a_status_line_until_it_ends(cli_env: CliEnv, open_terminal: Open, columns: int) -> None:
    terminal = open_terminal(*run_words(cli_env, LONG), columns=columns)
    terminal.wait_for(lambda: has_status(terminal, "● working · until test -e go;"), "a status line")
    assert terminal.lines[-2].startswith("● until test -e go; do ")
    terminal.wait_for(lambda: re.search(r"\([1-9]\d*s\)", terminal.lines[-1]), "a clock that goes on")
    if columns == 80:  # Else the command leaves no room for it.
        terminal.wait_for(lambda: " · 2/4" in terminal.lines[-1], "the last line that the tool has put out")
    (cli_env.work / "go").touch()
    assert terminal.wait_for_end() == 0
    assert "  │ gone on" in terminal.scrolled
    assert no_status(terminal)


@pytest.mark.parametrize("columns", [80, 40])
def test_a_failing_test_is_shown_by_the_end_of_its_output(cli_env: CliEnv, open_terminal: Open, columns: int) -> None:
    terminal = open_terminal(*run_words(cli_env, FAILING), columns=columns)
    assert terminal.wait_for_end() == 0
    rows = terminal.scrolled
    at = rows.index("  │ E       assert 1 == 3")
    assert rows[at - 1] == "  │ 500"
    assert "  │ … 489 more lines: inspan logs" in rows
    assert "  │ 1" not in rows
    assert no_row_is_too_long(terminal)


def test_all_of_the_output_is_shown_on_request(cli_env: CliEnv, open_terminal: Open) -> None:
    terminal = open_terminal(*run_words(cli_env, FAILING, "-v"))
    assert terminal.wait_for_end() == 0
    assert [f"  │ {number}" in terminal.scrolled for number in (1, 250, 500)] == [True] * 3


@pytest.mark.parametrize("columns", [80, 40])
def test_a_provider_that_fails_is_told_once(cli_env: CliEnv, open_terminal: Open, columns: int) -> None:
    failing = '[[call]]\nfail = {status = 529, message = "Come back later."}\nrepeat = "always"\n'
    terminal = open_terminal(*run_words(cli_env, failing), columns=columns)
    assert terminal.wait_for_end() == 1
    words = " ".join(terminal.text.split())
    assert words.count("✘ failed: the provider is overloaded (overloaded)") == 1
    assert words.count("529") == words.count("Come back later.") == 1
    assert "→ The provider is overloaded: try again in a few minutes." in words
    assert "What the agent said: inspan logs --raw" in words
    assert no_status(terminal)


@pytest.mark.parametrize("columns", [80, 40])
def test_a_budget_that_is_spent_is_told_once(cli_env: CliEnv, open_terminal: Open, columns: int) -> None:
    terminal = open_terminal(*run_words(cli_env, FAILING, "--budget", "1calls", "--name", "foo"), columns=columns)
    assert terminal.wait_for_end() == 6
    words = " ".join(terminal.text.split())
    assert words.count("✘ limited: the budget has no room for the next model call (budget)") == 1
    assert words.count("The budget of run foo is 1 model call: 1 model call spent") == 1
    assert words.count(cli_env.folder().name) == 1, "the id is in the first lines alone"
    assert terminal.broken == [], terminal.text
    assert no_status(terminal)


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize("agent", ["codex", "claude"])
def test_a_provider_that_refuses_the_connection_is_told_once(
    cli_env: CliEnv, open_terminal: Open, agent: str, columns: int
) -> None:
    words = ("run", "do it", "-a", agent, "--profile", "clean", "--base-url", "http://127.0.0.1:9/v1")
    key = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    terminal = open_terminal(*words, columns=columns, env=key)
    assert terminal.wait_for_end() == 1, terminal.text
    told = " ".join(terminal.text.split())
    assert told.count("✘ failed: the provider cannot be reached (network)") == 1, terminal.text
    assert "→ " in told
    assert told.count("onnection refused") <= 1, terminal.text
    assert terminal.broken == [], terminal.text
    assert no_status(terminal)


def test_a_resize_during_a_run_leaves_one_status_line(cli_env: CliEnv, open_terminal: Open) -> None:
    terminal = open_terminal(*run_words(cli_env, LONG))
    terminal.wait_for(lambda: has_status(terminal, "Ctrl-C stops"), "a status line")
    for columns, rows in ((40, 24), (20, 10), (100, 30)):
        terminal.resize(columns, rows)
        seen = len(terminal.written)
        # What was written for the old size may come first, onto a line that the terminal has cut.
        terminal.wait_for(
            lambda before=seen, columns=columns: (
                len(terminal.written) > before
                and has_status(terminal, "● working")
                and count_working(terminal) == 1
                and len(terminal.lines[-1]) < columns
            ),
            f"one status line in {columns} columns",
        )
    (cli_env.work / "go").touch()
    assert terminal.wait_for_end() == 0
    assert no_status(terminal)


def test_a_terminal_that_is_dragged_until_it_is_too_narrow_has_no_old_status_line(
    cli_env: CliEnv, open_terminal: Open
) -> None:
    terminal = open_terminal(*run_words(cli_env, LONG))
    terminal.wait_for(lambda: has_status(terminal, "● working · until"), "a status line")
    for columns in range(70, 4, -5):
        terminal.resize(columns, 24)
    terminal.wait_for(
        lambda: not any(stop_spinner(row).startswith("● wor") for row in terminal.lines), "a clean screen"
    )
    terminal.resize(80, 24)
    terminal.wait_for(lambda: has_status(terminal, "● working"), "the status line again")
    assert count_working(terminal) == 1
    (cli_env.work / "go").touch()
    assert terminal.wait_for_end() == 0
    assert no_status(terminal)


def test_ctrl_c_takes_the_status_line_away_and_ends_the_run(cli_env: CliEnv, open_terminal: Open) -> None:
    terminal = open_terminal(*run_words(cli_env, LONG))
    terminal.wait_for(lambda: has_status(terminal, "Ctrl-C stops"), "a status line")
    terminal.type_keys("\x03")
    assert terminal.wait_for_end() == 130
    assert "stopping; press Ctrl-C again to kill" in terminal.scrolled
    assert "■ cancelled: stopped by you (interrupted)" in terminal.scrolled
    assert no_status(terminal), terminal.text


def test_a_job_that_is_stopped_leaves_a_clean_terminal_and_comes_back(cli_env: CliEnv, open_terminal: Open) -> None:
    terminal = open_terminal(*run_words(cli_env, LONG))
    terminal.wait_for(lambda: has_status(terminal, "Ctrl-C stops"), "a status line")
    seen = len(terminal.written)
    # No shell waits for it here, and without one the system stops nobody: what it does before is what is seen.
    terminal.process.send_signal(signal.SIGTSTP)
    terminal.wait_for(lambda: ERASED in terminal.written[seen:], "a status line that is taken away")
    terminal.process.send_signal(signal.SIGCONT)
    terminal.wait_for(lambda: has_status(terminal, "● working"), "the status line again")
    assert count_working(terminal) == 1
    (cli_env.work / "go").touch()
    assert terminal.wait_for_end() == 0
    assert "Finished." in terminal.scrolled
    assert no_status(terminal)


def test_a_terminal_that_hangs_up_ends_the_command_and_not_the_run(cli_env: CliEnv, open_terminal: Open) -> None:
    terminal = open_terminal(*run_words(cli_env, LONG))
    terminal.wait_for(lambda: has_status(terminal, "● working"), "a status line")
    terminal.hang_up()
    wait_until(lambda: terminal.process.poll() is not None, "end of the command")
    (cli_env.work / "go").touch()
    run_id = cli_env.folder().name
    assert cli_env.inspan("wait", run_id).returncode == 0
    assert cli_env.kinds(run_id)[-1] == "run_ended"


def test_two_consoles_on_one_run(cli_env: CliEnv, open_terminal: Open) -> None:
    first = open_terminal(*run_words(cli_env, LONG))
    first.wait_for(lambda: has_status(first, "● working"), "a status line")
    second = open_terminal("logs", "-f", columns=40)
    second.wait_for(lambda: has_status(second, "● working"), "a second status line")
    (cli_env.work / "go").touch()
    assert (first.wait_for_end(), second.wait_for_end()) == (0, 0)
    for terminal in (first, second):
        assert {"Waiting.", "  │ gone on", "Finished."} <= set(terminal.scrolled)
        assert no_status(terminal)


def test_text_streams_at_a_terminal_and_not_elsewhere(cli_env: CliEnv, open_terminal: Open) -> None:
    said = '[[call]]\nsay = ["one ", "two ", "three"]\n'
    words = "run", "do it", "-a", "codex", "--channel", "rpc", "--profile", "clean", "--model-from"
    assert open_terminal(*words, cli_env.scenario(said)).wait_for_end() == 0
    assert "text_delta" in cli_env.kinds()
    assert cli_env.inspan(*words, cli_env.scenario(said), "--project", "piped").returncode == 0
    assert open_terminal(*words, cli_env.scenario(said), "--project", "off", "--no-partial").wait_for_end() == 0
    for project in ("piped", "off"):
        (run,) = cli_env.state.glob(f"projects/{project}/*/runs/*")
        assert "text_delta" not in cli_env.kinds(run.name)


def test_a_run_that_loses_its_supervisor_leaves_a_clean_terminal(cli_env: CliEnv, open_terminal: Open) -> None:
    terminal = open_terminal(*run_words(cli_env, LONG))
    terminal.wait_for(lambda: has_status(terminal, "● working"), "a status line")
    kill_process(cli_env.supervisor(cli_env.folder().name))
    assert terminal.wait_for_end() == 1
    assert "✘ lost: its supervisor is gone (supervisor_lost)" in terminal.scrolled
    assert no_status(terminal)


def test_a_glyph_turns_while_a_tool_works_and_costs_a_few_bytes(cli_env: CliEnv, open_terminal: Open) -> None:
    terminal = open_terminal(*run_words(cli_env, LONG))
    terminal.wait_for(lambda: has_status(terminal, "● working · until"), "a status line")
    seen: set[str] = set()
    terminal.wait_for(lambda: seen.add(terminal.lines[-1][:1]) or seen >= set("◐◓◑◒"), "each glyph of the spinner")
    turn = re.compile(rb"\x1b7\r\r\n\x1b\[36m(?:" + "|".join("◐◓◑◒").encode() + rb")\x1b\[0m\x1b8")
    terminal.wait_for(lambda: len(turn.findall(terminal.written)) > 2, "turns of the glyph alone")
    turns = turn.findall(terminal.written)
    assert {len(turn) for turn in turns} == {19}
    assert count_working(terminal) == 1
    (cli_env.work / "go").touch()
    assert terminal.wait_for_end() == 0
    assert no_status(terminal)


def test_a_spinner_that_is_off_never_turns(cli_env: CliEnv, open_terminal: Open) -> None:
    terminal = open_terminal(*run_words(cli_env, LONG), env={"INSPAN_SPINNER": "off"})
    terminal.wait_for(lambda: has_status(terminal, "● working · until"), "a status line")
    terminal.wait_for(lambda: re.search(r"\([1-9]\d*s\)", terminal.lines[-1]), "a clock that goes on")
    (cli_env.work / "go").touch()
    assert terminal.wait_for_end() == 0
    assert not re.search("[◐◓◑◒]", terminal.written.decode())


def test_no_color_takes_the_colours_and_leaves_the_status_line(cli_env: CliEnv, open_terminal: Open) -> None:
    terminal = open_terminal(*run_words(cli_env, LONG), env={"NO_COLOR": "1"})
    terminal.wait_for(lambda: has_status(terminal, "Ctrl-C stops"), "a status line")
    (cli_env.work / "go").touch()
    assert terminal.wait_for_end() == 0
    assert not re.search(rb"\x1b\[[\d;]*m", terminal.written)


@pytest.mark.parametrize(
    "env", [{"TERM": "dumb"}, {"TERM": ""}, {"CI": "1", "NO_COLOR": "1"}], ids=["dumb", "no TERM", "CI"]
)
def test_nothing_moves_where_nothing_can(cli_env: CliEnv, open_terminal: Open, env: dict[str, str]) -> None:
    terminal = open_terminal(*run_words(cli_env, FIX), env=env)
    assert terminal.wait_for_end() == 0
    assert b"\x1b" not in terminal.written
    assert "● bash  cat missing.txt" in terminal.scrolled
    assert "text_delta" not in cli_env.kinds()


def test_nothing_moves_in_a_pipe(cli_env: CliEnv) -> None:
    done = subprocess.run(
        cli_env.argv(*run_words(cli_env, FIX)),
        cwd=cli_env.work,
        env={**cli_env.env, "TERM": "xterm-256color"},
        capture_output=True,
        check=True,
    )
    assert b"\x1b" not in done.stdout + done.stderr
    assert "● bash  cat missing.txt" in done.stderr.decode().splitlines()


def test_wild_output_leaves_the_status_line_whole(cli_env: CliEnv, open_terminal: Open) -> None:
    wild = """
[[call]]
run = "head -c 1000000 /dev/zero | tr '\\\\0' x; printf '\\\\n\\\\033[2J\\\\033]0;owned\\\\007 \U0001f44d 漢字'"
"""
    terminal = open_terminal(*run_words(cli_env, wild + LONG))
    terminal.wait_for(lambda: has_status(terminal, "● working · until"), "a status line")
    assert any("␛[2J" in row for row in terminal.lines)
    assert len(terminal.scrolled) < 20
    (cli_env.work / "go").touch()
    assert terminal.wait_for_end() == 0
