"""A call under way: what it is when its owner settles it, releases it, or dies; and what an older ledger had of it."""

import fcntl
import os
import sqlite3
import time
from pathlib import Path

import pytest

from inspan.errors import StateUnusable
from inspan.protocol.amounts import Amounts
from inspan.protocol.usage import Usage
from inspan.stores.ledger import Ledger, read_spendings
from inspan.stores.ledger_tree import BudgetStatus, read_tree

from .accounts import DAY_S, NOON, PROJECT, Accounts, held, nano, parse_budgets


def _project(accounts: Accounts) -> BudgetStatus:
    return read_tree(accounts.state, now=accounts.clock())[0]


def _open_next_run(accounts: Accounts) -> None:
    """Somebody comes along who writes down what the dead have left."""
    accounts.open(f"next-{len(accounts.locks)}-{time.monotonic_ns()}", in_task="another")


def test_a_call_of_a_dead_run_is_charged_what_came_of_it(accounts: Accounts) -> None:
    spender = accounts.open("r1", project="2usd")
    accounts.ledger.reserve("r1", 1, nano=nano(1.5), tokens=900, model="m")
    row = accounts.row(spender, 1, usd=0.25, tokens=100)
    accounts.ledger.note(row, charged=Amounts(nano=nano(0.5), tokens=120))
    # While it lives, what was set aside stays set aside.
    assert _project(accounts).reserved == Amounts(nano=nano(1.5), tokens=900, calls=1)
    accounts.kill_run("r1")
    left = row._replace(charged_nano=nano(0.5), charged_tokens=120)
    for _ in range(2):
        assert read_spendings(accounts.state) == [left]
        assert _project(accounts).spent._replace(restarts=0) == Amounts(nano=nano(0.5), tokens=120, calls=1)
        assert (_project(accounts).reserved, _project(accounts).estimated) == (Amounts(), 1)
        _open_next_run(accounts)


def test_a_call_of_a_dead_run_that_had_come_to_its_end_is_what_was_stated(accounts: Accounts) -> None:
    spender = accounts.open("r1", project="2usd")
    accounts.ledger.reserve("r1", 1, nano=nano(1.5), tokens=900)
    row = accounts.row(spender, 1, usd=0.25, tokens=100)
    accounts.ledger.note(row, charged=Amounts(nano=nano(0.25), tokens=100))
    accounts.kill_run("r1")
    _open_next_run(accounts)
    assert read_spendings(accounts.state) == [row._replace(model="")]
    assert (_project(accounts).estimated, _project(accounts).unpriced) == (0, 0)


def test_a_call_of_a_run_without_limits_keeps_nothing_aside_and_is_not_lost_with_it(accounts: Accounts) -> None:
    accounts.open("r1")
    accounts.ledger.begin("r1", 1, charged=Amounts(nano=nano(0.5), tokens=100), model="m")
    assert _project(accounts).reserved == Amounts()
    accounts.open("r2", project="1call")
    assert accounts.ledger.reserve("r2", 1, nano=None, tokens=1) is None
    accounts.ledger.release("r2", 1)
    accounts.kill_run("r1")
    for _ in range(2):
        assert _project(accounts).spent._replace(restarts=0) == Amounts(nano=nano(0.5), tokens=100, calls=1)
        _open_next_run(accounts)
    assert accounts.ledger.reserve("r2", 1, nano=None, tokens=1) is not None


@pytest.mark.parametrize("word", ["settled", "released"])
def test_an_owner_that_was_only_taken_for_dead_has_the_last_word(accounts: Accounts, tmp_path: Path, word: str) -> None:
    spender = accounts.open("r1", project="2usd")
    accounts.ledger.reserve("r1", 1, nano=nano(1.5), tokens=900)
    # As if its folder had been moved away and back.
    os.rename(tmp_path / "r1.lock", tmp_path / "elsewhere")
    _open_next_run(accounts)
    assert _project(accounts).spent.nano == nano(1.5)
    os.rename(tmp_path / "elsewhere", tmp_path / "r1.lock")
    if word == "settled":
        accounts.spend(spender, 1, usd=0.25, tokens=10)
        assert read_spendings(accounts.state) == [accounts.row(spender, 1, usd=0.25, tokens=10)]
        assert _project(accounts).spent._replace(restarts=0) == Amounts(nano=nano(0.25), tokens=10, calls=1)
    else:
        accounts.ledger.release("r1", 1)
        assert read_spendings(accounts.state) == []
        assert _project(accounts).spent._replace(restarts=0) == Amounts()
    assert (_project(accounts).unpriced, _project(accounts).estimated) == (0, 0)


