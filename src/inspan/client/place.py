"""A tenant of this machine: its state folder, and the environment that its runs are prepared in."""

import os
from collections.abc import Mapping

import msgspec

from inspan.stores.paths import STATE_VARIABLE, state_home
from inspan.system.paths import expand_home


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """`state` is the state folder itself; `env` says the same, so that whatever is prepared in it lands there."""

    state: str
    env: dict[str, str]


def make_place(*, state: str = "", env: Mapping[str, str] | None = None) -> Place:
    """That of a state folder and an environment; by default both are this process's own."""
    given = dict(os.environ if env is None else env)
    if state:
        given[STATE_VARIABLE] = os.path.abspath(expand_home(state, given))
    return Place(state=state_home(given), env=given)
