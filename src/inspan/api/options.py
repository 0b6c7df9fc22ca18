"""What every mode of a runner takes, and how that becomes a task; what has a wrong name or shape is refused here."""

import os
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypedDict, cast, get_args

import msgspec

from inspan.errors import BadInput
from inspan.protocol.budget import BUDGET_HINT, NODES, Budget, Node, Period, parse_budget
from inspan.protocol.known_types import know_type
from inspan.protocol.limits import Limits, Price, Rates, WatchdogLimits
from inspan.protocol.session import HookName
from inspan.protocol.task import McpServer, Mode, Profile, Task
from inspan.running.callbacks import EventCallback

if TYPE_CHECKING:
    from inspan.contracts.reporter import Reporter
    from inspan.contracts.sandbox import RunSandbox

    from .hooks import AfterTool, BeforeTool, OnStop
    from .permissions import OnPermission, OnQuestion
    from .tools import Tool

Path = str | os.PathLike[str]


class SharedOptions(TypedDict, total=False):
    """What the driver contract takes too, with the meaning of the fields of `Task`.

    `cwd` is the current folder by default; a session that goes on must be one of that folder. `max_turns` is a limit
    that stands for itself. `ask` are the tools that somebody is asked about; `on_permission` decides, as a function or
    a coroutine function, and `on_question` answers the agent's questions. `tools` are the program's own functions.
    `before_tool` hears of each tool before it is used, and may hold it back or change its input; what `after_tool` and
    `on_stop` give is told to the agent.
    `sandbox` is the name of one, or one that is open: then the run works in its folder and is confined as it is.
    `record_tokens` enters each run into `tokens-used.json` of its task, for audit. A reporter is told of one run after
    the other: give runs at once one each. A budget may be written as on the command line: `2usd`.
    """

    cwd: Path
    model: str
    effort: str
    max_turns: int | None
    disallowed_tools: Sequence[str]
    extra_dirs: Sequence[Path]
    mcp_servers: Mapping[str, McpServer]
    attachments: Sequence[Path]
    fork: bool
    project: str
    task: str
    name: str
    profile: Profile
    channel: str
    login: bool
    key_from: str
    sandbox: "str | RunSandbox"
    net: str
    read: Sequence[Path]
    image: str
    model_from: str
    base_url: str
    budgets: "Mapping[Node, Budget | str]"
    rates: Rates
    prices: Mapping[str, Price]
    faults: Sequence[str]
    fault_seed: int
    partial: bool
    strict: bool
    limits: Limits
    watchdog: WatchdogLimits | None
    env: Mapping[str, str]
    options: Sequence[str]
    ask: Sequence[str]
    tools: "Sequence[Tool | Callable[..., Any]]"
    on_event: EventCallback | None
    on_permission: "OnPermission | None"
    on_question: "OnQuestion | None"
    before_tool: "BeforeTool | None"
    after_tool: "AfterTool | None"
    on_stop: "OnStop | None"
    reporter: "Reporter | None"
    record_tokens: bool


class Options(SharedOptions, total=False):
    """What every mode takes."""

    system_prompt: str
    append_system_prompt: str
    allowed_tools: Sequence[str] | None
    resume: str


class SessionOptions(Options, total=False):
    """What an open session takes: its mode, and whether it has a supervisor of its own and outlives the program."""

    mode: Mode
    supervised: bool


MODES: tuple[Mode, ...] = get_args(Mode)
HOOK_NAMES: tuple[HookName, ...] = get_args(HookName)
_CALLBACKS = ("on_event", "on_permission", "on_question", "reporter", *HOOK_NAMES)
_NOT_IN_TASK = (*_CALLBACKS, "max_turns", "record_tokens", "mode", "supervised")
_LISTS = ("allowed_tools", "disallowed_tools", "extra_dirs", "attachments", "read", "faults", "options", "ask")
# Field → the words that it takes; the key of `budgets` is one of them.
_CHOICES = {"mode": MODES, "profile": get_args(Profile), "budgets": NODES, "per": get_args(Period)}
_REPORTER_METHODS = ("node_start", "node_output", "node_complete", "run_complete")


def check_names(options: Mapping[str, object], known: frozenset[str] = Options.__optional_keys__) -> None:
    """Raises `BadInput` for an option that nobody knows, with the nearest that somebody does."""
    for name, value in options.items():
        if name == "output_schema" and name not in known:
            step = "`complete` takes it, and so does send_message with mode='complete'."
            raise BadInput(name, "…", "it is not an option here.", next_step=step)
        if name not in known:
            close = get_close_matches(name, sorted(known), 3)
            nearest = [each for each in close if sorted(each) == sorted(name)] or close  # Two letters were swapped.
            hint = f"Did you mean {nearest[0]!r}?" if nearest else f"Known options: {', '.join(sorted(known))}."
            raise BadInput(name, value, "unknown option.", next_step=hint)