def test_a_run_that_was_taken_for_dead_and_dies_again_leaves_nothing_to_wait_for(
    accounts: Accounts, tmp_path: Path
) -> None:
    accounts.open("r1", project="2usd")
    os.rename(tmp_path / "r1.lock", tmp_path / "elsewhere")
    _open_next_run(accounts)
    os.rename(tmp_path / "elsewhere", tmp_path / "r1.lock")
    accounts.ledger.reserve("r1", 1, nano=nano(1.5), tokens=900)
    assert _project(accounts).reserved.calls == 1
    accounts.kill_run("r1")
    assert (_project(accounts).reserved, _project(accounts).spent.nano) == (Amounts(), nano(1.5))
    accounts.open("r2", project="2usd")
    denial = accounts.ledger.reserve("r2", 1, nano=nano(1), tokens=1)
    assert denial and not denial.may_pass


def test_a_run_that_ends_with_a_call_that_nobody_settled_has_spent_it(accounts: Accounts) -> None:
    accounts.open("r1", project="2usd")
    accounts.ledger.reserve("r1", 1, nano=nano(1.5), tokens=900)
    accounts.ledger.end_run("r1", 1.0)
    assert (_project(accounts).spent.nano, _project(accounts).reserved) == (nano(1.5), Amounts())


def test_what_the_log_of_a_lost_run_knows_stands_above_what_was_presumed(accounts: Accounts) -> None:
    spender = accounts.open("r1", project="2usd")
    for call in (1, 2, 3):
        accounts.ledger.reserve("r1", call, nano=nano(0.5), tokens=900)
    accounts.spend(spender, 1, usd=0.1)
    accounts.kill_run("r1")
    _open_next_run(accounts)
    known = [accounts.row(spender, 1, usd=9), accounts.row(spender, 2, usd=0.2)]
    rows = accounts.ledger.end_lost_run("r1", known)
    assert [(row.call, row.nano, row.charged_nano) for row in rows] == [
        (1, nano(0.1), None),
        (2, nano(0.2), None),
        (3, None, nano(0.5)),
    ]
    assert accounts.ledger.end_lost_run("r1", known) == rows
    assert _project(accounts).spent._replace(restarts=0) == Amounts(nano=nano(0.8), tokens=900, calls=3)


def test_a_call_of_a_dead_run_counts_for_the_day_on_which_it_was_made(accounts: Accounts) -> None:
    accounts.open("r1", project="2usd/day")
    accounts.ledger.reserve("r1", 1, nano=nano(1.5), tokens=900)
    accounts.kill_run("r1")
    accounts.clock.now = NOON + DAY_S
    for _ in range(2):
        assert _project(accounts).spent.nano == 0
        assert read_tree(accounts.state, now=NOON)[0].spent.nano == nano(1.5)
        accounts.open(f"r{_ + 2}", project="2usd/day")


def test_a_process_with_the_same_pid_does_not_keep_a_dead_run_alive(accounts: Accounts, tmp_path: Path) -> None:
    """A run is known by its lock: whoever is there now under any number holds none of it."""
    run_id = f"20270115-120000000-{os.getpid()}"
    spender = accounts.open(run_id, project="2usd")
    accounts.ledger.reserve(run_id, 1, nano=nano(1.5), tokens=900)
    accounts.kill_run(run_id)
    # Others may look at the file, as readers do.
    with open(spender.lock, "rb") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert _project(accounts).spent.nano == nano(1.5)


