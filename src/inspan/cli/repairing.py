"""Asking again for an answer that does not fit its schema: a run of its own each time, in the session if it has one."""

import sys
from collections.abc import Callable

import msgspec

from inspan.engine.answers import REPAIRS, repair_prompt, unfenced
from inspan.engine.configured import Configured
from inspan.engine.plan import Prepared, prepare
from inspan.engine.start import start
from inspan.protocol.events import RunEnded
from inspan.protocol.task import Task

from .following import Followed, StopSignals


def repaired(
    whole: Configured,
    run_id: str,
    followed: Followed,
    *,
    follow: Callable[[Prepared], Followed],
    signals: StopSignals,
    silent: bool,
) -> Followed:
    """The run itself where its answer fits, else the last that asked for it again; without a fence around the JSON."""
    for number in range(1, REPAIRS + 1):
        if followed.ended.reason != "unfit_answer" or signals.came:
            break
        if not silent:
            print(f"↻ the answer does not fit: asking again ({number} of {REPAIRS})", file=sys.stderr)
        prepared = prepare(_again(whole.task, run_id, followed.ended), env=whole.env)
        start(prepared)
        signals.aim(prepared.folder)
        run_id, followed = prepared.plan.run_id, follow(prepared)
    return msgspec.structs.replace(followed, answer=unfenced(followed.answer))


def _again(task: Task, run_id: str, ended: RunEnded) -> Task:
    """The session knows what was attached and where it works; where there is none, all is said again."""
    words = repair_prompt(ended.message)
    if not ended.session_id:
        return msgspec.structs.replace(task, prompt=f"{task.prompt}\n\n{words}")
    return msgspec.structs.replace(task, prompt=words, resume=run_id, fork=False, attachments=(), cwd="")
