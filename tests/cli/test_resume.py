"""`resume`, `run -c` and `chat -c`: which session is meant, what is a run and what is a prompt, and what is refused."""

import json
import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

from inspan.protocol.ids import make_short_name
from tests.agents.conversation import build_turn_scenario, list_runs
from tests.cli_env import WAIT_S, CliEnv

from .refusal import Refusal, expect_refusal, parse_refusal
from .scenarios import run_to_end

_SAYS = '[[call]]\nsay = "{}"\nrepeat = "always"\n'


def talk(cli_env: CliEnv, *words: str, say: str, holds: tuple[str, ...] = (), cwd: Path | None = None) -> str:
    """Types a command whose model must have been shown these texts; gives the run's id."""
    model = cli_env.scenario(build_turn_scenario(say, holds=holds), name=f"turn-{len(os.listdir(cli_env.root))}")
    done = cli_env.inspan(*words, "-q", "--model-from", model, cwd=cwd)
    assert (done.returncode, done.stdout) == (0, f"{say}\n"), done.stderr
    return list_runs(cli_env)[-1]


def begin(cli_env: CliEnv, prompt: str, *more: str, cwd: Path | None = None) -> str:
    """Begins a session with a real agent; gives its run's id."""
    return talk(cli_env, "run", prompt, "-a", "codex", "--profile", "clean", *more, say=f"re:{prompt}", cwd=cwd)


def read_resumed(cli_env: CliEnv, run_id: str) -> str:
    return cli_env.events(run_id)[0].get("resumes", "")


def test_a_session_goes_on_by_the_name_of_its_run_and_by_none(cli_env: CliEnv) -> None:
    first = begin(cli_env, "alpha-word", "--name", "boat")
    said = ("alpha-word", "re:alpha-word")
    for words in (("boat", "one"), ("boat", "two words"), (make_short_name(first), "one"), (first[:-1], "one")):
        assert read_resumed(cli_env, talk(cli_env, "resume", *words, say="ok", holds=said)) == first
    # Behind the session stand runs of agents that have none.
    run_to_end(cli_env)
    last = list_runs(cli_env)[-2]
    for words in (("resume", "go on please"), ("run", "one", "-c"), ("run", "--continue", "one")):
        newest = talk(cli_env, *words, say="ok", holds=said)
        assert read_resumed(cli_env, newest) == last
        last = newest
    session_id = cli_env.events(first)[-1]["session_id"]
    newest = talk(cli_env, "resume", session_id, "one", "--fork", say="ok", holds=said)
    assert cli_env.events(newest)[-1]["session_id"] != session_id


def test_the_last_conversation_is_that_of_this_project(cli_env: CliEnv) -> None:
    other = cli_env.root / "other"
    other.mkdir()
    here, there = begin(cli_env, "alpha-word"), begin(cli_env, "beta-word", cwd=other)
    assert read_resumed(cli_env, talk(cli_env, "resume", "go on", say="ok", holds=("alpha-word",))) == here
    from_there = talk(cli_env, "resume", "go on", "-C", str(other), say="ok", holds=("beta-word",))
    assert read_resumed(cli_env, from_there) == there
    note = cli_env.inspan("run", "-c", "go on", "--model-from", cli_env.scenario(_SAYS.format("ok"))).stderr
    assert note.startswith(f"inspan: run {list_runs(cli_env)[2]}: codex in {cli_env.work}, ")


def test_a_session_of_another_folder_is_refused_with_the_command_that_continues_it(cli_env: CliEnv) -> None:
    other = cli_env.root / "an other"
    other.mkdir()
    first = begin(cli_env, "alpha-word", "--name", "boat", cwd=other)
    before = list_runs(cli_env)
    for words, expected in (
        (("resume", "boat", "go on"), f"inspan resume -C '{other}' {first} 'go on'"),
        (("resume", "boat", "x" * 99), f"inspan resume -C '{other}' {first} \"…\""),
        (("resume", first, "a\nb"), f"inspan resume -C '{other}' {first} \"…\""),
        (("run", "--resume", "boat"), f"inspan run -C '{other}' --resume {first}"),
        (("run", "go on", "--resume", "boat", "--fork"), f"inspan resume -C '{other}' --fork {first} 'go on'"),
    ):
        refusal = expect_refusal(cli_env, *words)
        assert (refusal.exit_code, refusal.code) == (2, "bad_input")
        assert refusal.message == f"cwd '{cli_env.work}': the session belongs to {other}."
        assert f"`{expected}`" in refusal.next
    assert list_runs(cli_env) == before
    talk(cli_env, "resume", "-C", str(other), first, "go on", say="ok", holds=("alpha-word",))


