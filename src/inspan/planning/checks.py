"""What a task may say: every field is looked at before anything is written, and a bad one is named."""

import os
import re
import stat
from collections.abc import Mapping, Sequence

import msgspec

from inspan.contracts.sandbox import Sandbox
from inspan.errors import BadInput
from inspan.protocol.budget import BUDGET_HINT
from inspan.protocol.ids import NAME_CHARACTERS, find_name_problem
from inspan.protocol.limits import Limits
from inspan.protocol.network import parse_network
from inspan.protocol.task import McpServer, Task
from inspan.system.paths import is_within
from inspan.system.programs import leads_out, list_exposed_folders

_MAX_VALUE = 1e15
_LARGEST = 2**63 - 1
_NAME_BYTES = 120
_UNITS = {
    "max_turns": "turns",
    "largest_answer": "tokens",
    "memory_bytes": "bytes",
    "cpus": "processors",
    "pids": "processes",
}
# What the way into a sandbox takes by itself, and a command in it; the kernel holds no smaller share of a processor.
_LEAST = {"memory_bytes": 4 * 1024**2, "cpus": 0.01, "pids": 4}
# As many processes as Linux can have, and more processors than there are.
_MOST = {"cpus": 1e6, "pids": 2**22}
_SWITCH_OFF = "to switch it off, use off on the command line, None in a program."
_NO_NAMES: Mapping[str, str] = {}
_CWD_NEXT = "Create it, or pass another with --cwd."

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
    "net",
    "image",
    "project",
    "task",
    "name",
    "resume",
)
_LISTS = ("allowed_tools", "disallowed_tools", "extra_dirs", "attachments", "options", "ask", "read")
# Two underscores part a server's name from its tool's.
_SERVER_NAME = re.compile(r"(?!.*__)[A-Za-z0-9_-]{1,64}")
_ASK_PATTERN = re.compile(r"\*|[A-Za-z][\w-]*\*?(\(.+\))?", re.DOTALL)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Of these a private sandbox has its own, or shows only what is for everybody.
_KERNEL = ("/dev", "/proc", "/sys")
_HIDDEN = (*_KERNEL, "/etc", "/run", "/tmp", "/var/tmp")
_SYSTEM = ("/bin", "/lib", "/sbin", "/boot", "/usr/bin", "/usr/lib", "/usr/sbin", "/usr/local/bin")


def check_own_name(name: str) -> None:
    """Raises `BadInput` for a name that no run, loop or blueprint can have; it may do without."""
    if name and (problem := find_name_problem(name)):
        step = f"Use letters, digits, - _ and ., at most {NAME_CHARACTERS}, with a letter among them: --name fix-login."
        raise BadInput("name", name, problem, next_step=step)


def check_task(task: Task) -> None:
    """Raises `BadInput` for the first field that cannot be used."""
    _check_text(task)
    if not task.prompt.strip() and not task.session:
        raise BadInput("prompt", task.prompt, "it is empty.", next_step='Say what to do: inspan run "fix the test".')
    _check_folder("cwd", task.cwd, next_step=_CWD_NEXT)
    if task.mode == "exec" and not os.access(task.cwd, os.W_OK | os.X_OK):
        raise BadInput("cwd", task.cwd, "it is not writable.", next_step="Change its mode, or pass another with --cwd.")
    for folder in task.extra_dirs:
        _check_folder("extra_dirs", folder, next_step="Create it, or leave it out.")
    for path in task.read:
        check_readable(path, folders=(task.cwd, *task.extra_dirs))
    if task.net:
        parse_network(task.net)
    if task.project:
        _check_name("project", task.project)
    _check_name("task", task.task)
    check_own_name(task.name)
    for name in task.env:
        check_variable(name)
    for name, server in task.mcp_servers.items():
        _check_server(name, server)
    if abs(task.fault_seed) > _LARGEST:
        raise BadInput("fault_seed", task.fault_seed, "it is too large.", next_step="Give less.")
    check_limits(task.limits)
    _check_questions(task)
    _check_budgets(task)
    if task.faults:
        from inspan.gateway.faults import parse_fault  # Start-up time: few runs ask for faults.

        for fault in task.faults:
            parse_fault(fault)
    if task.output_schema is not None:
        # Start-up time: only answers that are checked need it.
        from inspan.running.answers import check_schema

        check_schema(task.output_schema)


