"""Whether a tool may run, by the run's mode and the tool's kind, and the answer in the agent's own options."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from inspan.protocol.task import Mode

# What a review may do: what it runs, it runs in a sandbox where it can write nothing.
_REVIEW_KINDS = frozenset({"read", "search", "think", "fetch", "execute"})
_ORDER = {True: ("allow_once", "allow_always"), False: ("reject_once", "reject_always")}
_WORDS = re.compile(r"[^A-Za-z0-9]+")


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Yes or no, why, and the answer to be sent."""

    allowed: bool
    reason: str
    answer: dict[str, Any]


def decide(
    mode: Mode, *, kind: str, name: str, allowed_tools: Sequence[str] | None, options: Sequence[Mapping[str, Any]]
) -> Decision:
    """The decision on one call; an option is chosen by its kind, never by its id or name.

    With a list of tools in `exec`, the agent asks only about those that are not on it.
    """
    listed = mode == "exec" and allowed_tools is not None
    allowed = (not listed and _is_allowed(mode, kind)) or _is_granted(name, allowed_tools or ())
    reason = f"mode {mode}"
    if not allowed and mode != "complete":
        reason = "it is not on the list of tools" if listed else f"mode review allows no {kind or 'such'} tool"
    return answer_with(options, allowed=allowed, reason=reason)


def answer_with(options: Sequence[Mapping[str, Any]], *, allowed: bool, reason: str) -> Decision:
    """A decision in the agent's own options."""
    option = next((option for wanted in _ORDER[allowed] for option in options if option.get("kind") == wanted), None)
    if option is None and allowed:
        return Decision(allowed=False, reason="the agent offers no way to allow it", answer=_build_answer(None))
    return Decision(allowed=allowed, reason=reason, answer=_build_answer(option))


def _is_allowed(mode: Mode, kind: str) -> bool:
    return mode == "exec" or (mode == "review" and kind in _REVIEW_KINDS)


def _is_granted(name: str, allowed_tools: Sequence[str]) -> bool:
    """Whether a server's tool was allowed: agents write `mcp__server__tool` in many ways, but for the words of it."""
    words = [word for word in _WORDS.split(name) if word and word != "mcp"]
    for tool in allowed_tools:
        granted = [word for word in _WORDS.split(tool) if word]
        if granted[:1] == ["mcp"] and len(granted) > 1 and words[: len(granted) - 1] == granted[1:]:
            return True
    return False


def _build_answer(option: Mapping[str, Any] | None) -> dict[str, Any]:
    if option is None:
        return {"outcome": {"outcome": "cancelled"}}
    return {"outcome": {"outcome": "selected", "optionId": option.get("optionId")}}