def test_a_folder_that_was_moved_or_deleted_is_said_to_be_gone(cli_env: CliEnv) -> None:
    old, new = cli_env.root / "old", cli_env.root / "new"
    old.mkdir()
    first = begin(cli_env, "alpha-word", "--name", "boat", cwd=old)
    old.rename(new)
    for name in ("boat", first):
        refusal = parse_refusal(cli_env.inspan("resume", name, "go on", "--json", cwd=new))
        assert (refusal.exit_code, refusal.code) == (2, "bad_input")
        assert refusal.message == f"cwd '{old}': the folder of the session is gone."
        assert "a link to where it was moved" in refusal.next
    nothing = parse_refusal(cli_env.inspan("resume", "go on", "--json", cwd=new))
    assert nothing.message == f"There is no run of this folder's project, {new}."
    # What the next step says works.
    old.symlink_to(new)
    talk(cli_env, "resume", "boat", "go on", say="ok", holds=("alpha-word",), cwd=new)
    shutil.rmtree(new)
    listed = json.loads(cli_env.inspan("ps", "-a", "--all", "--json").stdout)["runs"]
    assert {row["folder"] for row in listed} == {str(old)}
    assert expect_refusal(cli_env, "resume", "boat", "go on").message.endswith("the folder of the session is gone.")


# What was typed


def refuse(cli_env: CliEnv, *words: str) -> Refusal:
    refusal = expect_refusal(cli_env, "resume", *words)
    assert refusal.exit_code == 2
    return refusal


@pytest.mark.parametrize("word", ["refactor", "", "@first-one", "k3fb", "20990101"])
def test_a_word_that_is_no_run_is_told_by_both_readings(old_runs: CliEnv, word: str) -> None:
    refusal = refuse(old_runs, word)
    if word.startswith("@"):
        assert refusal.code == "bad_input"
        return
    assert refusal.message == f"RUN or PROMPT {word!r}: no run has this name, and a prompt has a space in it."
    assert f"`inspan resume @last {word or 'WORD'}`" in refusal.next and "`inspan ps -a`" in refusal.next


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "PROMPT '': it is missing."),
        (("@last",), "PROMPT '': it is missing."),
        (("@last", " "), "PROMPT ' ': it is empty."),
        (("@last", "a", "b"), "PROMPT 'a b': it has more than one word."),
        (("@last", "a", "--name", "@x"), "--name '@x': it begins with @."),
    ],
)
def test_words_that_say_too_little_or_too_much_are_refused(
    old_runs: CliEnv, words: tuple[str, ...], message: str
) -> None:
    refusal = refuse(old_runs, *words)
    assert (refusal.code, refusal.message) in (("bad_input", message), ("session_not_found", refusal.message))


def test_a_project_without_a_conversation_has_none_to_go_on_with(old_runs: CliEnv) -> None:
    last = old_runs.inspan("ps", "-aq").stdout.split()[0]
    for words in (("resume", "go on"), ("run", "go on", "-c")):
        refusal = expect_refusal(old_runs, *words)
        assert refusal.code == "session_not_found"
        assert f"run {last} is the last" in refusal.message


def test_nothing_goes_on_where_nothing_ran(readonly_env: CliEnv) -> None:
    for words in (("resume",), ("resume", "@last"), ("resume", "go on"), ("run", "go on", "-c"), ("chat", "-c")):
        done = readonly_env.inspan(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("inspan: There is no run yet.\n  → Start one: ")


def test_two_ways_to_name_a_session_exclude_each_other(old_runs: CliEnv) -> None:
    refusal = expect_refusal(old_runs, "run", "go on", "-c", "--resume", "@last")
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert refusal.message == "--continue True: --resume @last is given too."


def test_resume_takes_the_options_of_run(readonly_env: CliEnv) -> None:
    options = {
        name: {
            line.split()[0].rstrip(",")
            for line in readonly_env.inspan(name, "--help").stdout.splitlines()
            if "--" in line
        }
        for name in ("run", "resume")
    }
    assert options["run"] - options["resume"] == {"-r", "-c"}
    assert options["resume"] <= options["run"]


# A conversation


def say_and_quit(cli_env: CliEnv, *arguments: str, message: str, answer: str) -> str:
    """Says something in a chat at a dumb terminal, and leaves once that is answered; gives all that was printed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        cli_env.argv(*arguments),
        env={**cli_env.env, "TERM": "dumb"},
        cwd=cli_env.work,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    cli_env.processes.append(process)
    os.close(theirs)
    os.write(ours, f"{message}\n".encode())
    printed, answered = b"", False
    try:
        while piece := os.read(ours, 65536):
            printed += piece
            if answer.encode() in printed and not answered:
                answered = True
                cli_env.wait_for_events(list_runs(cli_env)[-1], "message_ended")  # Leaving would interrupt the turn.
                os.write(ours, b"/quit\n")
    except OSError:
        pass  # So ends a terminal whose last writer has left.
    finally:
        os.close(ours)
    assert process.wait(timeout=WAIT_S) == 0, printed
    return printed.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("words", [("resume",), ("resume", "boat"), ("chat", "-c")], ids=" ".join)
def test_without_a_prompt_a_conversation_opens_at_a_terminal(cli_env: CliEnv, words: tuple[str, ...]) -> None:
    first = begin(cli_env, "alpha-word", "--name", "boat")
    model = cli_env.scenario(build_turn_scenario("Blue.", holds=("alpha-word",)))
    printed = say_and_quit(cli_env, *words, "--model-from", model, message="beta-word", answer="Blue.")
    assert "Blue." in printed
    newest = list_runs(cli_env)[-1]
    assert read_resumed(cli_env, newest) == first
    assert f"go on with `inspan chat --resume {make_short_name(newest)}`" in printed
