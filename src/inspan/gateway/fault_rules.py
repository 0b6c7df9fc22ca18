"""Which calls are to go wrong and how, as a user writes it: `call 3: 529`, `5%: cut`. Nothing is spoilt here."""

import re
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any, Literal

import msgspec

from inspan.errors import BadInput

Action = Literal["status", "stall", "cut", "garbage", "slow"]
FaultPlace = Literal["before-headers", "mid-stream"]

FAULT_EXAMPLES = (
    ("call 3: 529", "the third call is answered with this status, as the provider would"),
    ("call 2-5: 500", "so are the second to the fifth"),
    ("every 3: 429 retry-after 5s", "every third call is put off for five seconds"),
    ("calls 1,4: cut", "the connection closes in the middle of the answer"),
    ("call 1: cut before-headers", "or before there is one"),
    ("call 2: stall 30s mid-stream", "nothing is sent for half a minute, in the middle of the answer"),
    ("call 2: stall before-headers", "nothing is ever sent"),
    ("call 1: garbage", "a page of HTML comes in place of the answer"),
    ("5%: slow 200ms", "of one call in twenty every piece comes late"),
)

_PLACES: tuple[FaultPlace, ...] = ("before-headers", "mid-stream")
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h|)")
_UNITS_S = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}
_CALLS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%")
_HASH_BYTES = 8

