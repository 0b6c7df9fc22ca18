"""What is reserved before a call and settled after it holds for the whole tree, whoever else is spending."""

import pytest

from inspan.protocol.amounts import Amounts, Denial
from inspan.protocol.budget import Budget, Node, parse_budget
from inspan.stores.ledger import Ledger, read_spendings
from inspan.stores.ledger_tree import read_tree

from .accounts import DAY_S, NOON, PROJECT, Accounts, nano, parse_budgets


def _room(ledger: Ledger, run_id: str, *, call: int = 99, usd: float = 0.0, tokens: int = 1) -> bool:
    """Whether such a call would be let through; it is not kept."""
    denial = ledger.reserve(run_id, call, nano=nano(usd), tokens=tokens)
    ledger.release(run_id, call)
    return denial is None


@pytest.mark.parametrize("node", ["project", "task", "run"])
def test_a_call_is_let_through_up_to_the_limit_and_not_beyond(accounts: Accounts, node: Node) -> None:
    assert accounts.ledger.open_run(accounts.spender("r1"), {node: parse_budget("2usd")}) is None
    assert accounts.ledger.reserve("r1", 1, nano=nano(2), tokens=1) is None
    assert accounts.ledger.reserve("r1", 2, nano=1, tokens=1) is not None


@pytest.mark.parametrize(
    ("budget", "asked"), [("2usd", (nano(2) + 1, 1)), ("1ktok", (0, 1001)), ("1calls", (0, 1))], ids=str
)
def test_each_limit_is_counted_for_itself(accounts: Accounts, budget: str, asked: tuple[int, int]) -> None:
    accounts.open(run=budget)
    if budget == "1calls":
        assert accounts.ledger.reserve("r1", 1, nano=0, tokens=1) is None
    assert accounts.ledger.reserve("r1", 2, nano=asked[0], tokens=asked[1]) is not None


def test_a_denial_names_the_node_and_says_how_it_stands(accounts: Accounts) -> None:
    spender = accounts.open(project="2usd/day", run="5usd")
    accounts.spend(spender, 1, usd=1.25)
    accounts.ledger.reserve("r1", 2, nano=nano(0.5), tokens=1)
    denial = accounts.ledger.reserve("r1", 3, nano=nano(0.3), tokens=1)
    assert denial == Denial("project", PROJECT, "usd", "day", nano(2), nano(1.25), nano(0.5), nano(0.3))
    assert denial is not None
    assert denial.sentence == (
        f"The budget of project {PROJECT} is $2.00 per day: "
        "$1.25 spent, $0.50 set aside for calls under way, $0.30 asked for."
    )
    assert denial.may_pass


def test_what_is_spent_already_cannot_pass_by_waiting(accounts: Accounts) -> None:
    spender = accounts.open(task="10calls")
    for call in range(10):
        accounts.spend(spender, call)
    denial = accounts.ledger.reserve("r1", 10, nano=None, tokens=1)
    assert denial
    assert not denial.may_pass
    assert (
        denial.sentence == "The budget of task default is 10 model calls: 10 model calls spent, 1 model call asked for."
    )


def test_runs_of_one_project_share_its_limit_and_not_their_own(accounts: Accounts) -> None:
    accounts.open("r1", project="2usd", run="1usd")
    accounts.open("r2", in_task="other", project="2usd", run="1.5usd")
    assert accounts.ledger.reserve("r1", 1, nano=nano(1), tokens=1) is None
    denial = accounts.ledger.reserve("r2", 1, nano=nano(1.5), tokens=1)
    assert denial and (denial.node_label, denial.reserved) == (f"project {PROJECT}", nano(1))
    assert accounts.ledger.reserve("r2", 1, nano=nano(1), tokens=1) is None


