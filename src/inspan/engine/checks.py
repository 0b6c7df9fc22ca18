"""What a task may say: every field is looked at before anything is written, and a bad one is named."""

import os
import re

import msgspec

from inspan.errors import BadInput
from inspan.protocol.budget import BUDGET_HINT
from inspan.protocol.task import McpServer, Task

_MOST = 1e15

_ARGUMENTS = (
    "cwd",
    "model",
    "effort",
    "system_prompt",
    "append_system_prompt",
    "model_from",
    "key_from",
    "base_url",
    "channel",
    "project",
    "task",
    "resume",
)
_LISTS = ("allowed_tools", "disallowed_tools", "extra_dirs", "attachments", "options")
# Two underscores part a server's name from its tool's.
_SERVER_NAME = re.compile(r"(?!.*__)[A-Za-z0-9_-]{1,64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check(task: Task) -> None:
    """Raises `BadInput` for the first field that cannot be used."""
    _check_text(task)
    if not task.prompt.strip():
        raise BadInput("prompt", task.prompt, "it is empty.", next_step='Say what to do: inspan run "fix the test".')
    _check_folder("cwd", task.cwd, next_step="Create it, or pass another with --cwd.")
    if task.mode == "exec" and not os.access(task.cwd, os.W_OK | os.X_OK):
        raise BadInput("cwd", task.cwd, "it is not writable.", next_step="Change its mode, or pass another with --cwd.")
    for folder in task.extra_dirs:
        _check_folder("extra_dirs", folder, next_step="Create it, or leave it out.")
    if task.project:
        _check_name("project", task.project)
    _check_name("task", task.task)
    for name in task.env:
        if not name or "=" in name or "\0" in name:
            raise BadInput("env", name, "no name of a variable.", next_step="Use --env NAME=VALUE.")
    for name, server in task.mcp_servers.items():
        _check_server(name, server)
    _check_limits(task)
    _check_money(task)
    if task.faults:
        from inspan.gateway.faults import parse_fault  # Start-up time: few runs ask for faults.

        for fault in task.faults:
            parse_fault(fault)
    if task.output_schema is not None:
        # Start-up time: only answers that are checked need it.
        from .answers import check_schema

        check_schema(task.output_schema)


def _check_text(task: Task) -> None:
    """The prompt reaches the agent by a pipe and may hold anything that is text; the rest become arguments."""
    arguments = {field: getattr(task, field) for field in _ARGUMENTS}
    arguments |= {f"{field} {place}": word for field in _LISTS for place, word in enumerate(getattr(task, field) or ())}
    arguments |= {f"env {name}": f"{name}={value}" for name, value in task.env.items()}
    for field, value in {"prompt": task.prompt, **arguments}.items():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise BadInput(field, value, "it is not UTF-8.", next_step="Write it in UTF-8.") from error
        if "\0" in value and field != "prompt":
            raise BadInput(field, value, "it holds a NUL byte.", next_step="Remove it.")


def _check_folder(field: str, path: str, *, next_step: str) -> None:
    if not os.path.isabs(path) or not os.path.isdir(path):
        problem = "it is no folder." if os.path.exists(path) else "no such folder."
        raise BadInput(field, path, problem, next_step=next_step)


def _check_name(field: str, value: str) -> None:
    if value in ("", ".", "..") or "/" in value or "\0" in value or len(value.encode()) > 120:
        raise BadInput(field, value, "it must be the name of a folder.", next_step="Use letters, digits, - and _.")


def _check_server(name: str, server: McpServer) -> None:
    if not _SERVER_NAME.fullmatch(name):
        raise BadInput("mcp_servers", name, "no name of a server.", next_step="Use letters, digits, - and single _.")
    if bool(server.command) == bool(server.url):
        given = {"command": server.command, "url": server.url}
        raise BadInput(f"mcp_servers {name}", given, "it needs a command or a url.", next_step="Give one of them.")
    if server.url and not server.url.startswith(("http://", "https://")):
        raise BadInput(f"mcp_servers {name}", server.url, "no URL.", next_step="Begin it with https:// or http://.")
    for variable in server.env:
        if not _VARIABLE.fullmatch(variable):
            step = "Use letters, digits and _."
            raise BadInput(f"mcp_servers {name}", variable, "no name of a variable.", next_step=step)
    for word in (
        *server.headers,
        *server.headers.values(),
        server.command,
        *server.args,
        *server.env,
        *server.env.values(),
        server.url,
    ):
        if "\0" in word:
            raise BadInput(f"mcp_servers {name}", word, "it holds a NUL byte.", next_step="Remove it.")


def _check_money(task: Task) -> None:
    for node, budget in task.budgets.items():
        for field in ("usd", "tokens", "calls", "seconds", "restarts"):
            value = getattr(budget, field)
            if value is not None and not 0 < value < _MOST:
                problem = "a budget must be more than 0."
                raise BadInput(f"budgets {node}", {field: value}, problem, next_step=BUDGET_HINT)
    for field in ("requests_per_minute", "tokens_per_minute", "concurrent_calls"):
        value = getattr(task.rates, field)
        if value is not None and not value > 0:
            raise BadInput(f"rates {field}", value, "a rate must be more than 0.", next_step="Give more, or None.")
    if not 0 <= task.rates.longest_hold_s < _MOST:
        raise BadInput("rates longest_hold_s", task.rates.longest_hold_s, "no time to wait.", next_step="Give seconds.")
    for model, price in task.prices.items():
        if any(value is not None and not 0 <= value < _MOST for value in msgspec.structs.astuple(price)):
            raise BadInput("prices", model, "a price is 0 or more.", next_step="Give dollars for a million tokens.")


def _check_limits(task: Task) -> None:
    for field in task.limits.__struct_fields__:
        value = getattr(task.limits, field)
        if value is not None and not value > 0:
            unit = {"max_turns": "turns", "largest_answer": "tokens"}.get(field, "seconds")
            raise BadInput(
                field,
                value,
                f"a limit must be more than 0 {unit}.",
                next_step="Give more; to switch it off, use off on the command line, None in a program.",
            )