Fields = dict[str, Any]


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rule. It applies to the `calls` in these ranges, to one in `every`, or to `percent` of them.

    `status` is 0 unless the call is answered with one. `wait_s` is how long it stalls, None for ever, or how long each
    piece of a slow answer takes.
    """

    text: str
    action: Action
    calls: tuple[tuple[int, int], ...] = ()
    every: int = 0
    percent: float = 0.0
    status: int = 0
    retry_after_s: float | None = None
    wait_s: float | None = None
    place: FaultPlace = "mid-stream"


class Faults:
    """The rules of a run. The same seed and number always give the same, in any order and from any number of tasks."""

    def __init__(self, faults: Iterable[Fault], *, seed: int = 0) -> None:
        self._faults = tuple(faults)
        self._seed = seed

    def fault_for(self, number: int) -> Fault | None:
        """What goes wrong with the call of this number: the first rule that applies to it."""
        return next((fault for fault in self._faults if _applies(fault, number, self._seed)), None)


def parse_fault(text: str) -> Fault:
    """Raises `BadInput` that names what is wrong, and an example."""
    tidy = " ".join(text.lower().split())
    which, colon, what = tidy.partition(":")
    try:
        if not colon:
            raise _FaultSyntaxError("a colon must part the calls from what happens to them", "call 3: 529")
        return Fault(text=tidy, **_parse_calls(which.strip()), **_parse_action(what.split()))
    except _FaultSyntaxError as slip:
        step = f"Write for example {slip.example!r}."
        raise BadInput("faults", text, f"{slip.problem}.", next_step=step) from None


def describe_fault_grammar() -> str:
    """The grammar in one line, for help texts."""
    which = "call 3, call 2-5, calls 1,4, every 3 or 5%"
    what = "a status [retry-after 5s], stall [30s] [before-headers], cut [before-headers], garbage or slow 200ms"
    return f"CALLS: WHAT, where CALLS is {which}, and WHAT is {what}"


class _FaultSyntaxError(Exception):
    """What is wrong with a fault, and how it would be right."""

    def __init__(self, problem: str, example: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.example = example


def _applies(fault: Fault, number: int, seed: int) -> bool:
    if fault.calls:
        return any(low <= number <= high for low, high in fault.calls)
    if fault.every:
        return number % fault.every == 0
    return _draw_chance(fault, number, seed) * 100 < fault.percent


def _draw_chance(fault: Fault, number: int, seed: int) -> float:
    """A number from 0 to 1 that follows from rule, call and seed, and not from how the rule was spelled."""
    meaning = msgspec.json.encode(msgspec.structs.astuple(msgspec.structs.replace(fault, text="")))
    drawn = blake2b(b"%d %d %b" % (seed, number, meaning), digest_size=_HASH_BYTES).digest()
    return int.from_bytes(drawn) / 256**_HASH_BYTES


def _parse_calls(words: str) -> Fields:
    kind, _, rest = words.partition(" ")
    if kind in ("call", "calls"):
        return {"calls": tuple(_parse_range(part.strip()) for part in rest.split(","))}
    if kind == "every":
        return {"every": _parse_number(rest, example="every 3: 500")}
    if words.endswith("%"):
        return {"percent": _parse_percent(words)}
    raise _FaultSyntaxError(f"{words!r} does not say which calls: call 3, calls 2-5, every 3 or 5%", "call 3: 529")


def _parse_range(part: str) -> tuple[int, int]:
    match = _CALLS.fullmatch(part)
    if match is None:
        raise _FaultSyntaxError(f"{part!r} is neither the number of a call nor a range of them", "calls 1,4-6: cut")
    low, high = int(match[1]), int(match[2] or match[1])
    if not 1 <= low <= high:
        raise _FaultSyntaxError(
            f"{part!r} holds no call: they are counted from 1, and a range goes up", "call 2-5: 500"
        )
    return low, high


def _parse_number(text: str, *, example: str) -> int:
    if _CALLS.fullmatch(text) is None or not text.isdigit() or int(text) < 1:
        raise _FaultSyntaxError(f"{text!r} is not a number from 1 on", example)
    return int(text)


def _parse_percent(words: str) -> float:
    match = _PERCENT.fullmatch(words)
    percent = float(match[1]) if match else 0.0
    if not 0 < percent <= 100:
        raise _FaultSyntaxError(f"{words!r} is not a share of the calls: more than 0% and at most 100%", "5%: cut")
    return percent


def _parse_action(words: list[str]) -> Fields:
    name, rest = (words[0], words[1:]) if words else ("", [])
    if name.isdecimal():
        return _parse_status(name, rest)
    if name not in _ACTIONS:
        known = ", ".join(("a status", *_ACTIONS))
        raise _FaultSyntaxError(f"{name!r} is nothing that can happen to a call: {known}", "call 3: cut")
    return {"action": name, **_ACTIONS[name](rest)}


def _parse_status(name: str, rest: list[str]) -> Fields:
    if len(name) != 3 or not 400 <= int(name) <= 599:
        raise _FaultSyntaxError(f"{name!r} is not a status of an error: 400 to 599", "call 3: 529")
    found: Fields = {"action": "status", "status": int(name)}
    if not rest:
        return found
    if rest[0] != "retry-after" or len(rest) != 2:
        raise _FaultSyntaxError(
            f"{' '.join(rest)!r} cannot follow a status, only retry-after and a time", "every 3: 429 retry-after 5s"
        )
    return {**found, "retry_after_s": _parse_seconds(rest[1])}


def _parse_stall(words: list[str]) -> Fields:
    places = [word for word in words if word in _PLACES]
    times = [word for word in words if word not in _PLACES]
    if len(times) > 1 or len(places) > 1:
        raise _FaultSyntaxError(f"{' '.join(words)!r} is more than a time and a place", "call 2: stall 30s mid-stream")
    found: Fields = {"wait_s": _parse_positive_seconds(times[0])} if times else {}
    return {**found, **_parse_place(places)}


def _parse_cut(words: list[str]) -> Fields:
    if len(words) > 1 or any(word not in _PLACES for word in words):
        raise _FaultSyntaxError(
            f"{' '.join(words)!r} is not a place to cut: {' or '.join(_PLACES)}", "call 1: cut before-headers"
        )
    return _parse_place(words)


def _parse_garbage(words: list[str]) -> Fields:
    if words:
        raise _FaultSyntaxError(f"nothing follows garbage, and here {' '.join(words)!r} does", "call 1: garbage")
    return {}


def _parse_slow(words: list[str]) -> Fields:
    if len(words) != 1:
        raise _FaultSyntaxError("slow takes one time, by which each piece is late", "5%: slow 200ms")
    return {"wait_s": _parse_positive_seconds(words[0])}


_ACTIONS: dict[str, Callable[[list[str]], Fields]] = {
    "stall": _parse_stall,
    "cut": _parse_cut,
    "garbage": _parse_garbage,
    "slow": _parse_slow,
}


def _parse_place(words: list[str]) -> Fields:
    return {"place": words[0]} if words else {}


def _parse_seconds(text: str) -> float:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise _FaultSyntaxError(f"{text!r} is not a time: 200ms, 30s, 5m or 1h", "call 2: stall 30s")
    return float(match[1]) * _UNITS_S[match[2]]


def _parse_positive_seconds(text: str) -> float:
    length = _parse_seconds(text)
    if not length:
        raise _FaultSyntaxError(f"{text!r} is not a time at all", "call 2: stall 30s")
    return length
