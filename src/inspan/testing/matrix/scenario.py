"""A scenario of the matrix, and the list of all of them."""

from collections.abc import Callable
from importlib import import_module

import msgspec

from inspan.errors import BadInput

from .ground import Ground

# In this order the rows stand in the matrix.
_MODULES = ("talking", "working", "sessions", "choices", "modes", "failures", "endings", "keeping")


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """`check` plays it on a ground, and raises `Unmet` where it is not met."""

    name: str
    title: str
    check: Callable[[Ground], None]


_known: dict[str, Scenario] = {}


def scenario(title: str) -> Callable[[Callable[[Ground], None]], Callable[[Ground], None]]:
    """Enters a function into the list; its name is the scenario's."""

    def enter(check: Callable[[Ground], None]) -> Callable[[Ground], None]:
        name = check.__name__
        _known[name] = Scenario(name=name, title=title, check=check)
        return check

    return enter


def scenarios(names: tuple[str, ...] = ()) -> list[Scenario]:
    """Those of these names, or all; raises `BadInput` for a name that there is not."""
    for module in _MODULES:
        import_module(f"inspan.testing.matrix.scenarios.{module}")
    for name in names:
        if name not in _known:
            step = f"Known scenarios: {', '.join(_known)}."
            raise BadInput("scenario", name, "no such scenario.", next_step=step)
    return [each for each in _known.values() if not names or each.name in names]
