"""What an agent has no option for is said to it in words: the prompt's head and tail carry it, the same for all."""

import msgspec

from inspan.protocol.task import Task

from .driver import Capabilities

# In bytes: Linux refuses a word of a command line from 128 KiB on.
LONGEST_ARGUMENT = 120_000
_NO_TOOLS = "Answer at once, in one message. Do not call any tools."
_NO_EDITS = "Read and run what you need, but change no file and nothing else on this machine: this is a review."


def worded(task: Task, capabilities: Capabilities, *, texts: str = "") -> Task:
    """The task with everything in its prompt that this agent can only be asked for; `texts` are attached files."""
    head = [
        task.system_prompt if capabilities.system_prompt == "asked" else "",
        task.append_system_prompt if capabilities.append_system_prompt == "asked" else "",
        _NO_EDITS if task.mode == "review" and capabilities.review == "asked" else "",
        _NO_TOOLS if task.mode == "complete" and capabilities.complete == "asked" and not task.allowed_tools else "",
    ]
    tail = [texts]
    if task.output_schema is not None and capabilities.output_schema == "asked":
        tail.append(schema_words(task.output_schema))
    parts = [part for part in (*head, task.prompt, *tail) if part]
    return msgspec.structs.replace(task, prompt="\n\n".join(parts)) if len(parts) > 1 else task


def prompt_of(task: Task) -> str:
    """The prompt for a program that takes a slash for the start of a command of its own, which only `exec` may use."""
    return f" {task.prompt}" if task.prompt.startswith("/") and task.mode != "exec" else task.prompt


def schema_words(schema: dict[str, object]) -> str:
    """The instruction that stands for a schema where there is no option for one."""
    written = msgspec.json.encode(schema).decode()
    return f"Answer with exactly one JSON value, without other text or a code fence, that fits this schema:\n{written}"