def test_a_killed_run_has_used_the_time_for_which_it_spoke(accounts: Accounts) -> None:
    accounts.open("r1", project="1000s")
    accounts.clock.now += 40
    accounts.ledger.touch("r1", ahead_s=2.0)
    accounts.clock.now += 1.5
    assert _project(accounts).spent.seconds == 41.5
    accounts.kill_run("r1")
    assert _project(accounts).spent.seconds == 42.0
    _open_next_run(accounts)
    assert _project(accounts).spent.seconds == 42.0


def test_what_the_agent_of_a_killed_run_wrote_is_a_sign_of_life(accounts: Accounts, tmp_path: Path) -> None:
    accounts.open("r1", project="1000s")
    (tmp_path / "stdout").touch()
    os.utime(tmp_path / "stdout", (NOON + 300, NOON + 300))
    accounts.clock.now += 400
    accounts.kill_run("r1")
    for _ in range(2):
        assert _project(accounts).spent.seconds == 300.0
        _open_next_run(accounts)


def test_a_ledger_on_a_full_disk_keeps_what_was_set_aside(accounts: Accounts) -> None:
    spender = accounts.open("r1", project="2usd")
    accounts.ledger.reserve("r1", 1, nano=nano(1.5), tokens=900)
    with accounts.ledger.file.read_transaction() as database:
        pages: int = database.execute("PRAGMA page_count").fetchone()[0]
    full = sqlite3.connect(Path(accounts.state) / "ledger.db")
    full.close()
    with accounts.ledger.file.read_transaction() as database:
        database.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StateUnusable, match="full"):
        for call in range(2, 10_000):
            accounts.spend(spender, call)
    accounts.kill_run("r1")
    assert _project(accounts).spent.nano == nano(1.5)


_VERSION_1 = """
CREATE TABLE run (
    run_id TEXT PRIMARY KEY, project TEXT NOT NULL, task TEXT NOT NULL, scripted INTEGER NOT NULL,
    started_at REAL NOT NULL, seen_at REAL NOT NULL, seconds REAL, lock TEXT NOT NULL, budgets BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX run_of_task ON run (project, task, scripted);
CREATE INDEX run_open ON run (project) WHERE seconds IS NULL;
CREATE TABLE reservation (
    run_id TEXT, call INTEGER, project TEXT NOT NULL, task TEXT NOT NULL, scripted INTEGER NOT NULL,
    nano INTEGER NOT NULL, tokens INTEGER NOT NULL, PRIMARY KEY (run_id, call)
) WITHOUT ROWID;
CREATE TABLE spending (
    run_id TEXT, call INTEGER, at REAL NOT NULL, project TEXT NOT NULL, task TEXT NOT NULL, session TEXT NOT NULL,
    agent TEXT NOT NULL, model TEXT NOT NULL, role TEXT NOT NULL,
    input INTEGER, output INTEGER, cache_read INTEGER, cache_write INTEGER, reasoning INTEGER,
    nano INTEGER, source TEXT, scripted INTEGER NOT NULL, PRIMARY KEY (run_id, call, source)
) WITHOUT ROWID;
CREATE INDEX spending_at ON spending (at);
CREATE TABLE sum (
    project TEXT, task TEXT, run_id TEXT, scripted INTEGER, day INTEGER,
    nano INTEGER NOT NULL, tokens INTEGER NOT NULL, calls INTEGER NOT NULL, seconds REAL NOT NULL,
    restarts INTEGER NOT NULL, unpriced INTEGER NOT NULL, estimated INTEGER NOT NULL,
    PRIMARY KEY (project, task, run_id, scripted, day)
) WITHOUT ROWID;
CREATE TABLE node (
    project TEXT, task TEXT, scripted INTEGER, budget BLOB NOT NULL, PRIMARY KEY (project, task, scripted)
) WITHOUT ROWID;
CREATE TABLE salt (bytes BLOB NOT NULL);
CREATE TABLE hold (
    provider TEXT, key TEXT, until REAL NOT NULL, told INTEGER NOT NULL, repeats INTEGER NOT NULL,
    PRIMARY KEY (provider, key)
) WITHOUT ROWID;
CREATE TABLE bucket (
    provider TEXT, kind TEXT, level REAL NOT NULL, at REAL NOT NULL, PRIMARY KEY (provider, kind)
) WITHOUT ROWID;
CREATE TABLE slot (provider TEXT, run_id TEXT, call INTEGER, PRIMARY KEY (provider, run_id, call)) WITHOUT ROWID;
INSERT INTO salt VALUES (x'00112233445566778899aabbccddeeff');
INSERT INTO hold VALUES ('openai', 'abc', 9e9, 1, 1);
PRAGMA user_version = 1;
"""


