"""What a task without a prompt asks for: going on with its session, or what the `TASK.md` of its task folder says."""

import os

from inspan.errors import BadInput
from inspan.protocol.task import Task
from inspan.system.plain_file import read_plain_file

CONTINUE_PROMPT = "Continue."
_MOST_BYTES = 16 * 1024 * 1024


def default_prompt(task: Task, *, files: str) -> str:
    """What to say in place of an empty prompt; `files` is the folder that all runs of the task share.

    Raises `BadInput` where nothing says what to do.
    """
    if task.resume:
        return CONTINUE_PROMPT
    path = os.path.join(files, "TASK.md")
    text = _read_text(path)
    if text is None or not text.strip():
        file = f"there is no file {path}" if text is None else f"the file {path} is empty too"
        raise BadInput(
            "prompt",
            task.prompt,
            f"it is empty, no session is resumed, and {file}.",
            next_step='Say what to do: inspan run "fix the test"; or write it into that file.',
        )
    return text


def _read_text(path: str) -> str | None:
    try:
        # Agents write there: a link could lead to what they may not read, and a run would tell it to its model.
        return read_plain_file(path, most_bytes=_MOST_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadInput("prompt", path, f"{reason}.", next_step="Put a text file there that can be read.") from error
