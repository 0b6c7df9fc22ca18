"""What a task without a prompt asks for: going on with its session, or what the `TASK.md` of its task folder says."""

import os
import stat

from inspan.errors import BadInput
from inspan.protocol.task import Task

CONTINUE_PROMPT = "Continue."


def default_prompt(task: Task, *, files: str) -> str:
    """What to say in place of an empty prompt; `files` is the folder that all runs of the task share.

    Raises `BadInput` where nothing says what to do.
    """
    if task.resume:
        return CONTINUE_PROMPT
    path = os.path.join(files, "TASK.md")
    text = _read_text(path)
    if text is None or not text.strip():
        how = "there is none" if text is None else "that is empty too"
        raise BadInput(
            "prompt",
            task.prompt,
            f"it is empty, no session is resumed, and of {path} {how}.",
            next_step='Say what to do: inspan run "fix the test"; or write it into that file.',
        )
    return text


def _read_text(path: str) -> str | None:
    try:
        # Never waits: a pipe that nobody writes into is no task.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise BadInput("prompt", path, "it is not a file.", next_step="Put a text file there.")
            return file.read().decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadInput("prompt", path, f"{reason}.", next_step="Put a text file there that can be read.") from error
