"""`cost`: each call that the gateway counted, runs as their agents report them, and an index that fills itself anew."""

import json
import os
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from inspan.engine.money.price_list import list_version
from inspan.protocol.spending import Spending
from inspan.protocol.usage import Usage
from inspan.stores.folder import mark_active, open_folder, take_lock
from inspan.stores.ledger import Ledger
from tests.house import House

from .refusal import refusal_of, told
from .scenes import CALL_TOKENS, FAILS, SAYS_HELLO, ended_run, let_go, waiting_run

# One call of a scenario that does not say otherwise.
CALL = {"input": 100, "output": 7, "cache_read": 20, "cache_write": 10, "reasoning": 3}
NONE: dict[str, Any] = dict.fromkeys(CALL)
HEADS = ["RUNS", "CALLS", "INPUT", "OUTPUT", "CACHE-READ", "CACHE-WRITE", "REASONING", "COST"]


def costs(house: House, *arguments: str) -> dict[str, Any]:
    done = house.inspan("cost", *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    value = json.loads(done.stdout)
    assert value.keys() == {"schema", "by", "since", "groups", "total", "prices"}
    return value


def part(runs: int = 0, calls: int = 0, tokens: dict[str, Any] = NONE, **more: Any) -> dict[str, Any]:
    missing = ("tokens_not_reported", "calls_without_tokens", "cost_not_reported", "calls_without_cost")
    return {"runs": runs, "calls": calls, **tokens, "cost_usd": None, **dict.fromkeys(missing, 0), **more}


def reported(name: str, runs: int, tokens: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Sums of scripted runs that no gateway counted, and of which none reported a cost."""
    whole = part(runs, 0, tokens, cost_not_reported=runs, **more)
    sources = {"gateway": part(), "agent": whole}
    roles = {"main": part(), "side": part(), "retry": part()}
    return {"name": name, **whole, "scripted_runs": runs, "scripted_usd": 0.0, "sources": sources, "roles": roles}


def forget_calls(house: House) -> None:
    """Leaves of the ended runs what an inspan without a ledger would have: the index."""
    for path in house.state.glob("ledger.db*"):
        path.unlink()


@pytest.fixture(scope="module")
def older_runs(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> Iterator[House]:
    """A house with two ended runs that the ledger does not know, a completed one and after it a failed one."""
    made = House(tmp_path_factory.mktemp("older"), binaries=binaries)
    for scenario in (SAYS_HELLO, FAILS):
        ended_run(made, scenario)
    forget_calls(made)
    yield made
    made.close()


def call(number: int, **fields: Any) -> Spending:
    usual: dict[str, Any] = {
        "run_id": "20261101-000000000-1",
        "at": datetime(2026, 11, 1, tzinfo=UTC).timestamp(),
        "project": "p",
        "task": "t",
        "session": "s",
        "agent": "one",
        "model": "large",
        "role": "main",
        "usage": Usage(**CALL),
        "nano": 250_000_000,
        "source": "gateway",
        "scripted": False,
    }
    return Spending(call=number, **{**usual, **fields})


def enter(house: House, *rows: Spending) -> None:
    """Puts rows into the ledger, as a run does."""
    ledger = Ledger(str(house.state))
    for row in rows:
        ledger.settle(row.run_id, row.call, row)
    ledger.close()


LATER = datetime(2026, 11, 2, tzinfo=UTC).timestamp()
OTHER: dict[str, Any] = {"run_id": "20261102-000000000-2", "agent": "two", "task": "u", "session": "r", "at": LATER}
ROWS = (
    call(1),
    call(2, role="retry"),
    call(3, role="side", model="small", nano=None),
    call(1, **OTHER),
    call(2, **OTHER, usage=None, nano=None),
    call(3, **OTHER, usage=None, nano=0),
)


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> Iterator[House]:
    """A house with the calls of two runs in its ledger, both deleted since."""
    made = House(tmp_path_factory.mktemp("counted"), binaries=binaries)
    enter(made, *ROWS)
    yield made
    made.close()


def times(count: int) -> dict[str, int]:
    return {name: count * number for name, number in CALL.items()}


def test_nothing_was_used_where_nothing_ran(untouched: House) -> None:
    done = untouched.inspan("cost")
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 1)
    assert (costs(untouched)["groups"], costs(untouched)["prices"]) == ([], None)
    assert costs(untouched)["total"] == reported("total", 0, NONE)
    assert not untouched.state.exists()


def test_calls_are_summed_with_retries_side_requests_and_unknown_prices_apart(counted: House) -> None:
    found = costs(counted)
    whole = part(2, 6, times(4), cost_usd=0.75, calls_without_tokens=1, calls_without_cost=2)
    assert found["total"] == {
        "name": "total",
        **whole,
        "scripted_runs": 0,
        "scripted_usd": 0.0,
        "sources": {"gateway": whole, "agent": part()},
        "roles": {
            "main": part(2, 4, times(2), cost_usd=0.5, calls_without_tokens=1, calls_without_cost=1),
            "side": part(1, 1, times(1), calls_without_cost=1),
            "retry": part(1, 1, times(1), cost_usd=0.25),
        },
    }
    assert [(each["name"], each["calls"], each["cost_usd"]) for each in found["groups"]] == [
        ("one", 3, 0.5),
        ("two", 3, 0.25),
    ]


def test_what_is_known_of_calls_is_told_in_words(counted: House) -> None:
    prices = costs(counted)["prices"]
    assert (prices["name"], prices["version"]) == ("genai-prices", list_version())
    head, one, two, total, *notes = counted.inspan("cost").stdout.splitlines()
    assert head.split() == ["AGENT", *HEADS]
    assert one.split(maxsplit=8) == ["one", "1", "3", "300", "21", "60", "30", "9", "$0.5000, unknown for 1 call"]
    assert two.split(maxsplit=8)[-1] == "$0.2500, unknown for 1 call"
    assert total.split(maxsplit=8)[-1] == "$0.7500, unknown for 2 calls"
    assert notes == [
        "Counted by the gateway: 6 calls of 2 runs.",
        "Retries: 1 call, 137 tokens, $0.2500.",
        "Side requests: 1 call, 137 tokens, unknown for 1 call.",
        "Tokens were not stated in the answers to 1 call.",
        f"Prices: genai-prices {list_version()}, newest price of {prices['newest']}.",
    ]


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("agent", ["one", "two"]),
        ("model", ["large", "small"]),
        ("run", ["20261102-000000000-2", "20261101-000000000-1"]),
        ("day", ["2026-11-02", "2026-11-01"]),
        ("project", ["p"]),
        ("session", ["r", "s"]),
        ("task", ["p/t", "p/u"]),
        ("role", ["main", "retry", "side"]),
    ],
)
def test_calls_are_grouped_as_asked(counted: House, by: str, names: list[str]) -> None:
    found = costs(counted, "--by", by)
    assert [group["name"] for group in found["groups"]] == names
    assert sum(group["calls"] for group in found["groups"]) == 6


def test_only_calls_since_a_moment_count(counted: House) -> None:
    assert costs(counted, "--since", "2026-11-02")["total"]["calls"] == 3
    assert costs(counted, "--since", "2999-01-01")["total"] == reported("total", 0, NONE)


def test_a_run_is_counted_by_the_gateway_or_told_by_its_agent_and_never_both(house: House) -> None:
    run_id = ended_run(house)
    forget_calls(house)
    enter(house, call(1, run_id=run_id), call(0, run_id=run_id, source="agent", nano=9), call(0, source="agent"))
    found = costs(house)["total"]
    assert (found["runs"], found["calls"], found["cost_usd"]) == (2, 1, 0.5)
    assert found["sources"]["agent"] == part(1, 0, CALL, cost_usd=0.25)


def test_a_deleted_run_stays_in_the_sums(house: House) -> None:
    run_id = ended_run(house)
    forget_calls(house)
    enter(house, call(1, run_id=run_id))
    before = costs(house)
    assert house.inspan("rm", run_id).returncode == 0
    assert costs(house) == before


def test_a_model_without_a_price_costs_an_unknown_amount_and_not_zero(house: House) -> None:
    enter(house, call(1, nano=None), call(2, nano=None))
    assert costs(house)["total"]["cost_usd"] is None
    assert house.inspan("cost").stdout.splitlines()[1].split(maxsplit=8)[-1] == "unknown for 2 calls"


def test_what_a_script_answered_was_never_paid(house: House) -> None:
    enter(house, call(1, scripted=True), call(1, **OTHER))
    found = costs(house)["total"]
    assert (found["cost_usd"], found["scripted_runs"], found["scripted_usd"]) == (0.5, 1, 0.25)
    notes = house.inspan("cost").stdout.splitlines()[4:]
    assert "A scripted model answered 1 run: $0.2500 was never paid." in notes


def test_a_ledger_that_is_none_is_named_with_the_next_step(house: House) -> None:
    house.state.mkdir(mode=0o700)
    (house.state / "ledger.db").write_bytes(b"no database at all, " * 300)
    refusal = refusal_of(house, "cost")
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert str(house.state / "ledger.db") in refusal.message
    assert refusal.next


def test_tokens_are_summed_and_a_cost_that_nobody_told_is_not_reported(older_runs: House) -> None:
    # The second run failed before its model told any tokens.
    one = reported("scripted", 2, CALL, tokens_not_reported=1)
    assert costs(older_runs) == {
        "schema": 1,
        "by": "agent",
        "since": None,
        "groups": [one],
        "total": {**one, "name": "total"},
        "prices": None,
    }
    head, line, *notes = older_runs.inspan("cost").stdout.splitlines()
    assert head.split() == ["AGENT", *HEADS]
    assert line.split(maxsplit=8) == ["scripted", "2", "0", "100", "7", "20", "10", "3", "not reported"]
    assert notes == ["Tokens were not reported by 1 run.", "A scripted model answered 2 runs: nothing was paid."]


@pytest.mark.parametrize("by", ["run", "day", "project", "model"])
def test_groups_are_made_as_asked(older_runs: House, by: str) -> None:
    rows = json.loads(older_runs.inspan("ps", "-a", "--json").stdout)["runs"]
    days = sorted({f"{datetime.fromtimestamp(row['started_at'], UTC):%Y-%m-%d}" for row in rows}, reverse=True)
    names = {
        "run": [row["run_id"] for row in rows],
        "day": days,
        "project": [rows[0]["project"]],
        "model": ["scripted"],
    }
    found = costs(older_runs, "--by", by)
    assert found["by"] == by
    assert [group["name"] for group in found["groups"]] == names[by]
    shown = [line.split()[0] for line in older_runs.inspan("cost", "--by", by).stdout.splitlines()]
    assert shown == [by.upper(), *names[by], *(["total"] if len(names[by]) > 1 else []), "Tokens", "A"]


def test_a_run_by_itself_without_any_tokens_shows_none(older_runs: House) -> None:
    failed = json.loads(older_runs.inspan("ps", "-a", "--json").stdout)["runs"][0]["run_id"]
    group = costs(older_runs, "--by", "run")["groups"][0]
    assert group == reported(failed, 1, NONE, tokens_not_reported=1)
    line = older_runs.inspan("cost", "--by", "run").stdout.splitlines()[1]
    assert line.split(maxsplit=8) == [failed, "1", "0", "-", "-", "-", "-", "-", "not reported"]


def test_only_runs_since_a_moment_count(older_runs: House) -> None:
    assert costs(older_runs, "--since", "2020-01-01")["total"]["runs"] == 2
    assert costs(older_runs, "--since", "4w")["total"]["runs"] == 2
    assert costs(older_runs, "--since", "2999-01-01")["total"]["runs"] == 0
    assert costs(older_runs, "--since", "0m")["total"]["runs"] == 0
    assert costs(older_runs, "--since", "1970-01-02")["since"] == 86400.0


@pytest.mark.parametrize("moment", ["soon", "7", "-7d", "1y", "2026-11-31", "2026-1-1", "nand", ""])
def test_what_is_no_moment_is_refused(untouched: House, moment: str) -> None:
    refusal = refusal_of(untouched, "cost", "--since", moment)
    assert (refusal.exit_code, refusal.code) == (2, "usage")
    assert "'--since'" in refusal.message
    assert repr(moment) in refusal.message
    assert "7d" in refusal.message


def test_what_makes_no_group_is_refused(untouched: House) -> None:
    refusal = refusal_of(untouched, "cost", "--by", "mood")
    assert (refusal.exit_code, refusal.code) == (2, "usage")
    assert "'agent', 'model', 'run', 'day', 'project', 'session', 'task', 'role'" in refusal.message


def test_the_cost_that_an_agent_reports_is_summed_beside_those_who_report_none(house: House) -> None:
    claude = house.run("claude", SAYS_HELLO)
    cost = round(claude.ended["cost_usd"], 9)
    ended_run(house)
    forget_calls(house)
    found = costs(house)
    assert [(group["name"], group["cost_usd"], group["cost_not_reported"]) for group in found["groups"]] == [
        ("claude", cost, 0),
        ("scripted", None, 1),
    ]
    assert (found["total"]["cost_usd"], found["total"]["cost_not_reported"]) == (cost, 1)
    _, one, other, total, note = house.inspan("cost").stdout.splitlines()
    assert one.endswith(f"  ${cost:.4f}")
    assert other.endswith("  not reported")
    assert total.endswith(f"  ${cost:.4f}, not reported by 1 run")
    assert note == f"A scripted model answered 2 runs: ${cost:.4f} was never paid."
    model = claude.of("thread_started")[0]["model"]
    assert [group["name"] for group in costs(house, "--by", "model")["groups"]] == [model, "scripted"]


def test_a_living_run_counts_with_what_it_has_used_so_far(house: House) -> None:
    ended_run(house)
    waiting_run(house)
    found = costs(house)["total"]
    assert {name: found[name] for name in ("runs", *CALL)} == {"runs": 2, **times(2)}
    let_go(house)


def test_a_run_that_is_being_closed_is_counted_once(house: House) -> None:
    folder = open_folder(str(house.folder(ended_run(house))))
    mark_active(str(house.state), folder)
    lock = take_lock(folder)
    try:
        found = costs(house)["total"]
        assert {name: found[name] for name in ("runs", *CALL)} == {"runs": 1, **CALL}
    finally:
        os.close(lock)


def older(house: House) -> None:
    """Makes the index one of an inspan that knew less."""
    with sqlite3.connect(house.state / "index.db") as database:
        database.execute("ALTER TABLE run DROP COLUMN input")
        database.execute("PRAGMA user_version = 2")
    database.close()


@pytest.mark.parametrize("command", ["ps -aq", "cost --by run"])
def test_an_index_of_an_older_inspan_fills_itself_anew(house: House, command: str) -> None:
    for scenario in (SAYS_HELLO, FAILS):
        ended_run(house, scenario)
    before = house.inspan(*command.split()).stdout
    older(house)
    done = house.inspan(*command.split())
    assert (done.returncode, done.stdout, done.stderr) == (0, before, "")
    forget_calls(house)
    assert costs(house)["total"] == reported("total", 2, CALL, tokens_not_reported=1)


def test_an_index_of_an_older_inspan_is_told_where_a_run_is_looked_up_and_heals_once(house: House) -> None:
    run_id = ended_run(house)
    older(house)
    refusal = told(house.inspan("show", run_id, "--json"))
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert "another version of inspan (2, not 3)" in refusal.message
    assert "`inspan reindex`" in refusal.next
    assert house.inspan("reindex").stdout == "1 runs indexed\n"
    assert house.inspan("show", run_id).returncode == 0


def test_a_run_that_ends_beside_an_index_of_an_older_inspan_is_not_forgotten(house: House) -> None:
    first = ended_run(house)
    older(house)
    run_id = house.detach("scripted", SAYS_HELLO)
    house.inspan("wait", run_id)
    rows = json.loads(house.inspan("ps", "-a", "--json").stdout)["runs"]
    assert [(row["run_id"], row["outcome"], row["tokens"]) for row in rows] == [
        (run_id, "completed", CALL_TOKENS),
        (first, "completed", CALL_TOKENS),
    ]
    assert house.inspan("show", first).returncode == 0
