"""A blueprint to which something happens right after a record: `die_at.py WHAT NUMBER CWD MODEL FILE`.

`kill`: it kills itself without a word. `broken`: its disk gives no answer but EIO from then on.
"""

import asyncio
import errno
import os
import signal
import sys
from collections.abc import Callable

from inspan.blueprints import process
from inspan.blueprints.files import read_blueprint
from inspan.blueprints.prepare import prepare_blueprint
from inspan.blueprints.worker import BlueprintWorker
from inspan.protocol.events import Event
from inspan.protocol.task import Task
from inspan.stores.event_log import resume_log

_record = BlueprintWorker._record  # pyright: ignore[reportPrivateUsage]


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _break_disk() -> None:
    def refuse(_fd: int, /) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    os.fdatasync = refuse


_WHAT: dict[str, Callable[[], None]] = {"kill": _kill, "broken": _break_disk}


def main() -> None:
    what, number, cwd, model, path = sys.argv[1:]
    happen, left = _WHAT[what], int(number) - 1

    def record(worker: BlueprintWorker, event: Event) -> None:
        nonlocal left
        _record(worker, event)
        left -= 1
        if left == 0:
            happen()

    BlueprintWorker._record = record  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    task = Task(prompt="", cwd=cwd, profile="clean", model_from=model)
    prepared = prepare_blueprint(read_blueprint(path), task, inputs={}, explicit={"profile": "clean"}, jobs=4)
    if left == 0:
        happen()
    run = process._run  # pyright: ignore[reportPrivateUsage]
    asyncio.run(run(prepared.plan, prepared.folder, resume_log(prepared.folder.log)))


if __name__ == "__main__":
    main()
