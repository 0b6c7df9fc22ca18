"""The detached process that owns exactly one blueprint."""

import asyncio
from functools import partial

import msgspec

from inspan.folds.blueprint import BlueprintFold
from inspan.loop.process import obey_signals, run_worker
from inspan.loop.start import start_work
from inspan.protocol.known_types import know_type
from inspan.redaction import Gate, SecretSet
from inspan.runs.find import list_continued
from inspan.stores.event_log import RunLog, iter_log, resume_log
from inspan.stores.run_folder import RunFolder, open_folder
from inspan.system import file_locks

from .plan import BlueprintPlan
from .prepare import PreparedBlueprint
from .report import write_reports
from .worker import BlueprintWorker


def start_blueprint(prepared: PreparedBlueprint) -> int:
    """Starts the blueprint's process and hands it the lock; gives its pid: a program that stays has to reap it.

    Raises `OSError` where it cannot be started; the blueprint is then found lost.
    """
    plan = prepared.plan
    stripped = msgspec.structs.replace(plan, env={}, secrets=())
    return start_work(plan, msgspec.msgpack.encode(stripped), lock=prepared.lock, entry=__name__)


def run_process(plan: bytes, *, env: dict[str, str], secrets: tuple[tuple[str, str], ...], lock: int) -> None:
    """The whole life of a blueprint's process; returns when its log has ended."""
    decoded = msgspec.msgpack.decode(plan, type=know_type(BlueprintPlan))
    decoded = msgspec.structs.replace(decoded, env=env, secrets=secrets)
    folder = open_folder(decoded.folder)
    log = resume_log(folder.log)
    try:
        asyncio.run(_run(decoded, folder, log))
    finally:
        log.close()
        file_locks.release(lock)


async def _run(plan: BlueprintPlan, folder: RunFolder, log: RunLog) -> None:
    worker = BlueprintWorker(plan, log, before=_load_before(plan))
    obey_signals(worker)
    await run_worker(worker, plan, folder)
    gate = Gate(SecretSet.get_shared(plan.secrets))
    await asyncio.to_thread(partial(write_reports, plan.state, folder, gate=gate))


def _load_before(plan: BlueprintPlan) -> BlueprintFold:
    """What the blueprints told that this one continues."""
    fold = BlueprintFold(plan.blueprint)
    for folder in list_continued(plan.state, plan.task.continues):
        for record in iter_log(folder.log):
            fold.add(record)
    return fold
