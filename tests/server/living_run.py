"""A run whose owner is the test: it writes each event when it wants to."""

import os
import shutil
import time
from datetime import UTC, datetime
from typing import Any

from inspan.protocol.events import Event, RunEnded, RunStarted, TextSaid
from inspan.protocol.wire import SCHEMA, encode
from inspan.running.finalize import finalize_run
from inspan.runs.find import refresh_summary
from inspan.stores.event_log import RunLog
from inspan.stores.run_folder import claim_folder, lock_run, mark_active, unmark_active, write_json
from inspan.system import file_locks
from tests.cli_env import CliEnv


class LivingRun:
    """It lives until `end`, `die` or `close`; one that is not marked is on no list while it does."""

    def __init__(self, env: CliEnv, *, is_marked: bool = True) -> None:
        self._state = str(env.state)
        runs = os.path.join(self._state, "projects", "shop", "default", "runs")
        self.folder = claim_folder(runs, pid=os.getpid(), now=datetime.now(UTC))
        self._lock = lock_run(self.folder)
        description: dict[str, Any] = {
            "run_id": self.folder.run_id,
            "created_at": time.time(),
            "agent": "scripted",
            "task": {"session": False, "cwd": str(env.work)},
        }
        write_json(self.folder.file("run.json"), description)
        self._log = RunLog(self.folder.log)
        self.write(_build_started(self.run_id, str(env.work)))
        if is_marked:
            mark_active(self._state, self.folder)

    @property
    def run_id(self) -> str:
        return self.folder.run_id

    @property
    def last(self) -> int:
        return self._log.number

    def write(self, *events: Event) -> None:
        """Events that are in the log when this returns."""
        self._log.extend([encode(event) for event in events])
        self._log.flush()

    def say(self, *texts: str) -> None:
        self.write(*(TextSaid(text=text) for text in texts))

    def print(self, data: bytes, *, name: str = "stdout") -> None:
        """What the agent prints."""
        with open(self.folder.file(name), "ab") as file:
            file.write(data)

    def end(self) -> None:
        """Its honest end."""
        self.write(RunEnded(outcome="completed", reason="done"))
        self._let_go()
        finalize_run(self._state, self.folder, refresh_summary(self._state, self.folder))

    def die(self) -> None:
        """Its owner is gone without a word."""
        self._let_go()

    def delete(self) -> None:
        """Its folder goes at once and while it is held: nobody finds a part of it, or one without an owner."""
        gone = f"{self._state}-{self.run_id}"
        os.rename(self.folder.path, gone)
        unmark_active(self._state, self.run_id)
        self._let_go()
        shutil.rmtree(gone)

    def close(self) -> None:
        self._let_go()

    def _let_go(self) -> None:
        if self._lock >= 0:
            self._log.close()
            file_locks.release(self._lock)
            self._lock = -1


def _build_started(run_id: str, cwd: str) -> RunStarted:
    return RunStarted(
        schema=SCHEMA,
        run_id=run_id,
        agent="scripted",
        mode="exec",
        project="shop",
        task="default",
        cwd=cwd,
        profile="clean",
        sandbox="none",
        containment="reaper",
        inspan="0",
    )
