"""How `codex app-server` is started, and how its thread is to be opened (0.163.0)."""

from typing import Any

import msgspec

from inspan.contracts.driver import Launch, LaunchContext
from inspan.contracts.prompt_fallbacks import schema_instruction
from inspan.contracts.tool_grants import asks_first
from inspan.protocol.task import Task

from .launch import (
    build_environment,
    distrust_argv,
    is_strict,
    prompt_argv,
    provider_argv,
    quiet_argv,
    server_argv,
    takes_no_tools,
)

# A profile that reads everything but one path that does not exist. With a path denied it runs no command outside of its
# sandbox, whatever a rule of the user's allows; `exec` has an option against such rules, and the server none (0.163).
_PROFILE = "inspan"
_READ_ONLY = (
    *("-c", f'default_permissions="{_PROFILE}"'),
    *("-c", f'permissions.{_PROFILE}.filesystem={{":root"="read","/inspan-denies-nothing"="deny"}}'),
)
# Its tool for questions is not ready in its usual mode, it says, though it works there (0.163).
_QUESTIONS = (
    *("-c", "features.default_mode_request_user_input=true"),
    *("-c", "suppress_unstable_features_warning=true"),
)
_METHODS = {(False, False): "thread/start", (True, False): "thread/resume", (True, True): "thread/fork"}


class Setup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the dialect needs to know of its launch: how the thread is opened, and what goes with its messages.

    With `read_only` the thread must say that it is. `attached` and the words of `head` and `tail` belong to the first
    message, `schema` to every turn.
    """

    read_only: bool = False
    method: str = "thread/start"
    thread: dict[str, Any] = {}
    attached: list[dict[str, Any]] = []
    head: str = ""
    tail: str = ""
    schema: dict[str, Any] | None = None


def launch(task: Task, context: LaunchContext) -> Launch:
    """The server, with the settings of the usual channel; all else is said in its protocol."""
    env = build_environment(task, context)
    words, files = prompt_argv(task, context)
    argv = [context.program, "app-server", *_mode_argv(task, context), *provider_argv(context), *quiet_argv(context)]
    argv += [*words, *server_argv(task, context, env), *task.options]
    # It reads the settings in a config folder of ours; in those, its usual channel notes that a project is trusted.
    settings = {f"{context.config}/config.toml": b""} if context.config else {}
    return Launch(
        argv=tuple(argv),
        env=env,
        files=files | settings | context.attachment_files,
        stdin=msgspec.json.encode(_build_setup(task, context)),
        keeps_stdin=True,
        conversation=True,
    )


def _mode_argv(task: Task, context: LaunchContext) -> tuple[str, ...]:
    asking = _QUESTIONS if _asks(task) else ()
    if task.mode == "exec":
        return (*(("-c", "features.hooks=false") if context.config else ()), *asking)
    return (*_READ_ONLY, *distrust_argv(task, context), *asking)


def _asks(task: Task) -> bool:
    return asks_first(task) and not takes_no_tools(task)


def _build_setup(task: Task, context: LaunchContext) -> Setup:
    schema = task.output_schema
    strict = schema is not None and is_strict(schema)
    return Setup(
        read_only=task.mode != "exec",
        method=_METHODS[bool(context.resume), bool(context.resume and task.fork)],
        thread=_build_thread(task, context),
        attached=[{"type": "localImage", "path": path} for path in context.attachment_files],
        # New instructions are for the start of a thread alone, as in the usual channel.
        head=task.append_system_prompt if context.resume else "",
        tail=schema_instruction(schema) if schema is not None and not strict else "",
        schema=schema if strict else None,
    )


def _build_thread(task: Task, context: LaunchContext) -> dict[str, Any]:
    """The parameters that open the thread; without them, one that is resumed has those that it had.

    The folder is not among them: it works where it was started, and one that is named here is noted as trusted.
    `untrusted` asks about every command and every patch.
    """
    thread: dict[str, Any] = {"approvalPolicy": "untrusted" if _asks(task) else "never"}
    thread |= {"sandbox": "danger-full-access"} if task.mode == "exec" else {"permissions": _PROFILE}
    if task.model:
        thread["model"] = task.model
    if context.resume:
        return {"threadId": context.resume, "excludeTurns": True, **thread}
    if task.append_system_prompt:
        thread["developerInstructions"] = task.append_system_prompt
    return thread