def test_tasks_of_one_project_do_not_share_their_limits(accounts: Accounts) -> None:
    accounts.open("r1", in_task="a", project="9usd")
    accounts.open("r2", in_task="b", project="9usd")
    accounts.ledger.reserve("r1", 1, nano=nano(4), tokens=1)
    found = {(each.node, each.task): each.reserved.nano for each in read_tree(accounts.state) if each.node == "task"}
    assert found == {("task", "a"): nano(4), ("task", "b"): 0}


@pytest.mark.parametrize("used_usd", [0.2, 1.0, 3.0])
def test_what_was_really_used_takes_the_place_of_the_reservation(accounts: Accounts, used_usd: float) -> None:
    spender = accounts.open(run="4usd")
    accounts.ledger.reserve("r1", 1, nano=nano(1), tokens=1)
    accounts.spend(spender, 1, usd=used_usd)
    assert _room(accounts.ledger, "r1", usd=4 - used_usd)
    assert not _room(accounts.ledger, "r1", usd=4 - used_usd + 1e-9)


def test_a_released_call_leaves_nothing(accounts: Accounts) -> None:
    accounts.open(run="1usd,1calls")
    accounts.ledger.reserve("r1", 1, nano=nano(1), tokens=1)
    accounts.ledger.release("r1", 1)
    assert accounts.ledger.reserve("r1", 2, nano=nano(1), tokens=1) is None


def test_a_call_that_is_settled_twice_is_counted_once(accounts: Accounts) -> None:
    spender = accounts.open(run="2usd")
    for _ in range(2):
        accounts.spend(spender, 1, usd=1, tokens=7)
    assert read_spendings(accounts.state) == [accounts.row(spender, 1, usd=1, tokens=7)]
    assert read_tree(accounts.state)[0].spent == Amounts(nano=nano(1), tokens=7, calls=1)


def test_budgets_count_an_estimate_where_the_row_says_that_nobody_knows(accounts: Accounts) -> None:
    spender = accounts.open(run="2usd")
    row = accounts.row(spender, 1, usd=None, tokens=None)
    accounts.ledger.settle("r1", 1, row, charged=Amounts(nano=nano(1.5), tokens=900))
    assert read_spendings(accounts.state) == [row._replace(charged_nano=nano(1.5), charged_tokens=900)]
    standing = read_tree(accounts.state)[0]
    assert (standing.spent, standing.unpriced, standing.estimated) == (
        Amounts(nano=nano(1.5), tokens=900, calls=1),
        1,
        1,
    )
    assert not _room(accounts.ledger, "r1", usd=0.6)


@pytest.mark.parametrize(
    ("budget", "later_s", "is_let_in"),
    [
        ("1usd/day", 0.0, False),
        ("1usd/day", DAY_S / 2 - 1, False),
        ("1usd/day", DAY_S / 2, True),
        ("1usd/month", 16 * DAY_S + DAY_S / 2 - 1, False),
        ("1usd/month", 16 * DAY_S + DAY_S / 2, True),
        ("1usd", 400 * DAY_S, False),
    ],
)
def test_a_period_begins_with_the_utc_day_or_month(
    accounts: Accounts, budget: str, later_s: float, is_let_in: bool
) -> None:
    spender = accounts.open(project=budget)
    accounts.spend(spender, 1, usd=1)
    accounts.clock.now = NOON + later_s
    assert _room(accounts.ledger, "r1", usd=1) is is_let_in


def test_a_run_brings_its_own_limits_for_the_nodes_above(accounts: Accounts) -> None:
    accounts.spend(accounts.open("r1", project="1usd"), 1, usd=1)
    accounts.open("r2", project="3usd")
    assert not _room(accounts.ledger, "r1", usd=0.1)
    assert _room(accounts.ledger, "r2", usd=2)
    accounts.open("r3")
    assert _room(accounts.ledger, "r3", usd=100)


