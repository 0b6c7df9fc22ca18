"""Many processes at one ledger: together they overshoot nothing, and any of them may be killed or stopped."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from inspan.errors import StateUnusable
from inspan.protocol.amounts import Amounts
from inspan.stores.ledger import Ledger, spendings
from inspan.stores.ledger_tree import Standing, tree

from .accounts import PROJECT, Accounts, nano

LIMIT_NANO = 40_000
LIMIT_S = 120.0
# A run that reserves and settles until its budget is used up, or for ever; what it reserves is enough, but for one.
SPENDS = f"""
import random, sys, time
from pathlib import Path
from inspan.protocol.usage import Usage
from inspan.protocol.spending import Spending
from inspan.protocol.budget import Budget
from inspan.stores.ledger import Ledger
from inspan.stores.ledger_sums import Spender
from tests.stores.accounts import held
state, folder, run_id, most, excess = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
lock = folder / (run_id + ".lock")
kept, NOW = held(lock), time.time()
ledger = Ledger(state)
chance = random.Random(run_id)
spender = Spender(run_id=run_id, project="{PROJECT}", task="t", agent="a", session="s", lock=str(lock), started_at=NOW)
assert ledger.open_run(spender, {{"project": Budget(usd=most / 1e9)}}) is None
print("ready", flush=True)
sys.stdin.readline()
call, denial = 0, None
while denial is None or denial.may_pass:
    call += 1
    asked = chance.randrange(1, 60)
    denial = ledger.reserve(run_id, call, nano=asked, tokens=1)
    if denial is None:
        used = asked + excess if call == 1 else chance.randrange(asked + 1)
        usage = Usage(input=1)
        row = Spending(run_id, call, NOW, "{PROJECT}", "t", "s", "a", "m", "main", usage, used, "gateway", False)
        ledger.settle(run_id, call, row)
print(call, flush=True)
"""
HOLDS = """
import sys, time
from inspan.stores.ledger import Ledger
ledger = Ledger(sys.argv[1])
with ledger.file.writing() as database:
    database.execute("INSERT INTO reservation VALUES ('x', 1, 'p', 't', 0, 1, 1)")
    print("in", flush=True)
    sys.stdin.readline()
