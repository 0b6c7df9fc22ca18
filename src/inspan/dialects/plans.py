"""The list of steps that agents keep with a tool of their own: most write it alike."""

from typing import Literal

from inspan.protocol.events import Event, PlanChanged, PlanStep

from .json_values import Json, as_objects, get_text

_STATES: dict[str, Literal["active", "done"]] = {"in_progress": "active", "completed": "done"}


def plan_events(todos: object, *, text: str = "content") -> list[Event]:
    """The plan that such a tool is given, the words of a step under the key `text`; nothing for what is no list."""
    steps = [_to_step(todo, text) for todo in as_objects(todos)]
    return [PlanChanged(steps=steps)] if isinstance(todos, list) else []


def _to_step(todo: Json, text: str) -> PlanStep:
    return PlanStep(text=get_text(todo, text), state=_STATES.get(get_text(todo, "status"), "pending"))