def _check_questions(task: Task) -> None:
    for pattern in task.ask:
        if not _ASK_PATTERN.fullmatch(pattern):
            step = "For example Bash(git push*), Edit, mcp__server, or '*' for whatever the agent asks about."
            raise BadInput("ask", pattern, "it names no tool.", next_step=step)


def _check_text(task: Task) -> None:
    """The prompt reaches the agent by a pipe and may hold anything that is text; the rest become arguments."""
    arguments = {field: getattr(task, field) for field in _ARGUMENTS}
    arguments |= {f"{field} {place}": word for field in _LISTS for place, word in enumerate(getattr(task, field) or ())}
    arguments |= {f"env {name}": f"{name}={value}" for name, value in task.env.items()}
    for field, value in {"prompt": task.prompt, **arguments}.items():
        check_word(field, value)


def check_word(field: str, value: str) -> None:
    """Raises `BadInput` for what cannot be an argument, or is no text that could be written down."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadInput(field, value, "it is not UTF-8.", next_step="Write it in UTF-8.") from error
    if "\0" in value and field != "prompt":
        raise BadInput(field, value, "it contains a NUL byte.", next_step="Remove it.")


def check_variable(name: str, *, next_step: str = "Use --env NAME=VALUE.") -> None:
    """Raises `BadInput` for what is no name of a variable."""
    if not name or "=" in name or "\0" in name:
        raise BadInput("env", name, "not a valid variable name.", next_step=next_step)


def check_boxed_folder(field: str, path: str) -> None:
    """Raises `BadInput` for a folder that holds a part of the system which a sandbox hides or keeps from being written:
    whoever may write it all has left the sandbox.
    """
    if covered := _find_covered(path, (*_HIDDEN, *_SYSTEM)):
        step = "Work in a folder of your own, or without a sandbox."
        raise BadInput(field, path, f"a sandbox cannot give away {covered}.", next_step=step)


def check_readable(path: str, *, folders: Sequence[str] = ()) -> None:
    """What a sandbox shows must be there, and must be no way out of it; nor may a link in the `folders` that are
    worked in decide what it is.
    """
    if not os.path.isabs(path):
        raise BadInput("read", path, "it is not a whole path.", next_step="Begin it with /.")
    try:
        mode = os.stat(path).st_mode  # What a link names is what will be seen.
    except OSError as error:
        raise BadInput("read", path, f"{error.strerror}.", next_step="Create it, or leave it out.") from error
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        step = "Name a file or a folder; a socket or a device leads out of the sandbox."
        raise BadInput("read", path, "it is neither a file nor a folder.", next_step=step)
    real = os.path.realpath(path)
    if covered := _find_covered(path, _HIDDEN) or next((each for each in _KERNEL if is_within(real, each)), ""):
        step = "Name the folders or files in it that are needed."
        raise BadInput("read", path, f"it would uncover {covered}, which a sandbox has its own of.", next_step=step)
    if leads_out(path, list_exposed_folders(*folders)):
        step = f"Name {real} itself, if you mean it."
        raise BadInput("read", path, "it is what a link says that an agent may have written.", next_step=step)


def _find_covered(path: str, places: Sequence[str]) -> str:
    """The first of the places that lies at a path or below it."""
    real = os.path.realpath(path)
    return next((place for place in places if is_within(place, real)), "")


def check_cwd(cwd: str, *, next_step: str = _CWD_NEXT) -> None:
    """Raises `BadInput` for a working folder that is none: before anything is looked for in it, and blamed."""
    check_word("cwd", cwd)
    _check_folder("cwd", cwd, next_step=next_step)


def _check_folder(field: str, path: str, *, next_step: str) -> None:
    if path and not os.path.isabs(path):
        raise BadInput(field, path, "it is not a whole path.", next_step="Begin it with /.")
    try:
        problem = "" if stat.S_ISDIR(os.stat(path).st_mode) else "it is not a folder."
    except FileNotFoundError:
        problem = "no such folder."
    except OSError as error:
        problem = f"{error.strerror}."
    if not problem and not os.access(path, os.X_OK):
        raise BadInput(field, path, "it cannot be entered.", next_step="Change its mode, or name another.")
    if problem:
        raise BadInput(field, path, problem, next_step=next_step)


def _check_name(field: str, value: str) -> None:
    """Whatever a folder may be called, for the default project is called so; but it is printed, and in one line."""
    if value in ("", ".", "..") or "/" in value:
        raise BadInput(field, value, "it must be the name of a folder.", next_step="Use letters, digits, - and _.")
    if not value.isprintable():
        odd = next(letter for letter in value if not letter.isprintable())
        raise BadInput(field, value, f"it contains the character {odd!r}.", next_step="Use letters, digits, - and _.")
    if (length := len(value.encode())) > _NAME_BYTES:
        step = f"Use at most {_NAME_BYTES} bytes."
        raise BadInput(field, value, f"it is too long: {length} bytes.", next_step=step)


def _check_server(name: str, server: McpServer) -> None:
    if not _SERVER_NAME.fullmatch(name):
        raise BadInput(
            "mcp_servers", name, "not a valid server name.", next_step="Use letters, digits, - and single _."
        )
    if bool(server.command) == bool(server.url):
        given = {"command": server.command, "url": server.url}
        raise BadInput(f"mcp_servers {name}", given, "it needs a command or a url.", next_step="Give one of them.")
    if server.url and not server.url.startswith(("http://", "https://")):
        raise BadInput(f"mcp_servers {name}", server.url, "not a URL.", next_step="Begin it with https:// or http://.")
    for variable in server.env:
        if not _VARIABLE.fullmatch(variable):
            step = "Use letters, digits and _."
            raise BadInput(f"mcp_servers {name}", variable, "not a valid variable name.", next_step=step)
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
            raise BadInput(f"mcp_servers {name}", word, "it contains a NUL byte.", next_step="Remove it.")


def _check_budgets(task: Task) -> None:
    for node, budget in task.budgets.items():
        for field in ("usd", "tokens", "calls", "seconds", "restarts"):
            value = getattr(budget, field)
            if value is not None and not 0 < value < _MAX_VALUE:
                problem = "a budget must be more than 0."
                raise BadInput(f"budgets {node}", {field: value}, problem, next_step=BUDGET_HINT)
    for field in ("requests_per_minute", "tokens_per_minute", "concurrent_calls"):
        value = getattr(task.rates, field)
        if value is not None and not 0 < value <= _LARGEST:
            problem = "a rate must be more than 0." if not value > 0 else "it is too large."
            raise BadInput(f"rates {field}", value, problem, next_step="Give another, or None.")
    if not 0 <= task.rates.longest_hold_s < _MAX_VALUE:
        raise BadInput("rates longest_hold_s", task.rates.longest_hold_s, "no time to wait.", next_step="Give seconds.")
    for model, price in task.prices.items():
        for field, value in msgspec.structs.asdict(price).items():
            if value is not None and not 0 <= value < _MAX_VALUE:
                step = "Give dollars for a million tokens, 0 or more."
                raise BadInput(f"prices {model}", {field: value}, "it is not a price.", next_step=step)


def check_limits_hold(sandbox: Sandbox, limits: Limits) -> None:
    """Raises `BadInput` for a limit that this sandbox would not be held by."""
    if limits.resources and not sandbox.joins_groups:
        step = "Leave the limits out, or use the sandbox podman or bwrap."
        why = "its daemon starts containers outside of the control groups of a run."
        raise BadInput("sandbox", sandbox.name, why, next_step=step)


def describe_idle_limits(limits: Limits) -> list[str]:
    """Of limits that are taken, those that limit nothing on this machine."""
    processors = os.cpu_count()
    if limits.cpus is None or processors is None or limits.cpus <= processors:
        return []
    return [f"--cpus {limits.cpus:g} limits nothing: this machine has {processors} processors."]


def check_limits(limits: Limits, *, names: Mapping[str, str] = _NO_NAMES) -> None:
    """Raises `BadInput` for a limit that is none, or that nothing could be started under, or that the kernel does not
    take. `names` are those of fields that the caller knows by another one.
    """
    for field in limits.__struct_fields__:
        value, named, unit = getattr(limits, field), names.get(field, field), _UNITS.get(field, "seconds")
        if value is None or (field == "answer_timeout_s" and value == 0):
            continue  # Off; or nobody is there to answer.
        if value > _MOST.get(field, _LARGEST):
            raise BadInput(named, value, "it is too large.", next_step=f"Give less; {_SWITCH_OFF}")
        if not value > 0:
            problem = f"a limit must be more than 0 {unit}."
            raise BadInput(named, value, problem, next_step=f"Give more; {_SWITCH_OFF}")
        if value < _LEAST.get(field, 0):
            problem = f"nothing can be started with less than {_LEAST[field]} {unit}."
            raise BadInput(named, value, problem, next_step=f"Give more; {_SWITCH_OFF}")