print("out", flush=True)
"""


@contextmanager
def _started(script: str, *arguments: object) -> Generator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=LIMIT_S)


def _hears(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def _go(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


def _project(state: str) -> Standing:
    return tree(state)[0]


@pytest.mark.parametrize("excess", [0, 7])
def test_ten_processes_overshoot_their_project_by_no_more_than_what_one_call_was_underestimated(
    tmp_path: Path, excess: int
) -> None:
    state = str(tmp_path / "state")
    with _many(10, state, tmp_path, most=LIMIT_NANO, excess_of_first=excess) as processes:
        for process in processes:
            _go(process)
        seen = 0
        while any(process.poll() is None for process in processes):
            standings = tree(state)
            seen = max([seen, *(each.spent.nano + each.reserved.nano for each in standings)])
        assert all(int(_hears(process)) for process in processes)
    assert seen <= LIMIT_NANO + excess
    # The last calls were denied although nothing was under way: hardly anything is left.
    assert LIMIT_NANO - 60 < _project(state).spent.nano <= LIMIT_NANO + excess
    rows = spendings(state)
    assert _project(state).spent[:3] == (sum(row.nano or 0 for row in rows), len(rows), len(rows))


def test_a_ledger_works_whenever_its_writers_are_killed(tmp_path: Path) -> None:
    state, chance = str(tmp_path / "state"), random.Random(4)
    for number in range(12):
        with _many(3, state, tmp_path, most=10**15, first=number * 3) as processes:
            for process in processes:
                _go(process)
            time.sleep(chance.uniform(0.0, 0.15))
            for process in processes:
                process.send_signal(signal.SIGKILL)
        _check(state)
    assert len(spendings(state)) > 0


def _check(state: str) -> None:
    rows = spendings(state)
    standings = tree(state)
    if standings:
        assert standings[0].spent[:3] == (sum(row.nano or 0 for row in rows), len(rows), len(rows))
    ledger = Ledger(state)
    with ledger.file.writing() as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    ledger.close()


@contextmanager
def _many(
    count: int, state: str, folder: Path, *, most: int, excess_of_first: int = 0, first: int = 0
) -> Generator[list[subprocess.Popen[str]]]:
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                _started(SPENDS, state, folder, f"r{first + each:03}", most, 0 if each else excess_of_first)
            )
            for each in range(count)
        ]
        assert [_hears(process) for process in started] == ["ready"] * count
        yield started


def test_what_a_dead_run_had_reserved_is_released_when_it_is_in_the_way(accounts: Accounts) -> None:
    dead, living = accounts.open("r1", project="2usd"), accounts.open("r2", project="2usd")
    accounts.spend(dead, 1, usd=0.5)
    accounts.ledger.reserve("r1", 2, nano=nano(1.5), tokens=1)
    assert accounts.ledger.reserve("r2", 1, nano=nano(1), tokens=1) is not None
    accounts.die("r1")
    assert accounts.ledger.reserve("r2", 1, nano=nano(1), tokens=1) is None
    accounts.spend(living, 1, usd=1)
    assert _project(accounts.state).spent == Amounts(
        nano=nano(1.5), calls=2, restarts=1, seconds=_any_seconds(accounts)
    )


def _any_seconds(accounts: Accounts) -> float:
    return _project(accounts.state).spent.seconds


def test_what_a_dead_run_had_reserved_is_not_shown_and_gone_when_the_next_run_begins(accounts: Accounts) -> None:
    accounts.open("r1", project="2usd")
    accounts.ledger.reserve("r1", 1, nano=nano(1.5), tokens=1)
    accounts.die("r1")
    assert [each.node for each in tree(accounts.state) if each.reserved.nano] == []
    accounts.open("r2", project="2usd")
    with accounts.ledger.file.reading() as database:
        assert database.execute("SELECT count(*) FROM reservation").fetchone() == (0,)


def test_a_run_whose_lock_cannot_be_looked_at_counts_as_living(accounts: Accounts, tmp_path: Path) -> None:
    accounts.open("r1", project="2usd")
    accounts.ledger.reserve("r1", 1, nano=nano(1.5), tokens=1)
    accounts.die("r1")
    os.unlink(tmp_path / "r1.lock")
    os.mkdir(tmp_path / "r1.lock")
    accounts.open("r2", project="2usd")
    assert accounts.ledger.reserve("r2", 1, nano=nano(1), tokens=1) is not None


def test_a_stopped_writer_hangs_nobody(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path)
    accounts.open("r1", run="1usd")
    impatient = Ledger(accounts.state, clock=accounts.clock, wait_s=0.3)
    with _started(HOLDS, accounts.state) as process:
        assert _hears(process) == "in"
        process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(StateUnusable) as caught:
            impatient.reserve("r1", 1, nano=1, tokens=1)
        assert time.monotonic() - began < 30
        assert "locked" in caught.value.message
        assert "inspan ps" in caught.value.next_step
        assert _project(accounts.state).reserved == Amounts()
        process.send_signal(signal.SIGCONT)
        _go(process)
        assert _hears(process) == "out"
        assert impatient.reserve("r1", 1, nano=1, tokens=1) is None
    impatient.close()
    accounts.close()


def test_a_writer_that_is_killed_in_the_middle_has_written_nothing(accounts: Accounts) -> None:
    with _started(HOLDS, accounts.state) as process:
        assert _hears(process) == "in"
        process.kill()
        process.wait(LIMIT_S)
    accounts.open("r1", run="1usd")
    with sqlite3.connect(Path(accounts.state) / "ledger.db") as database:
        assert database.execute("SELECT count(*) FROM reservation").fetchone() == (0,)
    database.close()
