"""Code that a project brings and an agent would run unasked: refused where projects are not trusted."""

import os
import re
from collections.abc import Iterator

from inspan.contracts.driver import Driver, ProjectCode
from inspan.errors import BadInput
from inspan.protocol.task import Task

_ESCAPED = re.compile(rb"\\u00([0-9a-fA-F]{2})")


def refuse_project_code(task: Task, driver: Driver) -> None:
    """Raises `BadInput` where the agent cannot be kept from running what the project says: in the profile clean, and in
    `complete`. A review is held by a box."""
    for code in driver.channels[0].project_code:
        if task.mode == "complete" and code.in_complete:
            step = "Ask in another folder, with -C."
        elif task.mode == "exec" and task.profile == "clean":
            step = "Use --profile user if you trust this project, or another agent."
        else:
            continue
        for path in _find_code(code, task.cwd):
            problem = f"{driver.title} runs what {path} says, and cannot be kept from it."
            field, value = ("mode", task.mode) if task.mode == "complete" else ("profile", task.profile)
            raise BadInput(field, value, problem, next_step=step)


def _find_code(code: ProjectCode, cwd: str) -> Iterator[str]:
    for folder in _folders(cwd) if code.above else [cwd]:
        path = os.path.join(folder, code.path)
        if os.path.lexists(path) and (not code.word or _holds(path, code.word)):
            yield path


def _folders(cwd: str) -> Iterator[str]:
    """The working folder and those above it, up to that of the repository."""
    folder = cwd
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder or os.path.lexists(os.path.join(folder, ".git")):
            return
        folder = parent


def _holds(path: str, word: str) -> bool:
    """Whether a file of JSON holds a word, in whatever spelling; one that cannot be read may."""
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError:
        return True
    return word.encode() in _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), text)
