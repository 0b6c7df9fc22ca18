"""Runs that spend: each with a lock that is really held, in a state folder of their own."""

import fcntl
import os
from pathlib import Path

from inspan.protocol.budget import Budget, Node, parse_budget
from inspan.protocol.spending import NANO_PER_USD, Spending
from inspan.protocol.usage import Usage
from inspan.stores.ledger import Ledger
from inspan.stores.ledger_sums import Spender

NOON = 1_800_014_400.0  # 2027-01-15, 12:00 UTC.
DAY_S = 86400.0
PROJECT = "web-1a2b"


class Clock:
    """A moment that tests move."""

    def __init__(self, now: float = NOON) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Accounts:
    """A ledger, its clock, and the locks of the runs that live."""

    def __init__(self, root: Path, *, state: Path | None = None) -> None:
        self.root = root
        self.state = str(state or root / "state")
        self.clock = Clock()
        self.ledger = Ledger(self.state, clock=self.clock)
        self.locks: dict[str, int] = {}

    def spender(
        self, run_id: str, *, in_task: str = "default", project: str = PROJECT, scripted: bool = False
    ) -> Spender:
        """A run that lives."""
        lock = self.root / f"{run_id}.lock"
        self.locks[run_id] = held(lock)
        return Spender(
            run_id=run_id,
            project=project,
            task=in_task,
            agent="scripted",
            session="s1",
            lock=str(lock),
            started_at=self.clock(),
            scripted=scripted,
        )

    def open(self, run_id: str = "r1", *, in_task: str = "default", scripted: bool = False, **budgets: str) -> Spender:
        """A run that was let in, with budgets such as `project="2usd"`."""
        spender = self.spender(run_id, in_task=in_task, scripted=scripted)
        assert self.ledger.open_run(spender, parse_budgets(**budgets)) is None
        return spender

    def spend(self, spender: Spender, call: int, *, usd: float = 0.0, tokens: int = 0) -> None:
        self.ledger.settle(spender.run_id, call, self.row(spender, call, usd=usd, tokens=tokens))

    def row(self, spender: Spender, call: int, *, usd: float | None = 0.0, tokens: int | None = 0) -> Spending:
        return Spending(
            run_id=spender.run_id,
            call=call,
            at=self.clock(),
            project=spender.project,
            task=spender.task,
            session=spender.session,
            agent=spender.agent,
            model="m",
            role="main",
            usage=None if tokens is None else Usage(input=tokens),
            nano=None if usd is None else nano(usd),
            source="gateway",
            scripted=spender.scripted,
        )

    def kill_run(self, run_id: str) -> None:
        """The run's process is gone."""
        os.close(self.locks.pop(run_id))

    def close(self) -> None:
        self.ledger.close()
        for run_id in list(self.locks):
            self.kill_run(run_id)


def parse_budgets(**budgets: str) -> dict[Node, Budget]:
    nodes: tuple[Node, ...] = ("project", "task", "run")
    return {node: parse_budget(budgets[node]) for node in nodes if node in budgets}


def nano(usd: float) -> int:
    return round(usd * NANO_PER_USD)


def held(lock: Path) -> int:
    """A lock file that this process holds until the descriptor is closed."""
    fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd
