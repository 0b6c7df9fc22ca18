"""What a task may say: every field is looked at before anything is written, and a bad one is named."""

import os

from inspan.errors import BadInput
from inspan.protocol.task import Task


def check(task: Task) -> None:
    """Raises `BadInput` for the first field that cannot be used."""
    _check_text(task)
    if not task.prompt.strip():
        raise BadInput("prompt", task.prompt, "it is empty.", next_step='Say what to do: inspan run "fix the test".')
    if not os.path.isabs(task.cwd) or not os.path.isdir(task.cwd):
        problem = "it is no folder." if os.path.exists(task.cwd) else "no such folder."
        raise BadInput("cwd", task.cwd, problem, next_step="Create it, or pass another with --cwd.")
    if not os.access(task.cwd, os.W_OK | os.X_OK):
        raise BadInput("cwd", task.cwd, "it is not writable.", next_step="Change its mode, or pass another with --cwd.")
    if task.project:
        _check_name("project", task.project)
    _check_name("task", task.task)
    for name in task.env:
        if not name or "=" in name or "\0" in name:
            raise BadInput("env", name, "no name of a variable.", next_step="Use --env NAME=VALUE.")
    _check_limits(task)


def _check_text(task: Task) -> None:
    """The prompt reaches the agent by a pipe and may hold anything that is text; the rest become arguments."""
    arguments = {field: getattr(task, field) for field in ("cwd", "model", "model_from", "project", "task")}
    arguments |= {f"env {name}": f"{name}={value}" for name, value in task.env.items()}
    for field, value in {"prompt": task.prompt, **arguments}.items():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise BadInput(field, value, "it is not UTF-8.", next_step="Write it in UTF-8.") from error
        if "\0" in value and field != "prompt":
            raise BadInput(field, value, "it holds a NUL byte.", next_step="Remove it.")


def _check_name(field: str, value: str) -> None:
    if value in ("", ".", "..") or "/" in value or "\0" in value or len(value.encode()) > 120:
        raise BadInput(field, value, "it must be the name of a folder.", next_step="Use letters, digits, - and _.")


def _check_limits(task: Task) -> None:
    for field in task.limits.__struct_fields__:
        value = getattr(task.limits, field)
        if value is not None and not value > 0:
            raise BadInput(
                field,
                value,
                "a limit must be more than 0 seconds.",
                next_step="Give more; to switch it off, use off on the command line, None in a program.",
            )
