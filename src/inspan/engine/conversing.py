"""Everything that a session needs to speak with an agent that listens: loaded only where one does."""

import os
from asyncio import AbstractEventLoop
from collections.abc import Callable

from inspan.contracts.dialect import Conversation
from inspan.contracts.driver import Driver
from inspan.stores.paths import runtime_home
from inspan.transports.writing import PipeWriter

from .plan import Plan
from .talk import Lighten, Talk
from .workspace import Workspace


def talk_of(
    plan: Plan,
    driver: Driver,
    *,
    stdin: int,
    loop: AbstractEventLoop,
    lighten: Lighten,
    on_done: Callable[[], None],
    on_deaf: Callable[[str], None],
) -> Talk:
    """The conversation of a run on this descriptor, which it closes; `on_deaf` hears of an agent that does not read."""
    dialect = driver.channels[0].dialect(plan.task, plan.told)
    if not isinstance(dialect, Conversation):
        raise TypeError(f"the channel {plan.channel} of {driver.name} keeps stdin, but its dialect answers nobody")

    def overflown(size: int) -> None:
        on_deaf(f"{driver.title} does not read what is said to it: {size / 1e6:.0f} MB are waiting")

    return Talk(
        dialect,
        PipeWriter(stdin, loop=loop, on_overflow=overflown),
        opening=plan.stdin,
        workspace=_workspace(plan),
        lighten=lighten,
        on_done=on_done,
    )


def _workspace(plan: Plan) -> Workspace:
    task = plan.task
    own = (task.cwd, *task.extra_dirs, plan.places["task"])
    return Workspace(
        task.cwd,
        readable=(*own, os.path.join(plan.folder, "agent")),
        writable=own if task.mode == "exec" else (),
        hidden=(plan.state, runtime_home()),
    )
