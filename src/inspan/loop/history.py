"""What was told before by what a loop, or other work that has runs, continues."""

from inspan.folds.loop import LoopFold
from inspan.runs.find import list_continued
from inspan.stores.event_log import iter_log


def load_before(state: str, continued: str) -> LoopFold:
    """What the loops told that this one continues."""
    fold = LoopFold()
    for folder in list_continued(state, continued):
        for record in iter_log(folder.log):
            fold.add(record)
    return fold
