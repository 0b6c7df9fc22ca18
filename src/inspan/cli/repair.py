"""Asking again for an answer that does not fit its schema: a run of its own each time, in the session if it has one."""

import sys
from collections.abc import Callable

import msgspec

from inspan.agents.presets import driver_for_task
from inspan.planning.settings import ConfiguredTask
from inspan.running.answers import MAX_REPAIRS, Repairs, strip_fence
from inspan.running.prepared_run import PreparedRun

from .follow import FollowedRun, StopSignals
from .start_run import start_run


def repair_answer(
    configured: ConfiguredTask,
    run_id: str,
    followed: FollowedRun,
    *,
    follow: Callable[[PreparedRun], FollowedRun],
    signals: StopSignals,
    silent: bool,
) -> FollowedRun:
    """The run itself where its answer fits, else the last that asked for it again; without a fence around the JSON."""
    driver = driver_for_task(configured.task)
    asking = Repairs(configured.task, resumes=driver.capabilities.resume != "no")
    while not signals.received:
        ended = followed.ended
        again = asking.plan_next(ended.reason, ended.message, run_id=run_id, session_id=ended.session_id)
        if again is None:
            break
        if not silent:
            print(f"↻ the answer does not fit: asking again ({asking.asked} of {MAX_REPAIRS})", file=sys.stderr)
        prepared = start_run(again, env=configured.env)
        signals.attach(prepared.folder)
        run_id, followed = prepared.plan.run_id, follow(prepared)
    return msgspec.structs.replace(followed, answer=strip_fence(followed.answer))
