"""What a loop came to, for whoever started it: how it ended, which runs it had, what the last one said and did."""

import msgspec

from inspan.errors import InspanError
from inspan.folds.costs import read_cost
from inspan.folds.summary import Summary
from inspan.protocol.cost import Cost
from inspan.protocol.events import RunEnded, RunStarted
from inspan.runs.find import find_run_folder, refresh_summary
from inspan.runs.follow_async import follow_records
from inspan.runs.relations import read_relation
from inspan.stores.large_text import restore_large_texts
from inspan.stores.run_folder import RunFolder

from .history import load_before
from .prompts import name_check


class LoopResult(msgspec.Struct, frozen=True, kw_only=True):
    """`ended` says which check failed where that is why it ended. `runs` are those of its attempts, in order, with
    those of the loops that it continues; `active_s` is how long all of these were at it."""

    run_id: str
    ended: RunEnded
    runs: tuple[str, ...] = ()
    cost: Cost
    active_s: float = 0.0


async def follow_loop(state: str, folder: RunFolder, *, poll_s: float) -> LoopResult:
    """Waits for the end of a loop; one whose process is gone is found lost."""
    fold, model_from = load_before(state, read_relation(folder, "continues")), ""
    async for record in follow_records(state, folder, poll_s=poll_s):
        fold.add(record)
        if isinstance(record.event, RunStarted):
            model_from = record.event.model_from
    found = fold.state
    ended = found.ended or RunEnded(outcome="lost", reason="supervisor_lost")
    if found.last and (check := found.last.failed_check) and ended.reason != "done":
        how = "took too long" if check.timed_out else f"failed with exit code {check.exit_code}"
        ended = msgspec.structs.replace(ended, message=f"`{name_check(check.check)}` {how}.")
    return LoopResult(
        run_id=str(folder.run_id),
        ended=ended,
        runs=tuple(attempt.started.run_id for attempt in found.attempts),
        cost=read_cost(ended, model_from=model_from),
        active_s=round(found.active_s, 3),
    )


def read_answer(state: str, run_id: str) -> str:
    """What a run said last, whole; nothing where the run is gone."""
    try:
        folder = find_run_folder(state, run_id)
        summary: Summary = refresh_summary(state, folder)
        return restore_large_texts(summary.answer, folder=folder.path)
    except InspanError:
        return ""
