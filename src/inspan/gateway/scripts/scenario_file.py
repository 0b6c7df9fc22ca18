"""Reads scenario files, strictly: a slip is named with its field and the next step, not played."""

import difflib
import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from inspan.errors import BadScenario
from inspan.gateway.scripts.scenario import ALWAYS, Call, Counts, Edit, Fail, Scenario, Use, Write
from inspan.protocol.known_types import know_type

_Keys = list[str | int]
_Raw = dict[str, Any]


def load_scenario(path: str | os.PathLike[str]) -> Scenario:
    """Reads a scenario file; raises `BadScenario` naming the field, the value and the next step."""
    file = Path(path)
    step = "Give the path of a TOML file that can be read."
    try:
        if file.exists() and not file.is_file():  # A pipe is read once; a run reads its scenario again.
            raise BadScenario("scenario", str(file), "is not a file.", next_step=step)
        text = file.read_text(encoding="utf-8-sig")  # Some editors put a byte order mark in front.
    except (OSError, UnicodeDecodeError) as error:
        raise BadScenario("scenario", str(file), f"cannot be read ({error}).", next_step=step) from error
    scenario = parse_scenario(text, name=file.stem)
    if not scenario.journal:
        return scenario
    return msgspec.structs.replace(scenario, journal=os.path.abspath(file.parent / scenario.journal))


def parse_scenario(text: str, *, name: str) -> Scenario:
    """Reads the text of a scenario; `name` stands unless the text gives its own."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadScenario(
            "scenario", name, f"is not TOML: {error}.", next_step="Correct that line and try again."
        ) from error
    try:
        scenario = msgspec.convert({"name": name, **raw}, know_type(Scenario))
    except msgspec.ValidationError as error:
        raise _explain(error, raw) from error
    _check(scenario, raw)
    return scenario


_STRUCTS: dict[str, type[msgspec.Struct]] = {
    "": Scenario,
    "call": Call,
    "write": Write,
    "edit": Edit,
    "use": Use,
    "fail": Fail,
    "usage": Counts,
}
_TOOLS = ("run", "write", "edit", "use", "answer", "try_tools")
_ANSWERS = ("think", "say", *_TOOLS)
# A key, those that cannot stand beside it, and why.
_CONFLICTS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    *((tool, _TOOLS[place + 1 :], "uses a tool, and a call uses one at most") for place, tool in enumerate(_TOOLS)),
    ("fail", (*_ANSWERS, "garbage", "cut", "usage"), "is the whole answer"),
    ("garbage", (*_ANSWERS, "cut", "usage"), "is the whole answer"),
    ("cut", (*_TOOLS, "stall"), "ends the answer before it gets that far"),
)


class _Rule(NamedTuple):
    field: str
    is_broken: Callable[[_Raw], bool]
    problem: str
    next_step: str


def _stalls_without_a_stream(raw: _Raw) -> bool:
    return raw.get("stall") == "mid-stream" and ("fail" in raw or "garbage" in raw)


def _times_no_stall(raw: _Raw) -> bool:
    return "stall_s" in raw and "stall" not in raw


def _needs_no_tool(raw: _Raw) -> bool:
    return raw.get("optional") is True and not any(key in raw for key in ("run", "write", "edit"))


def _answers_nothing(raw: _Raw) -> bool:
    return not any(raw.get(key) for key in (*_ANSWERS, "fail", "stall", "cut", "garbage"))


_RULES = (
    _Rule(
        "stall",
        _stalls_without_a_stream,
        "has no stream to be in the middle of.",
        'Use stall = "before-headers".',
    ),
    _Rule(
        "stall_s",
        _times_no_stall,
        "has no stall to time.",
        'Add stall = "before-headers" or stall = "mid-stream".',
    ),
    _Rule(
        "optional",
        _needs_no_tool,
        "needs no tool that an agent may lack.",
        "Leave it out: only run, write and edit look for a tool.",
    ),
    _Rule(
        "say",
        _answers_nothing,
        "is missing, and so is everything else that could be an answer.",
        "Add one of say, run, write, edit, use, answer, try_tools, fail, stall, cut, garbage.",
    ),
)


def _explain(error: msgspec.ValidationError, raw: _Raw) -> BadScenario:
    """Says in the reader's words what msgspec says in its own."""
    problem, _, place = str(error).partition(" - at ")
    keys = [int(key) if key.isdigit() else key for key in re.findall(r"\w+", place)]
    names = [key for key in keys if isinstance(key, str)]
    struct = _STRUCTS.get(names[-1] if names else "", Scenario)
    if missing := re.search(r"missing required field `(\w+)`", problem):
        return _scenario_error([*keys, missing[1]], None, "is missing.", next_step=f"Add {missing[1]!r}.")
    if unknown := re.search(r"unknown field `([^`]*)`", problem):
        step = _suggest_key(unknown[1], struct.__struct_fields__)
        return _scenario_error(
            [*keys, unknown[1]], _look_up(raw, [*keys, unknown[1]]), "is not a known key.", next_step=step
        )
    return _scenario_error(keys, _look_up(raw, keys), f"cannot be used: {problem}.", next_step="Correct the value.")


def _suggest_key(key: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f"Did you mean {close[0]!r}?" if close else f"Known keys: {', '.join(known)}."


def _look_up(raw: object, keys: _Keys) -> object:
    found: Any = raw
    for key in keys:
        try:
            found = found[key]
        except (LookupError, TypeError):
            return None
    return found


def _scenario_error(keys: _Keys, value: object, problem: str, *, next_step: str) -> BadScenario:
    """`["call", 2, "fail"]` is shown as `call 3.fail`."""
    shown = ""
    for key in keys:
        shown += f" {key + 1}" if isinstance(key, int) else f".{key}" if shown else key
    return BadScenario(shown or "scenario", value, problem, next_step=next_step)


def _check(scenario: Scenario, raw: _Raw) -> None:
    """Raises for a call that has a sound shape but cannot be played."""
    if not scenario.call:
        raise _scenario_error(["call"], [], "is empty.", next_step='Add a [[call]] table with, say, say = "hello".')
    for index, call in enumerate(raw["call"]):
        _check_conflicts(call, index)
        for rule in _RULES:
            if rule.is_broken(call):
                keys: _Keys = ["call", index, rule.field]
                raise _scenario_error(keys, call.get(rule.field), rule.problem, next_step=rule.next_step)
    ordered = [(index, call) for index, call in enumerate(scenario.call) if not call.when]
    for index, call in ordered[:-1]:
        if call.repeat == ALWAYS:
            step = "Move this call to the end, or give repeat a number."
            raise _scenario_error(["call", index, "repeat"], ALWAYS, "hides the calls after it.", next_step=step)


def _check_conflicts(raw: _Raw, index: int) -> None:
    given = {key for key, value in raw.items() if value is not False}
    for key, others, reason in _CONFLICTS:
        for other in others:
            if {key, other} <= given:
                problem = f"cannot stand beside {key!r}, which {reason}."
                step = "Give it a [[call]] of its own."
                raise _scenario_error(["call", index, other], raw[other], problem, next_step=step)
