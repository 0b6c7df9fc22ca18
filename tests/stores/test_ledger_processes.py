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
from inspan.protocol.spending import Spending
from inspan.stores.ledger import Ledger, read_spendings
from inspan.stores.ledger_calls import close_dead_accounts
from inspan.stores.ledger_tree import BudgetStatus, read_tree
from tests.cli_env import wait_until

from .accounts import NOON, PROJECT, Accounts, nano

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
ledger = Ledger(state, wait_s={LIMIT_S})
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
with ledger.file.write_transaction() as database:
    columns = "run_id, call, project, task, scripted, nano, tokens"
    database.execute(f"INSERT INTO reservation ({columns}) VALUES ('x', 1, 'p', 't', 0, 1, 1)")
    print("in", flush=True)
    sys.stdin.readline()
print("out", flush=True)
"""


@contextmanager
def _start(script: str, *arguments: object) -> Generator[subprocess.Popen[str]]:
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


def _read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def _go(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


def _project(state: str) -> BudgetStatus:
    return read_tree(state)[0]


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
            standings = read_tree(state)
            seen = max([seen, *(each.spent.nano + each.reserved.nano for each in standings)])
        assert all(int(_read_line(process)) for process in processes)
    assert seen <= LIMIT_NANO + excess
    # The last calls were denied although nothing was under way: hardly anything is left.
    assert LIMIT_NANO - 60 < _project(state).spent.nano <= LIMIT_NANO + excess
    rows = read_spendings(state)
    assert _project(state).spent[:3] == (sum(row.nano or 0 for row in rows), len(rows), len(rows))


def test_a_ledger_works_whenever_its_writers_are_killed(tmp_path: Path) -> None:
    state, chance = str(tmp_path / "state"), random.Random(4)
    for number in range(12):
        with _many(3, state, tmp_path, most=10**15, first=number * 3) as processes:
            for process in processes:
                _go(process)
            time.sleep(chance.uniform(0.0, 0.15))
            if number == 0:
                wait_until(lambda: read_spendings(state), "first call")
            for process in processes:
                process.send_signal(signal.SIGKILL)
        _check(state)
    assert len(read_spendings(state)) > 0


def _check(state: str) -> None:
    rows = read_spendings(state)
    standings = read_tree(state)
    if standings:
        # Each of these calls takes one token, and sets one aside.
        assert standings[0].spent[:3] == (sum(map(_charged_nano, rows)), len(rows), len(rows))
        assert standings[0].reserved == Amounts()
    ledger = Ledger(state)
    with ledger.file.write_transaction() as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert close_dead_accounts(database) > 0
    ledger.close()
    # It is the same, whether or not somebody has entered what the dead have left.
    assert [row[:2] for row in read_spendings(state)] == [row[:2] for row in rows]
    assert read_tree(state)[0].spent[:3] == standings[0].spent[:3]


def _charged_nano(row: Spending) -> int:
    return (row.nano or 0) if row.charged_nano is None else row.charged_nano


@contextmanager
def _many(
    count: int, state: str, folder: Path, *, most: int, excess_of_first: int = 0, first: int = 0
) -> Generator[list[subprocess.Popen[str]]]:
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                _start(SPENDS, state, folder, f"r{first + each:03}", most, 0 if each else excess_of_first)
            )
            for each in range(count)
        ]
        assert [_read_line(process) for process in started] == ["ready"] * count
        yield started


def test_what_a_dead_run_had_reserved_is_spent_when_it_is_in_the_way(accounts: Accounts) -> None:
    dead = accounts.open("r1", project="2usd")
    accounts.open("r2", project="2usd")
    accounts.spend(dead, 1, usd=0.5)
    accounts.ledger.reserve("r1", 2, nano=nano(1.25), tokens=7)
    denial = accounts.ledger.reserve("r2", 1, nano=nano(1), tokens=1)
    assert denial and denial.may_pass
    accounts.kill_run("r1")
    denial = accounts.ledger.reserve("r2", 1, nano=nano(1), tokens=1)
    # There is nobody left to wait for.
    assert denial and not denial.may_pass
    assert denial.sentence == (f"The budget of project {PROJECT} is $2.00: $1.75 spent, $1.00 asked for.")
    assert accounts.ledger.reserve("r2", 1, nano=nano(0.25), tokens=1) is None


def test_what_a_dead_run_had_reserved_is_shown_as_spent_before_and_after_the_next_run_begins(
    accounts: Accounts,
) -> None:
    accounts.open("r1", project="2usd")
    accounts.ledger.reserve("r1", 1, nano=nano(1.5), tokens=7)
    accounts.kill_run("r1")
    before = read_tree(accounts.state, now=NOON)[0], read_spendings(accounts.state)
    assert (before[0].spent, before[0].reserved) == (Amounts(nano=nano(1.5), tokens=7, calls=1), Amounts())
    assert (before[0].unpriced, before[0].estimated) == (1, 1)
    accounts.open("r2", project="2usd")
    with accounts.ledger.file.read_transaction() as database:
        assert database.execute("SELECT count(*) FROM reservation").fetchone() == (0,)
    after = read_tree(accounts.state, now=NOON)[0], read_spendings(accounts.state)
    assert (after[0]._replace(spent=after[0].spent._replace(restarts=0)), after[1]) == before


def test_a_run_whose_lock_cannot_be_looked_at_counts_as_living(accounts: Accounts, tmp_path: Path) -> None:
    accounts.open("r1", project="2usd")
    accounts.ledger.reserve("r1", 1, nano=nano(1.5), tokens=1)
    accounts.kill_run("r1")
    os.unlink(tmp_path / "r1.lock")
    os.mkdir(tmp_path / "r1.lock")
    accounts.open("r2", project="2usd")
    assert accounts.ledger.reserve("r2", 1, nano=nano(1), tokens=1) is not None


def test_a_stopped_writer_hangs_nobody(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path)
    accounts.open("r1", run="1usd")
    impatient = Ledger(accounts.state, clock=accounts.clock, wait_s=0.3)
    with _start(HOLDS, accounts.state) as process:
        assert _read_line(process) == "in"
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
        assert _read_line(process) == "out"
        assert impatient.reserve("r1", 1, nano=1, tokens=1) is None
    impatient.close()
    accounts.close()


def test_a_writer_that_is_killed_in_the_middle_has_written_nothing(accounts: Accounts) -> None:
    with _start(HOLDS, accounts.state) as process:
        assert _read_line(process) == "in"
        process.kill()
        process.wait(LIMIT_S)
    accounts.open("r1", run="1usd")
    with sqlite3.connect(Path(accounts.state) / "ledger.db") as database:
        assert database.execute("SELECT count(*) FROM reservation").fetchone() == (0,)
    database.close()
