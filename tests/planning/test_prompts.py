"""A task without a prompt: what its session or its `TASK.md` says in its place, and what is said where neither does."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from inspan.runs.projects import project_of
from tests.cli.refusal import expect_refusal
from tests.cli_env import CliEnv
from tests.running.fake_agent import Fake, fake_agent_env, run_fake_agent


def task_file(cli_env: CliEnv, *, project: str = "", task: str = "default") -> Path:
    """Where the task folder of a house's working folder has its `TASK.md`; the folder is made."""
    project = project or project_of(str(cli_env.work))
    path = cli_env.state / "projects" / project / task / "files" / "TASK.md"
    path.parent.mkdir(parents=True)
    cli_env.state.chmod(0o700)
    return path


def expect_words(cli_env: CliEnv, words: str) -> tuple[str, ...]:
    """The arguments of a run whose model must be shown these words."""
    return ("-a", "scripted", "--model-from", cli_env.scenario(f"[[call]]\nexpect = '{words}'\nsay = 'done'\n"))


@pytest.mark.parametrize("prompt", [(), ("",), (" \n",), ("-",)], ids=["none", "empty", "blank", "from stdin"])
def test_the_task_of_the_task_folder_stands_for_an_empty_prompt(cli_env: CliEnv, prompt: tuple[str, ...]) -> None:
    task_file(cli_env).write_text("Paint the boat.\n")
    done = cli_env.inspan("run", *prompt, *expect_words(cli_env, "Paint the boat."))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert (cli_env.folder() / "prompt.md").read_text() == "Paint the boat.\n"


def test_the_task_folder_is_that_of_the_project_and_task(cli_env: CliEnv) -> None:
    task_file(cli_env, project="boat", task="hull").write_text("Paint the hull.\n")
    done = cli_env.inspan("run", "--project", "boat", "--task", "hull", *expect_words(cli_env, "Paint the hull."))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_an_agent_can_write_the_task_of_the_next_run(cli_env: CliEnv) -> None:
    writes = "[[call]]\nrun = 'echo Paint it again. > $TASK_FOLDER/TASK.md'\n[[call]]\nsay = 'written'\n"
    cli_env.run("scripted", writes)
    done = cli_env.inspan("run", *expect_words(cli_env, "Paint it again."))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_a_prompt_that_was_given_stands(cli_env: CliEnv) -> None:
    task_file(cli_env).write_text("Paint the boat.\n")
    cli_env.inspan("run", "Sail it.", *expect_words(cli_env, "Sail it."))
    assert (cli_env.folder() / "prompt.md").read_text() == "Sail it."


def test_a_session_that_goes_on_continues_whatever_the_task_was(cli_env: CliEnv, fake: Fake) -> None:
    env = fake_agent_env(fake, "begin(); say(prompt.strip()); finish()")
    task_file(cli_env).write_text("Paint the boat.\n")
    assert run_fake_agent(cli_env, env, prompt="")[:2] == (0, "Paint the boat.\n")
    assert run_fake_agent(cli_env, env, "--resume", "@last", prompt="")[:2] == (0, "Continue.\n")


def test_where_nothing_says_what_to_do_the_refusal_names_the_file(cli_env: CliEnv) -> None:
    path = cli_env.state / "projects" / project_of(str(cli_env.work)) / "default" / "files" / "TASK.md"
    refusal = expect_refusal(cli_env, "run", *expect_words(cli_env, "x"))
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert refusal.message == f"prompt '': it is empty, no session is resumed, and there is no file {path}."
    assert 'inspan run "' in refusal.next


def write_blank(path: Path) -> None:
    path.write_text(" \n")


def a_folder(path: Path) -> None:
    path.mkdir()


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def not_utf8(path: Path) -> None:
    path.write_bytes(b"caf\xe9")


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def a_link_to_a_secret(path: Path) -> None:
    (path.parent.parent / "secret").write_text("secret")
    path.symlink_to(path.parent.parent / "secret")


def without_end(path: Path) -> None:
    path.touch()
    os.truncate(path, 400 * 10**9)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (a_link_to_a_secret, "symbolic links are not followed"),
        (without_end, "it holds more than"),
        (write_blank, "empty too"),
        (a_folder, "Is a directory"),
        (a_pipe, "not a file"),
        (not_utf8, "not UTF-8"),
        (a_link_to_itself, "symbolic links"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_task_that_cannot_be_read_is_named(cli_env: CliEnv, spoil: Callable[[Path], None], says: str) -> None:
    path = task_file(cli_env)
    spoil(path)
    refusal = expect_refusal(cli_env, "run", *expect_words(cli_env, "x"))
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert refusal.message.startswith("prompt ")
    assert str(path) in refusal.message
    assert says in refusal.message


def test_another_bad_field_is_named_before_the_prompt(cli_env: CliEnv) -> None:
    refusal = expect_refusal(cli_env, "run", *expect_words(cli_env, "x"), "--project", "../elsewhere")
    assert refusal.message.startswith("--project '../elsewhere'")