def test_a_rehearsal_takes_nothing_from_the_money_that_is_real(accounts: Accounts) -> None:
    accounts.spend(accounts.open("r1", scripted=True, project="2usd"), 1, usd=1)
    accounts.ledger.reserve("r1", 2, nano=nano(1), tokens=1)
    accounts.open("r2", project="2usd")
    assert not _room(accounts.ledger, "r1", usd=0.1)
    assert _room(accounts.ledger, "r2", usd=2)
    accounts.ledger.reserve("r2", 1, nano=nano(2), tokens=1)
    accounts.ledger.release("r1", 2)
    assert _room(accounts.ledger, "r1", usd=1)


@pytest.mark.parametrize(
    ("budget", "spent", "sentence"),
    [
        ("2usd", {"usd": 2.0}, "The budget of task default is $2.00: $2.00 spent."),
        ("5tok", {"tokens": 9}, "The budget of task default is 5 tokens: 9 tokens spent."),
        ("1call", {}, "The budget of task default is 1 model call: 1 model call spent."),
    ],
)
def test_a_run_is_not_let_in_where_nothing_is_left(
    accounts: Accounts, budget: str, spent: dict[str, float], sentence: str
) -> None:
    accounts.ledger.settle(
        "r1", 1, accounts.row(accounts.open(), 1, usd=spent.get("usd", 0.0), tokens=int(spent.get("tokens", 0)))
    )
    denial = accounts.ledger.open_run(accounts.spender("r2"), parse_budgets(task=budget))
    assert denial and denial.sentence == sentence
    assert [each.run_id for each in read_tree(accounts.state) if each.node == "run"] == ["r1"]


def test_what_is_only_reserved_lets_a_run_in(accounts: Accounts) -> None:
    accounts.open("r1", project="2usd")
    accounts.ledger.reserve("r1", 1, nano=nano(2), tokens=1)
    accounts.open("r2", project="2usd")


def test_restarts_are_the_runs_of_a_task_after_its_first(accounts: Accounts) -> None:
    accounts.open("r1", in_task="a", project="2restarts")
    accounts.open("r2", in_task="a", project="2restarts")
    accounts.open("r3", in_task="b", project="2restarts")
    accounts.open("r4", in_task="a", project="2restarts")
    denial = accounts.ledger.open_run(accounts.spender("r5", in_task="a"), parse_budgets(project="2restarts"))
    assert denial and denial.sentence == (
        f"The budget of project {PROJECT} is 2 restarts: 2 restarts spent, 1 restart asked for."
    )
    accounts.open("r6", in_task="c", project="2restarts")


def test_a_run_has_no_restarts_of_its_own(accounts: Accounts) -> None:
    never = Budget(restarts=0)
    accounts.open("r1")
    assert accounts.ledger.open_run(accounts.spender("r2"), {"run": never}) is None
    denial = accounts.ledger.open_run(accounts.spender("r3"), {"task": never})
    assert denial and denial.sentence == (
        "The budget of task default is 0 restarts: 1 restart spent, 1 restart asked for."
    )


def test_the_largest_node_is_named_first(accounts: Accounts) -> None:
    accounts.open(project="1usd", task="1usd", run="1usd")
    denial = accounts.ledger.reserve("r1", 1, nano=nano(2), tokens=1)
    assert denial and denial.node == "project"


def test_opening_a_run_twice_counts_it_once(accounts: Accounts) -> None:
    spender = accounts.open("r1")
    assert accounts.ledger.open_run(spender, parse_budgets(project="1usd")) is None
    assert read_tree(accounts.state)[0].spent.restarts == 0


def test_a_run_that_is_not_open_cannot_reserve(accounts: Accounts) -> None:
    with pytest.raises(LookupError):
        accounts.ledger.reserve("nobody", 1, nano=0, tokens=0)


def test_another_process_knows_the_budgets_that_a_run_was_opened_with(accounts: Accounts) -> None:
    accounts.open(run="1usd")
    other = Ledger(accounts.state, clock=accounts.clock)
    assert other.reserve("r1", 1, nano=nano(2), tokens=1) is not None
    other.close()