def build_task(agent: str, mode: Mode, prompt: str, options: Options, *, session: bool = False) -> Task:
    """The task that these options describe; raises `BadInput` for a wrong name or shape.

    A function that decides about permissions is asked about all that the agent would ask about.
    """
    check_names(options, SessionOptions.__optional_keys__ if session else Options.__optional_keys__)
    given: dict[str, Any] = {name: value for name, value in options.items() if name not in _NOT_IN_TASK}
    given |= {name: to_tuple(name, given[name]) for name in _LISTS if given.get(name) is not None}
    if "budgets" in given:
        given["budgets"] = _budgets(given["budgets"])
    audited = cast(object, options.get("record_tokens", False))
    if not isinstance(audited, bool):
        raise BadInput("record_tokens", audited, "it is neither True nor False.", next_step="Give one of them.")
    given["cwd"] = resolve_cwd(options)
    if not isinstance(given.get("sandbox", ""), str):
        del given["sandbox"]
    if given.get("tools"):
        from .tools import collect_tools  # Start-up time: few programs have tools of their own.

        given["tools"] = tuple(each.spec for each in collect_tools(given["tools"]))
    if options.get("on_permission") and not given.get("ask"):
        given["ask"] = ("*",)
    given["hooks"] = tuple(list_hooks(options))
    task = normalize_task(Task(prompt=prompt, agent=agent, mode=mode, session=session, **given))
    task = confine_task(task, options.get("sandbox"))
    if "max_turns" not in options:
        return task
    limits = msgspec.structs.replace(task.limits, max_turns=options["max_turns"])
    return normalize_task(msgspec.structs.replace(task, limits=limits))


def list_hooks(options: Options) -> list[HookName]:
    """The hooks for which there are functions."""
    return [hook for hook in HOOK_NAMES if options.get(hook) is not None]


def without_session_options(options: SessionOptions) -> Options:
    """What of it a single run takes."""
    return cast(Options, {name: value for name, value in options.items() if name in Options.__optional_keys__})


def resolve_cwd(options: Options) -> Any:
    """The working folder that these options mean, absolute; raises `BadInput` where the current one is gone."""
    usual = getattr(options.get("sandbox"), "work_dir", os.curdir)
    return _resolve_path(options.get("cwd", usual))


def confine_task(task: Task, sandbox: "RunSandbox | str | None") -> Task:
    """The task as it runs in a sandbox that is named or open; raises `BadInput` for one in which no agent can be
    started, or where the task says another.
    """
    if sandbox is None:
        return task
    if isinstance(sandbox, str):
        return msgspec.structs.replace(task, sandbox=merge_choice("sandbox", task.sandbox, sandbox))
    if not callable(getattr(sandbox, "confine", None)):
        step = "Give the name of a sandbox, or one that inspan.open_sandbox opened."
        raise BadInput("sandbox", sandbox, "an agent cannot be started in it.", next_step=step)
    return sandbox.confine(task)


def merge_choice(field: str, said: str, given: str) -> str:
    """What was given beside a task; raises `BadInput` where the task says something else."""
    if said not in ("", given):
        step = "Leave one of the two out."
        raise BadInput(field, said, f"the task says so, and {given or 'nothing'!r} is given beside it.", next_step=step)
    return given


def normalize_task(task: Task) -> Task:
    """The task, its fields of the types that they should have and its folder absolute; raises `BadInput` with the
    field that cannot be used.

    An empty prompt goes on with a session, and does nothing else: to a program it is input that was left empty, and
    what an agent has written into `TASK.md` is not to be done because of that.
    """
    if not isinstance(cast(object, task), Task):
        raise BadInput("task", task, "it is not a task.", next_step="Give an inspan.Task(prompt=…, cwd=…).")
    plain = {name: _to_builtins(value) for name, value in msgspec.structs.asdict(task).items()}
    try:
        task = msgspec.convert(plain, know_type(Task))
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `")
        field = place.rpartition("$.")[2].rstrip("`")
        step = _right_words(field) if problem.startswith("Invalid enum value") else "Give a value of that type."
        raise BadInput(field, _value_at(plain, field), f"{problem.replace('`', '')}.", next_step=step) from error
    except UnicodeEncodeError as error:
        field = next((name for name, value in plain.items() if value == error.object), "task")
        raise BadInput(field, error.object, "it is not UTF-8.", next_step="Write it in UTF-8.") from error
    if not task.prompt.strip() and not task.resume and not task.session:
        step = "Say what to do. Only `inspan run` reads TASK.md."
        raise BadInput("prompt", task.prompt, "it is empty.", next_step=step)
    return task if os.path.isabs(task.cwd) else msgspec.structs.replace(task, cwd=_resolve_path(task.cwd))


