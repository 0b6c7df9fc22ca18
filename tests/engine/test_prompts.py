"""A task without a prompt: what its session or its `TASK.md` says in its place, and what is said where neither does."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from inspan.engine.plan import project_of
from tests.cli.refusal import refusal_of
from tests.engine.puppet import Fake, puppet, run
from tests.house import House


def task_file(house: House, *, project: str = "", task: str = "default") -> Path:
    """Where the task folder of a house's working folder has its `TASK.md`; the folder is made."""
    project = project or project_of(str(house.work))
    path = house.state / "projects" / project / task / "files" / "TASK.md"
    path.parent.mkdir(parents=True)
    house.state.chmod(0o700)
    return path


def expecting(house: House, words: str) -> tuple[str, ...]:
    """The arguments of a run whose model must be shown these words."""
    return ("-a", "scripted", "--model-from", house.scenario(f"[[call]]\nexpect = '{words}'\nsay = 'done'\n"))


@pytest.mark.parametrize("prompt", [(), ("",), (" \n",), ("-",)], ids=["none", "empty", "blank", "from stdin"])
def test_the_task_of_the_task_folder_stands_for_an_empty_prompt(house: House, prompt: tuple[str, ...]) -> None:
    task_file(house).write_text("Paint the boat.\n")
    done = house.inspan("run", *prompt, *expecting(house, "Paint the boat."))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert (house.folder() / "prompt.md").read_text() == "Paint the boat.\n"


def test_the_task_folder_is_that_of_the_project_and_task(house: House) -> None:
    task_file(house, project="boat", task="hull").write_text("Paint the hull.\n")
    done = house.inspan("run", "--project", "boat", "--task", "hull", *expecting(house, "Paint the hull."))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_an_agent_can_write_the_task_of_the_next_run(house: House) -> None:
    writes = "[[call]]\nrun = 'echo Paint it again. > $TASK_FOLDER/TASK.md'\n[[call]]\nsay = 'written'\n"
    house.run("scripted", writes)
    done = house.inspan("run", *expecting(house, "Paint it again."))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_a_prompt_that_was_given_stands(house: House) -> None:
    task_file(house).write_text("Paint the boat.\n")
    house.inspan("run", "Sail it.", *expecting(house, "Sail it."))
    assert (house.folder() / "prompt.md").read_text() == "Sail it."


def test_a_session_that_goes_on_continues_whatever_the_task_was(house: House, fake: Fake) -> None:
    env = puppet(fake, "begin(); say(prompt.strip()); finish()")
    task_file(house).write_text("Paint the boat.\n")
    assert run(house, env, prompt="")[:2] == (0, "Paint the boat.\n")
    assert run(house, env, "--resume", "@last", prompt="")[:2] == (0, "Continue.\n")


def test_where_nothing_says_what_to_do_the_refusal_names_the_file(house: House) -> None:
    path = house.state / "projects" / project_of(str(house.work)) / "default" / "files" / "TASK.md"
    refusal = refusal_of(house, "run", *expecting(house, "x"))
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert refusal.message == f"prompt '': it is empty, no session is resumed, and of {path} there is none."
    assert 'inspan run "' in refusal.next


def blank(path: Path) -> None:
    path.write_text(" \n")


def a_folder(path: Path) -> None:
    path.mkdir()


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def not_utf8(path: Path) -> None:
    path.write_bytes(b"caf\xe9")


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (blank, "empty too"),
        (a_folder, "Is a directory"),
        (a_pipe, "no file"),
        (not_utf8, "not UTF-8"),
        (a_link_to_itself, "symbolic links"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_task_that_cannot_be_read_is_named(house: House, spoil: Callable[[Path], None], says: str) -> None:
    path = task_file(house)
    spoil(path)
    refusal = refusal_of(house, "run", *expecting(house, "x"))
    assert (refusal.exit_code, refusal.code) == (2, "bad_input")
    assert refusal.message.startswith("prompt ")
    assert str(path) in refusal.message
    assert says in refusal.message


def test_another_bad_field_is_named_before_the_prompt(house: House) -> None:
    refusal = refusal_of(house, "run", *expecting(house, "x"), "--project", "../elsewhere")
    assert refusal.message.startswith("project '../elsewhere'")
