"""Run time is used up by all runs of a node together, and counted for the day on which it passed."""

import pytest

from inspan.protocol.amounts import Amounts
from inspan.stores.ledger import TimeLeft
from inspan.stores.ledger_tree import read_tree

from .accounts import DAY_S, NOON, PROJECT, Accounts, parse_budgets

MIDNIGHT = NOON + DAY_S / 2


def test_without_a_limit_there_is_nothing_to_tell(accounts: Accounts) -> None:
    accounts.open(run="1usd")
    assert accounts.ledger.time_left("r1") is None


def test_a_run_uses_its_time(accounts: Accounts) -> None:
    accounts.open(run="10min")
    accounts.clock.now += 200
    assert accounts.ledger.time_left("r1") == TimeLeft(400.0, 1, None)


def test_living_and_ended_runs_use_the_time_of_a_node_together(accounts: Accounts) -> None:
    accounts.open("r1", project="1000s")
    accounts.open("r2", in_task="other", project="1000s")
    accounts.clock.now += 100
    accounts.ledger.end_run("r1", 90.0)
    accounts.open("r3", project="1000s")
    accounts.clock.now += 50
    assert accounts.ledger.time_left("r3") == TimeLeft(1000.0 - 90 - 150 - 50, 2, None)


def test_the_limit_that_ends_first_is_told(accounts: Accounts) -> None:
    accounts.open("r1", project="600s", run="350s")
    accounts.open("r2", project="600s")
    accounts.clock.now += 200
    # The run has 150 s left, and its project 200 s that two runs use up in 100 s.
    assert accounts.ledger.time_left("r1") == TimeLeft(200.0, 2, None)
    accounts.ledger.end_run("r2", 200.0)
    assert accounts.ledger.time_left("r1") == TimeLeft(150.0, 1, None)


def test_time_that_is_used_up_names_its_node(accounts: Accounts) -> None:
    accounts.open(task="10min/day")
    accounts.clock.now += 600.25
    left = accounts.ledger.time_left("r1")
    assert left and left.denial
    assert left.denial.sentence == (
        "The budget of task default is 600 s of run time per day: 600.2 s of run time spent."
    )


def test_a_run_is_not_let_in_where_living_runs_have_used_the_time(accounts: Accounts) -> None:
    accounts.open("r1")
    accounts.clock.now += 60
    denial = accounts.ledger.open_run(accounts.spender("r2"), parse_budgets(project="1min"))
    assert denial and denial.node_label == f"project {PROJECT}"


def test_time_counts_for_the_day_on_which_it_passed(accounts: Accounts) -> None:
    accounts.clock.now = MIDNIGHT - 100
    accounts.open("r1", project="1000s/day")
    accounts.clock.now = MIDNIGHT + 30
    assert accounts.ledger.time_left("r1") == TimeLeft(970.0, 1, None)
    accounts.ledger.end_run("r1", 130.0)
    assert read_tree(accounts.state, now=MIDNIGHT + 30)[0].spent.seconds == 30.0
    assert read_tree(accounts.state, now=MIDNIGHT - 1)[0].spent.seconds == 100.0


def test_a_dead_run_has_used_the_time_until_it_was_last_seen(accounts: Accounts) -> None:
    accounts.open("r1", project="1000s")
    accounts.open("r2", project="1000s")
    accounts.clock.now += 40
    accounts.ledger.touch("r1")
    accounts.kill_run("r1")
    accounts.clock.now += 60
    assert accounts.ledger.time_left("r2") == TimeLeft(1000.0 - 40 - 100, 1, None)


@pytest.mark.parametrize("sign", ["a reservation", "a settlement"])
def test_each_call_is_a_sign_of_life(accounts: Accounts, sign: str) -> None:
    spender = accounts.open("r1")
    accounts.clock.now += 40
    if sign == "a reservation":
        accounts.ledger.reserve("r1", 1, nano=0, tokens=1)
    else:
        accounts.spend(spender, 1)
    accounts.kill_run("r1")
    accounts.clock.now += 60
    accounts.open("r2")
    assert read_tree(accounts.state, now=accounts.clock())[0].spent.seconds == 40.0


@pytest.mark.parametrize("seconds", [12.0, 90.0])
def test_the_true_time_of_a_run_replaces_what_was_put_down_when_it_was_found_dead(
    accounts: Accounts, seconds: float
) -> None:
    accounts.open("r1", project="1usd")
    accounts.clock.now += 40
    accounts.ledger.touch("r1")
    accounts.kill_run("r1")
    accounts.ledger.end_run(accounts.open("r2").run_id, 0.0)
    assert read_tree(accounts.state, now=accounts.clock())[0].spent == Amounts(seconds=40.0, restarts=1)
    for _ in range(2):
        accounts.ledger.end_run("r1", seconds)
    assert read_tree(accounts.state, now=accounts.clock())[0].spent == Amounts(seconds=seconds, restarts=1)


def test_ending_a_run_that_nobody_opened_is_no_error(accounts: Accounts) -> None:
    accounts.ledger.end_run("nobody", 1.0)
    assert read_tree(accounts.state) == []