def check_callbacks(on_event: object, reporter: object) -> None:
    """Raises `BadInput` for a callback that cannot be called, and for what is no reporter."""
    if on_event is not None:
        check_function("on_event", on_event)
    if isinstance(reporter, type):
        raise BadInput("reporter", reporter, "it is a class.", next_step="Pass an instance: add ().")
    lacks = [name for name in _REPORTER_METHODS if reporter is not None and not callable(getattr(reporter, name, None))]
    if lacks:
        step = "Give a reporter, such as inspan.reporters.console.ConsoleReporter()."
        raise BadInput("reporter", reporter, f"it is not a reporter: it has no {lacks[0]}.", next_step=step)


def check_function(name: str, value: object) -> None:
    """Raises `BadInput` for what cannot be called."""
    if not callable(value):
        raise BadInput(name, value, "it is not a function.", next_step="Give the function itself, without calling it.")


def check_count(name: str, value: object) -> None:
    """Raises `BadInput` for what is no whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadInput(name, value, "it is not a whole number.", next_step="Give an int.")


def check_text(name: str, value: object) -> None:
    """Raises `BadInput` for what is no text."""
    if not isinstance(value, str):
        raise BadInput(name, value, "it is not text.", next_step="Give a str.")


def path_of(name: str, value: Path) -> str:
    """A path that a program gives, absolute; raises `BadInput` for what is none."""
    try:
        text: object = os.fspath(value)
    except TypeError:
        text = None
    if not isinstance(text, str):
        raise BadInput(name, value, "it is not a path.", next_step="Give a str or a pathlib.Path.")
    if "\0" in text:
        raise BadInput(name, text, "it contains a NUL byte.", next_step="Remove it.")
    return _resolve_path(text)


def _right_words(field: str) -> str:
    """The next step for a field that takes one of a few words."""
    known = _CHOICES.get(field.rpartition(".")[2], ())
    *first, last = [word for word in known if word] or ["a value of that type"]
    words = f"{', '.join(first)} or {last}" if first else last
    return f"Use {words}, or leave it out." if "" in known else f"Use {words}."


def _value_at(plain: Any, field: str) -> Any:
    """The value at `limits.timeout_s`, `env[...]` and the like; of variables and headers, which may be secret, the
    names alone."""
    for part in field.split("."):
        name, bracket, _ = part.partition("[")
        plain = plain.get(name)
        if bracket:
            break
    return list(cast(Mapping[str, Any], plain)) if isinstance(plain, Mapping) else plain


def _to_builtins(value: Any) -> Any:
    """Structs, alone or in a mapping, as what they hold: what is a struct already would not be looked at."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if isinstance(value, Mapping):
        return {name: _to_builtins(item) for name, item in cast(Mapping[str, Any], value).items()}
    return value


def _budgets(given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise BadInput("budgets", given, "it is not a mapping.", next_step='For example {"run": "2usd"}.')
    return {node: _parse_budget(node, budget) for node, budget in cast(Mapping[str, Any], given).items()}


def _parse_budget(node: str, budget: Any) -> Any:
    if not isinstance(budget, str):
        return budget
    try:
        return parse_budget(budget)
    except ValueError as error:
        raise BadInput(f"budgets {node}", budget, str(error), next_step=BUDGET_HINT) from error


def to_tuple(name: str, value: object) -> tuple[Any, ...]:
    """The items of a list, paths among them as texts; raises `BadInput` for what is none, such as a single text."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise BadInput(name, value, "it is not a list.", next_step='Put it into one: ["…"].')
    items = cast(Sequence[Any], value)
    return tuple(os.fspath(cast(Path, item)) if isinstance(item, os.PathLike) else item for item in items)


def _resolve_path(path: Any) -> Any:
    if not path or not isinstance(path, str | os.PathLike):
        return path
    if "\0" in (text := str(cast(object, path))):
        return text  # Refused with the other fields: some versions of Python would cut it off there.
    try:
        return os.path.abspath(cast(Path, path))
    except FileNotFoundError as error:
        step = "Change to one that is there, or give cwd."
        raise BadInput("cwd", os.fspath(cast(Path, path)), "the current folder is gone.", next_step=step) from error
