"""The list of steps that agents keep with a tool of their own: most write it alike."""

from typing import Literal

from inspan.protocol.events import Event, PlanChanged, PlanStep

from .values import Json, tables, word

_STATES: dict[str, Literal["active", "done"]] = {"in_progress": "active", "completed": "done"}


def planned(todos: object, *, text: str = "content") -> list[Event]:
    """The plan that such a tool is given, the words of a step under the key `text`; nothing for what is no list."""
    steps = [_step(todo, text) for todo in tables(todos)]
    return [PlanChanged(steps=steps)] if isinstance(todos, list) else []


def _step(todo: Json, text: str) -> PlanStep:
    return PlanStep(text=word(todo, text), state=_STATES.get(word(todo, "status"), "pending"))
