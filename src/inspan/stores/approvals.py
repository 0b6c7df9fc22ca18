"""What was allowed for good, project by project: a part of the ledger, which neither `rm` nor `reindex` touches."""

import time
from typing import NamedTuple

from inspan.contracts.permissions import KeptApproval

from .ledger_file import LedgerFile, has_ledger

_WAIT_S = 2.0


class StoredApproval(NamedTuple):
    """A call that a project's runs need not ask about, and when that was said."""

    project: str
    tool: str
    subject: str
    at: float


def list_approvals(state: str, project: str = "") -> list[StoredApproval]:
    """Those of a project, or all; looking makes no ledger. Raises `StateUnusable`."""
    if not has_ledger(state):
        return []
    file = LedgerFile(state, wait_s=_WAIT_S)
    try:
        with file.read_transaction() as database:
            rows = database.execute(
                "SELECT project, tool, subject, at FROM approval WHERE ? IN ('', project) ORDER BY at", (project,)
            )
            return [StoredApproval(*row) for row in rows]
    finally:
        file.close()


def store_approval(state: str, project: str, kept: KeptApproval) -> None:
    """Keeps one; twice is once. Raises `StateUnusable`."""
    file = LedgerFile(state, wait_s=_WAIT_S)
    try:
        with file.write_transaction() as database:
            row = (project, kept.tool, kept.subject, time.time())
            database.execute("INSERT OR REPLACE INTO approval VALUES (?,?,?,?)", row)
    finally:
        file.close()


def revoke_approval(state: str, project: str, kept: KeptApproval) -> bool:
    """Forgets one; whether there was one. Raises `StateUnusable`."""
    if not has_ledger(state):
        return False
    file = LedgerFile(state, wait_s=_WAIT_S)
    try:
        with file.write_transaction() as database:
            where = (project, kept.tool, kept.subject)
            gone = database.execute("DELETE FROM approval WHERE project = ? AND tool = ? AND subject = ?", where)
            return gone.rowcount > 0
    finally:
        file.close()
