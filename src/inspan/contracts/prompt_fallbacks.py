"""What an agent has no option for is said to it in words: the prompt's head and tail carry it, the same for all."""

import msgspec

from inspan.protocol.task import Mode, Task

from .driver import Capabilities

# In bytes: Linux refuses a word of a command line from 128 KiB on.
MAX_ARGUMENT_BYTES = 120_000
_NO_TOOLS = "Answer at once, in one message. Do not call any tools."
_NO_EDITS = "Read and run what you need, but change no file and nothing else on this machine: this is a review."


def add_prompt_fallbacks(task: Task, capabilities: Capabilities, *, texts: str = "") -> Task:
    """The task with everything in its prompt that this agent can only be asked for; `texts` are attached files."""
    head = _iter_head(task, capabilities)
    parts = [part for part in (*head, task.prompt, *_iter_tail(task, capabilities, texts)) if part]
    return msgspec.structs.replace(task, prompt="\n\n".join(parts)) if len(parts) > 1 else task


def build_preamble(task: Task, capabilities: Capabilities, *, texts: str = "") -> str:
    """The same, as what stands before the first message of a conversation."""
    parts = (*_iter_head(task, capabilities), *_iter_tail(task, capabilities, texts))
    return "\n\n".join(part for part in parts if part)


def _iter_head(task: Task, capabilities: Capabilities) -> tuple[str, ...]:
    return (
        task.system_prompt if capabilities.system_prompt == "asked" else "",
        task.append_system_prompt if capabilities.append_system_prompt == "asked" else "",
        _NO_EDITS if task.mode == "review" and capabilities.review == "asked" else "",
        _NO_TOOLS if task.mode == "complete" and capabilities.complete == "asked" and not task.allowed_tools else "",
    )


def _iter_tail(task: Task, capabilities: Capabilities, texts: str) -> tuple[str, ...]:
    asked = task.output_schema is not None and capabilities.output_schema == "asked"
    return (texts, schema_instruction(task.output_schema) if asked and task.output_schema is not None else "")


def escape_slash_command(task: Task) -> str:
    """The prompt for a program that takes a slash for the start of a command of its own, which only `exec` may use."""
    return escape_slash(task.prompt, task.mode)


def escape_slash(text: str, mode: Mode) -> str:
    """The same for any message."""
    return f" {text}" if text.startswith("/") and mode != "exec" else text


def schema_instruction(schema: dict[str, object]) -> str:
    """The instruction that stands for a schema where there is no option for one."""
    written = msgspec.json.encode(schema).decode()
    return f"Answer with exactly one JSON value, without other text or a code fence, that fits this schema:\n{written}"
