"""A loop to which something happens right after a record: `die_at.py WHAT NUMBER CWD MODEL CHECK`.

`kill`: it kills itself without a word. `broken`: its disk gives no answer but EIO from then on. `earlier` and `later`:
somebody sets the clock by a day; `right`: it was ahead by a day until then. `behind`: its
clock is a day behind that of its runs.
"""

import asyncio
import errno
import os
import signal
import sys
import time
from collections.abc import Callable

from inspan.loop.prepare import prepare_loop
from inspan.loop.process import run_loop
from inspan.loop.worker import LoopWorker
from inspan.protocol.events import Event
from inspan.protocol.loop import LoopPolicy
from inspan.protocol.task import Task
from inspan.stores.event_log import resume_log

_DAY_S = 86400.0
_record = LoopWorker._record  # pyright: ignore[reportPrivateUsage]
_now = time.time


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _break_disk() -> None:
    def refuse(_fd: int, /) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    os.fdatasync = refuse


def _set_clock(seconds: float) -> None:
    time.time = lambda: _now() + seconds


_WHAT: dict[str, Callable[[], None]] = {
    "kill": _kill,
    "broken": _break_disk,
    "earlier": lambda: _set_clock(-_DAY_S),
    "later": lambda: _set_clock(_DAY_S),
    "behind": lambda: None,
    "right": lambda: _set_clock(0.0),
}


def main() -> None:
    what, number, cwd, model, check = sys.argv[1:]
    happen, left = _WHAT[what], int(number) - 1
    _set_clock({"right": _DAY_S, "behind": -_DAY_S}.get(what, 0.0))

    def record(worker: LoopWorker, event: Event) -> None:
        nonlocal left
        _record(worker, event)
        left -= 1
        if left == 0:
            happen()

    LoopWorker._record = record  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    task = Task(prompt="count", cwd=cwd, agent="scripted", profile="clean", model_from=model)
    policy = LoopPolicy(checks=(check,), delay_s=0.01, rate_limit_backoff_s=(0.3,))
    prepared = prepare_loop(task, policy, explicit={"profile": "clean"})
    if left == 0:
        happen()
    asyncio.run(run_loop(prepared.plan, prepared.folder, resume_log(prepared.folder.log)))


if __name__ == "__main__":
    main()
