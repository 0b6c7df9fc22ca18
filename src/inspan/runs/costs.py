"""What was spent: each call from the ledger, and whole runs from the index where the ledger knows none of theirs."""

from inspan.protocol.spending import NANO_PER_USD, Spending
from inspan.stores import index
from inspan.stores.index import Entry
from inspan.stores.ledger import read_spendings

from .list_all import active_entries, read_index


def list_spendings(state: str, *, since: float = 0.0) -> list[Spending]:
    """What was spent since a moment, by living, ended and deleted runs, each of them counted once.

    Calls that the gateway counted stand above what the agent told of the same run.
    """
    # First: whoever is found to be lost here settles with the ledger.
    living = [entry for entry in active_entries(state, ended=True) if entry.row.started_at >= since]
    rows = read_spendings(state, since=since)
    measured = {row.run_id for row in rows if row.source == "gateway"}
    counted = [row for row in rows if row.source == "gateway" or row.run_id not in measured]
    ended = read_index(state, lambda: index.list_entries(state, since=since))
    shown = {row.run_id for row in counted}
    own = (entry for entry in (*ended, *living) if not entry.row.work)  # What a loop has spent, its runs have.
    told = {entry.row.run_id: entry for entry in own if entry.row.run_id not in shown}
    return [*counted, *map(_spending_from_entry, told.values())]


def _spending_from_entry(entry: Entry) -> Spending:
    row = entry.row
    usd = row.not_paid_usd if entry.scripted else row.cost_usd
    return Spending(
        run_id=row.run_id,
        call=0,
        at=row.started_at,
        project=row.project,
        task=row.task,
        session=row.session_id,
        agent=row.agent,
        model=entry.model,
        role="",
        usage=entry.usage,
        nano=None if usd is None else round(usd * NANO_PER_USD),
        source="agent",
        scripted=entry.scripted,
    )
