"""One run of an agent that gives one answer, waited for: what the program of a triage does."""

import marshal
import signal
import sys
from typing import Any

import msgspec

from inspan.errors import InspanError
from inspan.folds.summary import Summary
from inspan.protocol.commands import Cancel
from inspan.protocol.known_types import know_type
from inspan.protocol.task import Task
from inspan.running.start import start_supervisor
from inspan.runs.find import stop
from inspan.runs.follow import follow
from inspan.stores.large_text import restore_large_texts

from .prepare import prepare
from .settings import apply_config


def ask(given: dict[str, Any]) -> bytes:
    """The answer as JSON, or the problem that there is none."""
    try:
        answer, problem = _run(given)
    except InspanError as error:
        answer, problem = "", str(error)
    return msgspec.json.encode({"answer": answer, "problem": problem})


def _run(given: dict[str, Any]) -> tuple[str, str]:
    task, env = msgspec.msgpack.decode(given["task"], type=know_type(Task)), marshal.loads(given["env"])
    said = {name: getattr(task.limits, name) for name in ("timeout_s", "answer_timeout_s")}
    configured = apply_config(task, explicit={"mode": task.mode, "profile": task.profile, **said}, env=env)
    signal.signal(signal.SIGTERM, _exit)
    prepared = prepare(configured.task, env=configured.env, configured=True)
    summary = Summary()
    start_supervisor(prepared)
    try:
        for record in follow(prepared.plan.state, prepared.folder):
            if record:
                summary.add(record.event)
    except SystemExit:
        stop(prepared.folder, command=Cancel(now=True))  # Nobody wants to know any more.
        raise
    ended = summary.ended
    if ended is None or ended.reason != "done":
        return "", f"{ended.reason}: {ended.message}" if ended else "its log has no end"
    return restore_large_texts(summary.answer, folder=prepared.folder.path), ""


def _exit(number: int, frame: object) -> None:
    sys.exit(1)
