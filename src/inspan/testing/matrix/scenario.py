"""A scenario of the matrix, and the list of all of them."""

from collections.abc import Callable
from importlib import import_module

import msgspec

from inspan.errors import BadInput

from .cell_environment import CellEnvironment

# In this order the rows stand in the matrix.
_MODULES = (
    "answers",
    "tools",
    "sessions",
    "conversations",
    "choices",
    "modes",
    "boxed",
    "failures",
    "endings",
    "records",
)


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """`check` plays it in a cell environment, and raises `ScenarioFailed` where it is not met."""

    name: str
    title: str
    check: Callable[[CellEnvironment], None]


_registry: dict[str, Scenario] = {}


def scenario(title: str) -> Callable[[Callable[[CellEnvironment], None]], Callable[[CellEnvironment], None]]:
    """Enters a function into the list; its name is the scenario's."""

    def enter(check: Callable[[CellEnvironment], None]) -> Callable[[CellEnvironment], None]:
        name = check.__name__
        _registry[name] = Scenario(name=name, title=title, check=check)
        return check

    return enter


def list_scenarios(names: tuple[str, ...] = ()) -> list[Scenario]:
    """Those of these names, or all; raises `BadInput` for a name that there is not."""
    for module in _MODULES:
        import_module(f"inspan.testing.matrix.scenarios.{module}")
    for name in names:
        if name not in _registry:
            step = f"Known scenarios: {', '.join(_registry)}."
            raise BadInput("scenario", name, "unknown scenario.", next_step=step)
    return [each for each in _registry.values() if not names or each.name in names]
