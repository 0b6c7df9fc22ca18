"""What all runs have used, for the sums: ended ones from the index, living ones so far."""

from inspan.folds.costs import Spending
from inspan.stores import index
from inspan.stores.index import Entry

from .listing import active_entries, indexed


def list_spendings(state: str, *, since: float = 0.0) -> list[Spending]:
    """The part of every run that was started since a moment."""
    active = [entry for entry in active_entries(state, ended=True) if entry.row.started_at >= since]
    ended = indexed(state, lambda: index.entries(state, since=since))
    shown = {entry.row.run_id for entry in active}
    return [_spending(entry) for entry in (*active, *(each for each in ended if each.row.run_id not in shown))]


def _spending(entry: Entry) -> Spending:
    row = entry.row
    return Spending(
        run_id=row.run_id,
        agent=row.agent,
        model=entry.model,
        project=row.project,
        started_at=row.started_at,
        usage=entry.usage,
        cost_usd=row.cost_usd,
        scripted=entry.scripted,
    )
