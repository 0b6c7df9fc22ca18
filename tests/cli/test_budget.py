"""`inspan budget`: the tree of budgets as it stands, and sentences for a ledger that cannot be read."""

import json
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from inspan.protocol.amounts import Amounts
from inspan.protocol.ids import make_short_name
from tests.cli_env import CliEnv
from tests.stores.accounts import Accounts, nano

from .refusal import expect_refusal

NO_LIMITS = {"usd": None, "tokens": None, "calls": None, "seconds": None, "restarts": None, "per": None}


@pytest.fixture
def accounts(cli_env: CliEnv) -> Iterator[Accounts]:
    """The ledger of the house. Its runs start in the future and have used no time."""
    cli_env.state.mkdir(mode=0o700)
    made = Accounts(cli_env.root, state=cli_env.state)
    yield made
    made.close()


def _nodes(cli_env: CliEnv) -> list[dict[str, Any]]:
    done = cli_env.inspan("budget", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)["nodes"]


def test_without_a_ledger_there_is_nothing_and_looking_makes_none(cli_env: CliEnv) -> None:
    assert _nodes(cli_env) == []
    done = cli_env.inspan("budget")
    assert " ".join(done.stdout.split()) == "NODE LIMIT COST TOKENS CALLS TIME RESTARTS SET-ASIDE SINCE"
    assert list((cli_env.root / "state").iterdir()) == []


def test_the_tree_is_shown_with_limits_spending_and_what_is_set_aside(cli_env: CliEnv, accounts: Accounts) -> None:
    spender = accounts.open("r1", project="20usd", run="1.1mtok,2h")
    accounts.spend(spender, 1, usd=1.25, tokens=900)
    accounts.ledger.reserve("r1", 2, nano=nano(0.5), tokens=400)
    shown = cli_env.inspan("budget").stdout.splitlines()
    assert [line.split()[:8] for line in shown[1:]] == [
        ["project", "web-1a2b", "20usd", "$1.25", "900", "1", "0.0s", "0"],
        ["task", "default", "-", "$1.25", "900", "1", "0.0s", "0"],
        ["run", make_short_name("r1"), "1100000tok,7200s", "$1.25", "900", "1", "0.0s", "0"],
    ]
    assert [line.partition("$0.50, 400 tokens")[2].strip() for line in shown[1:]] == ["-", "-", "-"]


def test_a_period_is_shown_with_its_beginning(cli_env: CliEnv, accounts: Accounts) -> None:
    accounts.open("r1", project="20usd/day")
    before = time.time()
    (since,) = {each["since"] for each in _nodes(cli_env)} - {None}
    assert since % 86400 == 0
    assert before - 86400 < since <= time.time()
    # A later day by now, should midnight have come between the two looks.
    day = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-")
    assert f"  {day}" in cli_env.inspan("budget").stdout or time.time() > since + 86400


def test_the_tree_as_json(cli_env: CliEnv, accounts: Accounts) -> None:
    spender = accounts.open("r1", project="20usd", run="50calls")
    accounts.spend(spender, 1, usd=1.25, tokens=900)
    accounts.ledger.reserve("r1", 2, nano=nano(0.5), tokens=400)
    project, _, run = _nodes(cli_env)
    assert project == {
        "node": "project",
        "project": "web-1a2b",
        "task": None,
        "run_id": None,
        "scripted": False,
        "limits": {**NO_LIMITS, "usd": 20.0},
        "spent": {"usd": 1.25, "tokens": 900, "calls": 1, "seconds": 0.0, "restarts": 0},
        "cost_usd": 1.25,
        "cost_kind": "paid",
        "not_paid_usd": None,
        "reserved": {"usd": 0.5, "tokens": 400, "calls": 1},
        "since": None,
        "unpriced_calls": 0,
        "estimated_calls": 0,
    }
    assert (run["task"], run["run_id"], run["limits"]) == ("default", "r1", {**NO_LIMITS, "calls": 50})


def test_what_an_ended_run_spent_stays_when_it_is_removed_and_the_index_rebuilt(
    cli_env: CliEnv, accounts: Accounts
) -> None:
    accounts.spend(accounts.open("r1", project="2usd"), 1, usd=1.0)
    accounts.ledger.end_run("r1", 3.0)
    accounts.kill_run("r1")
    assert cli_env.inspan("reindex").returncode == 0
    assert [(each["node"], each["spent"]["usd"], each["spent"]["seconds"]) for each in _nodes(cli_env)] == [
        ("project", 1.0, 3.0),
        ("task", 1.0, 3.0),
    ]


def test_what_nobody_could_tell_is_said(cli_env: CliEnv, accounts: Accounts) -> None:
    spender = accounts.open("r1")
    accounts.ledger.settle("r1", 1, accounts.row(spender, 1, usd=None, tokens=5))
    row = accounts.row(spender, 2, usd=None, tokens=None)
    accounts.ledger.settle("r1", 2, row, charged=Amounts(nano=nano(0.5), tokens=7))
    lines = cli_env.inspan("budget").stdout.splitlines()
    assert "$0.50 + unknown for 2 calls" in lines[1]
    assert lines[-2:] == [
        "Unknown, and not in COST: what 2 model calls cost; a run without a gateway counts as one.",
        "1 model call without a usage from the provider: counted here by an estimate.",
    ]


def test_rehearsals_are_a_tree_of_their_own(cli_env: CliEnv, accounts: Accounts) -> None:
    accounts.spend(accounts.open("r1", scripted=True), 1, usd=1.0)
    accounts.open("r2")
    assert [(each["node"], each["scripted"], each["spent"]["usd"]) for each in _nodes(cli_env)] == [
        ("project", False, 0.0),
        ("task", False, 0.0),
        ("run", False, 0.0),
        ("project", True, 1.0),
        ("task", True, 1.0),
        ("run", True, 1.0),
    ]
    shown = cli_env.inspan("budget").stdout.splitlines()
    assert "project web-1a2b (scripted)" in shown[4]
    assert ["not paid ($1.00 at list prices)" in line for line in shown[1:]] == [False] * 3 + [True] * 3
    assert [(each["cost_usd"], each["cost_kind"], each["not_paid_usd"]) for each in _nodes(cli_env)] == [
        *[(0.0, "paid", None)] * 3,
        *[(None, "not_paid", 1.0)] * 3,
    ]


def _spoil(path: Path) -> None:
    path.write_bytes(b"this is no database" * 1000)


def _set_version(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()


@pytest.mark.parametrize(("spoil", "problem"), [(_spoil, "not a database"), (_set_version, "(99, not 3)")])
def test_a_ledger_that_cannot_be_read_is_named_with_the_next_step(cli_env: CliEnv, spoil: Any, problem: str) -> None:
    cli_env.state.mkdir(mode=0o700)
    path = cli_env.state / "ledger.db"
    spoil(path)
    before = path.read_bytes()
    refusal = expect_refusal(cli_env, "budget")
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert problem in refusal.message
    assert str(path) in refusal.message
    assert "budgets then begin at zero" in refusal.next
    assert path.read_bytes() == before


def test_a_state_folder_that_is_a_file_is_named(cli_env: CliEnv) -> None:
    cli_env.state.write_text("mine")
    refusal = expect_refusal(cli_env, "budget")
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert str(cli_env.state) in refusal.message
    assert "XDG_STATE_HOME" in refusal.next
    assert cli_env.state.read_text() == "mine"
