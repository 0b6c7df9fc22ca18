"""A run as every listing tells of it. Apart from what lists them, because `ps` loads it at each start."""

from typing import TYPE_CHECKING

from inspan.stores.index import Row
from inspan.stores.run_folder import run_path

from .values import RunInfo

if TYPE_CHECKING:
    from inspan.folds.live_state import LiveState


def build_run_info(state: str, row: Row, live: "LiveState | None") -> RunInfo:
    """The run of a row, with what it is doing if it lives."""
    return RunInfo(
        **row._asdict(),
        folder=row.cwd,
        path=run_path(state, project=row.project, task=row.task, run_id=row.run_id),
        alive=row.outcome == "running",
        state=live,
    )
