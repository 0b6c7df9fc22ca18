"""What every mode of a runner takes, and how that becomes a task; what has a wrong name or shape is refused here."""

import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypedDict, cast

import msgspec

from inspan.engine.telling import Listener
from inspan.errors import BadInput
from inspan.protocol.budget import BUDGET_HINT, Budget, Node, parse_budget
from inspan.protocol.limits import Limits, Price, Rates
from inspan.protocol.task import McpServer, Mode, Profile, Task

if TYPE_CHECKING:
    from inspan.contracts.reporter import Reporter

Path = str | os.PathLike[str]


class SharedOptions(TypedDict, total=False):
    """What the driver contract takes too, with the meaning of the fields of `Task`.

    `cwd` is the current folder by default, or the session's own where one goes on. `max_turns` is a limit that stands
    for itself. `record_tokens` enters each run into `tokens-used.json` of its task, for audit. A reporter is told of
    one run after the other: give runs at once one each. A budget may be written as on the command line: `2usd`.
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
    profile: Profile
    channel: str
    login: bool
    key_from: str
    sandbox: str
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
    env: Mapping[str, str]
    options: Sequence[str]
    on_event: Listener | None
    reporter: "Reporter | None"
    record_tokens: bool


class Options(SharedOptions, total=False):
    """What every mode takes."""

    system_prompt: str
    append_system_prompt: str
    allowed_tools: Sequence[str] | None
    resume: str


_NOT_IN_TASK = ("max_turns", "on_event", "reporter", "record_tokens")
_LISTS = ("allowed_tools", "disallowed_tools", "extra_dirs", "attachments", "faults", "options")


def check_names(options: Mapping[str, object], known: frozenset[str] = Options.__optional_keys__) -> None:
    """Raises `BadInput` for an option that nobody knows, with the nearest that somebody does."""
    for name, value in options.items():
        if name not in known:
            nearest = get_close_matches(name, known, 1)
            hint = f"Did you mean {nearest[0]!r}?" if nearest else f"Known options: {', '.join(sorted(known))}."
            raise BadInput(name, value, "no such option.", next_step=hint)


def task_of(agent: str, mode: Mode, prompt: str, options: Options) -> Task:
    """The task that these options describe; raises `BadInput` for a wrong name or shape."""
    check_names(options)
    given: dict[str, Any] = {name: value for name, value in options.items() if name not in _NOT_IN_TASK}
    given |= {name: _listed(name, given[name]) for name in _LISTS if given.get(name) is not None}
    if "budgets" in given:
        given["budgets"] = {node: _budget(node, budget) for node, budget in dict(given["budgets"]).items()}
    given["cwd"] = _absolute(given.get("cwd", "" if given.get("resume") else os.curdir))
    task = checked(Task(prompt=prompt, agent=agent, mode=mode, **given))
    if "max_turns" not in options:
        return task
    limits = msgspec.structs.replace(task.limits, max_turns=options["max_turns"])
    return checked(msgspec.structs.replace(task, limits=limits))


def checked(task: Task) -> Task:
    """The task, its fields of the types that they should have; raises `BadInput` with the field that is not."""
    if not isinstance(cast(object, task), Task):
        raise BadInput("task", task, "it is no task.", next_step="Give an inspan.Task(prompt=…, cwd=…).")
    plain = {name: _plain(value) for name, value in msgspec.structs.asdict(task).items()}
    try:
        return msgspec.convert(plain, Task)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$.")
        field = place.rstrip("`")
        step = "Give a value of that type."
        raise BadInput(field, _shown(plain, field), f"{problem.replace('`', '')}.", next_step=step) from error


def _shown(plain: Any, field: str) -> Any:
    """The value at `limits.timeout_s`, `env[...]` and the like; of variables and headers, which may be secret, the
    names alone."""
    for part in field.split("."):
        name, bracket, _ = part.partition("[")
        plain = plain.get(name)
        if bracket:
            break
    return list(cast(Mapping[str, Any], plain)) if isinstance(plain, Mapping) else plain


def _plain(value: Any) -> Any:
    """Structs, alone or in a mapping, as what they hold: what is a struct already would not be looked at."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in cast(Mapping[str, Any], value).items()}
    return value


def _budget(node: str, budget: Any) -> Any:
    if not isinstance(budget, str):
        return budget
    try:
        return parse_budget(budget)
    except ValueError as error:
        raise BadInput(f"budgets {node}", budget, str(error), next_step=BUDGET_HINT) from error


def _listed(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise BadInput(name, value, "it is no list.", next_step='Put it into one: ["…"].')
    items = cast(Sequence[Any], value)
    return tuple(os.fspath(cast(Path, item)) if isinstance(item, os.PathLike) else item for item in items)


def _absolute(path: Any) -> Any:
    if not path or not isinstance(path, str | os.PathLike):
        return path
    try:
        return os.path.abspath(cast(Path, path))
    except FileNotFoundError as error:
        step = "Change to one that is there, or give cwd."
        raise BadInput("cwd", os.fspath(cast(Path, path)), "the current folder is gone.", next_step=step) from error