def _write_version_1(state: Path, *, lock: Path) -> None:
    """A ledger as inspan once wrote it: a run with one call settled and another under way."""
    state.mkdir(mode=0o700)
    database = sqlite3.connect(state / "ledger.db")
    database.execute("PRAGMA journal_mode = WAL")
    database.executescript(_VERSION_1)
    run = ("old", PROJECT, "default", 0, NOON, NOON + 5, str(lock), b'{"project":{"usd":2.0}}')
    database.execute("INSERT INTO run VALUES (?,?,?,?,?,?,NULL,?,?)", run)
    database.execute("INSERT INTO node VALUES (?, '', 0, ?)", (PROJECT, b'{"usd":2.0}'))
    database.execute("INSERT INTO reservation VALUES ('old', 2, ?, 'default', 0, ?, 900)", (PROJECT, nano(1)))
    row = ("old", 1, NOON, PROJECT, "default", "s", "codex", "m", "main", 10, 1, 0, 0, 0, nano(0.5), "gateway", 0)
    database.execute(f"INSERT INTO spending VALUES ({','.join('?' * len(row))})", row)
    for task, run_id in (("", ""), ("default", ""), ("default", "old")):
        for day in (-1, int(NOON // DAY_S)):
            values = (PROJECT, task, run_id, 0, day, nano(0.5), 11, 1, 0.0, 0, 0, 0)
            database.execute(f"INSERT INTO sum VALUES ({','.join('?' * len(values))})", values)
    database.commit()
    database.close()


@pytest.mark.parametrize("lives", [True, False])
def test_a_ledger_of_the_first_version_is_understood(tmp_path: Path, lives: bool) -> None:
    lock = tmp_path / "old.lock"
    lock_fd = held(lock)
    _write_version_1(tmp_path / "state", lock=lock)
    if not lives:
        os.close(lock_fd)
    accounts = Accounts(tmp_path)
    project = _project(accounts)
    spent, kept = (0.5, 1) if lives else (1.5, 0)
    assert (project.spent.nano, project.reserved.nano) == (nano(spent), nano(kept))
    rows = [(row.call, row.agent, row.usage, row.charged_tokens) for row in read_spendings(accounts.state)]
    known = [(1, "codex", Usage(input=10, output=1), None)]
    assert rows == (known if lives else [*known, (2, "", None, 900)])
    accounts.open("new", project="2usd")
    denial = accounts.ledger.reserve("new", 1, nano=nano(1), tokens=1)
    assert denial and denial.may_pass is lives
    assert accounts.ledger.reserve("new", 1, nano=nano(0.5), tokens=1) is None
    accounts.close()
    if lives:
        os.close(lock_fd)


def test_a_ledger_that_several_open_at_once_is_brought_up_to_date_once(tmp_path: Path) -> None:
    _write_version_1(tmp_path / "state", lock=tmp_path / "none")
    before = sqlite3.connect(tmp_path / "state" / "ledger.db", timeout=0.1, isolation_level=None)
    before.execute("BEGIN IMMEDIATE")
    with pytest.raises(StateUnusable, match="locked"):
        Ledger(str(tmp_path / "state"), wait_s=0.2)
    before.execute("ROLLBACK")
    before.close()
    ledgers, accounts = [Ledger(str(tmp_path / "state")) for _ in range(3)], Accounts(tmp_path)
    assert [ledger.open_run(accounts.spender(f"r{n}"), parse_budgets()) for n, ledger in enumerate(ledgers)] == [
        None
    ] * 3
    for ledger in (*ledgers, accounts):
        ledger.close()
