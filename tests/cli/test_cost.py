"""`cost`: each call that the gateway counted, runs as their agents report them, and an index that fills itself anew."""

import json
import os
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from inspan.protocol.ids import make_short_name
from inspan.protocol.spending import Spending
from inspan.protocol.usage import Usage
from inspan.spending.price_list import find_list_version
from inspan.stores.ledger import Ledger
from inspan.stores.run_folder import lock_run, mark_active, open_folder
from tests.cli_env import CliEnv

from .refusal import expect_refusal, parse_refusal
from .scenarios import CALL_TOKENS, FAILS, SAYS_HELLO, EndedRun, release_tool, run_to_end, start_waiting_run

# One call of a scenario that does not say otherwise.
CALL = {"input": 100, "output": 7, "cache_read": 20, "cache_write": 10, "reasoning": 3}
NONE: dict[str, Any] = dict.fromkeys(CALL)
HEADS = ["RUNS", "CALLS", "INPUT", "OUTPUT", "CACHE-READ", "CACHE-WRITE", "REASONING", "COST"]


def costs(cli_env: CliEnv, *arguments: str) -> dict[str, Any]:
    done = cli_env.inspan("cost", *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    value = json.loads(done.stdout)
    assert value.keys() == {"schema", "by", "since", "groups", "total", "prices"}
    return value


def part(runs: int = 0, calls: int = 0, tokens: dict[str, Any] = NONE, **more: Any) -> dict[str, Any]:
    missing = ("tokens_not_reported", "calls_without_tokens", "cost_not_reported", "calls_without_cost")
    estimated = ("estimated_calls", "estimated_usd", "estimated_tokens")
    zeros = dict.fromkeys((*missing, *estimated), 0)
    cost = {"cost_usd": None, "cost_kind": "not_paid", "not_paid_usd": None}
    return {"runs": runs, "calls": calls, **tokens, **cost, **zeros, **more}


def expected_sums(name: str, runs: int, tokens: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Sums of scripted runs that no gateway counted, and of which none reported a cost."""
    whole = part(runs, 0, tokens, cost_not_reported=runs, **more)
    sources = {"gateway": part(), "agent": whole}
    roles = {"main": part(), "side": part(), "retry": part()}
    return {"name": name, **whole, "scripted_runs": runs, "scripted_usd": 0.0, "sources": sources, "roles": roles}


def forget_calls(cli_env: CliEnv) -> None:
    """Leaves of the ended runs what an inspan without a ledger would have: the index."""
    for path in cli_env.state.glob("ledger.db*"):
        path.unlink()


@pytest.fixture(scope="module")
def older_runs(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> Iterator[CliEnv]:
    """A house with two ended runs that the ledger does not know, a completed one and after it a failed one."""
    made = CliEnv(tmp_path_factory.mktemp("older"), binaries=binaries)
    for scenario in (SAYS_HELLO, FAILS):
        run_to_end(made, scenario)
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


def insert_rows(cli_env: CliEnv, *rows: Spending) -> None:
    """Puts rows into the ledger, as a run does."""
    ledger = Ledger(str(cli_env.state))
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
def env_with_calls(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> Iterator[CliEnv]:
    """A house with the calls of two runs in its ledger, both deleted since."""
    made = CliEnv(tmp_path_factory.mktemp("counted"), binaries=binaries)
    insert_rows(made, *ROWS)
    yield made
    made.close()


def times(count: int) -> dict[str, int]:
    return {name: count * number for name, number in CALL.items()}


def test_nothing_was_used_where_nothing_ran(readonly_env: CliEnv) -> None:
    done = readonly_env.inspan("cost")
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 1)
    assert (costs(readonly_env)["groups"], costs(readonly_env)["prices"]) == ([], None)
    assert costs(readonly_env)["total"] == expected_sums("total", 0, NONE)
    assert not readonly_env.state.exists()


def test_calls_are_summed_with_retries_side_requests_and_unknown_prices_apart(env_with_calls: CliEnv) -> None:
    found = costs(env_with_calls)
    whole = part(2, 6, times(4), cost_usd=0.75, cost_kind="partial", calls_without_tokens=1, calls_without_cost=2)
    main = part(2, 4, times(2), cost_usd=0.5, cost_kind="partial", calls_without_tokens=1, calls_without_cost=1)
    assert found["total"] == {
        "name": "total",
        **whole,
        "scripted_runs": 0,
        "scripted_usd": 0.0,
        "sources": {"gateway": whole, "agent": part()},
        "roles": {
            "main": main,
            "side": part(1, 1, times(1), cost_kind="unknown", calls_without_cost=1),
            "retry": part(1, 1, times(1), cost_usd=0.25, cost_kind="paid"),
        },
    }
    assert [(each["name"], each["calls"], each["cost_usd"]) for each in found["groups"]] == [
        ("one", 3, 0.5),
        ("two", 3, 0.25),
    ]


def test_what_is_known_of_calls_is_told_in_words(env_with_calls: CliEnv) -> None:
    prices = costs(env_with_calls)["prices"]
    assert (prices["name"], prices["version"]) == ("genai-prices", find_list_version())
    head, one, two, total, *notes = env_with_calls.inspan("cost").stdout.splitlines()
    assert head.split() == ["AGENT", *HEADS]
    assert one.split(maxsplit=8) == ["one", "1", "3", "300", "21", "60", "30", "9", "$0.50 + unknown for 1 call"]
    assert two.split(maxsplit=8)[-1] == "$0.25 + unknown for 1 call"
    assert total.split(maxsplit=8)[-1] == "$0.75 + unknown for 2 calls"
    assert notes == [
        "Counted by the gateway: 6 calls of 2 runs.",
        "Retries: 1 call, 137 tokens, cost: $0.25.",
        "Side requests: 1 call, 137 tokens, cost: unknown.",
        "Tokens were not stated in the answers to 1 call.",
        f"Prices: genai-prices {find_list_version()}, newest price of {prices['newest']}.",
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
def test_calls_are_grouped_as_asked(env_with_calls: CliEnv, by: str, names: list[str]) -> None:
    found = costs(env_with_calls, "--by", by)
    assert [group["name"] for group in found["groups"]] == names
    assert sum(group["calls"] for group in found["groups"]) == 6


def test_only_calls_since_a_moment_count(env_with_calls: CliEnv) -> None:
    assert costs(env_with_calls, "--since", "2026-11-02")["total"]["calls"] == 3
    assert costs(env_with_calls, "--since", "2999-01-01")["total"] == expected_sums("total", 0, NONE)


def test_a_run_is_counted_by_the_gateway_or_told_by_its_agent_and_never_both(ended_run: EndedRun) -> None:
    cli_env, run_id = ended_run
    forget_calls(cli_env)
    insert_rows(
        cli_env, call(1, run_id=run_id), call(0, run_id=run_id, source="agent", nano=9), call(0, source="agent")
    )
    found = costs(cli_env)["total"]
    assert (found["runs"], found["calls"], found["cost_usd"]) == (2, 1, 0.5)
    assert found["sources"]["agent"] == part(1, 0, CALL, cost_usd=0.25, cost_kind="paid")


def test_a_deleted_run_stays_in_the_sums(ended_run: EndedRun) -> None:
    cli_env, run_id = ended_run
    forget_calls(cli_env)
    insert_rows(cli_env, call(1, run_id=run_id))
    before = costs(cli_env)
    assert cli_env.inspan("rm", run_id).returncode == 0
    assert costs(cli_env) == before


def test_a_model_without_a_price_costs_an_unknown_amount_and_not_zero(cli_env: CliEnv) -> None:
    insert_rows(cli_env, call(1, nano=None), call(2, nano=None))
    total = costs(cli_env)["total"]
    assert (total["cost_usd"], total["cost_kind"], total["calls_without_cost"]) == (None, "unknown", 2)
    assert cli_env.inspan("cost").stdout.splitlines()[1].split(maxsplit=8)[-1] == "unknown"


def test_what_a_script_answered_was_never_paid(cli_env: CliEnv) -> None:
    insert_rows(cli_env, call(1, scripted=True), call(1, **OTHER))
    found = costs(cli_env)["total"]
    assert (found["cost_usd"], found["cost_kind"], found["not_paid_usd"]) == (0.25, "paid", 0.25)
    assert (found["scripted_runs"], found["scripted_usd"]) == (1, 0.25)
    _, one, other, total, *notes = cli_env.inspan("cost").stdout.splitlines()
    said = [line.split(maxsplit=8)[-1] for line in (one, other, total)]
    assert said == ["not paid ($0.25 at list prices)", "$0.25", "$0.25; not paid: $0.25"]
    assert "A script or a cassette answered 1 run: not paid ($0.25 at list prices)." in notes


def test_a_ledger_that_is_none_is_named_with_the_next_step(cli_env: CliEnv) -> None:
    cli_env.state.mkdir(mode=0o700)
    (cli_env.state / "ledger.db").write_bytes(b"no database at all, " * 300)
    refusal = expect_refusal(cli_env, "cost")
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert str(cli_env.state / "ledger.db") in refusal.message
    assert refusal.next


def test_tokens_are_summed_and_a_cost_that_nobody_told_is_not_reported(older_runs: CliEnv) -> None:
    # The second run failed before its model told any tokens.
    one = expected_sums("scripted", 2, CALL, tokens_not_reported=1)
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
    assert line.split(maxsplit=8) == ["scripted", "2", "0", "100", "7", "20", "10", "3", "not paid"]
    assert notes == ["Tokens were not reported by 1 run.", "A script or a cassette answered 2 runs: not paid."]


@pytest.mark.parametrize("by", ["run", "day", "project", "model"])
def test_groups_are_made_as_asked(older_runs: CliEnv, by: str) -> None:
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
    words = [make_short_name(name) for name in names[by]] if by == "run" else names[by]
    assert shown == [by.upper(), *words, *(["total"] if len(names[by]) > 1 else []), "Tokens", "A"]


def test_a_run_by_itself_without_any_tokens_shows_none(older_runs: CliEnv) -> None:
    failed = json.loads(older_runs.inspan("ps", "-a", "--json").stdout)["runs"][0]["run_id"]
    group = costs(older_runs, "--by", "run")["groups"][0]
    assert group == expected_sums(failed, 1, NONE, tokens_not_reported=1)
    line = older_runs.inspan("cost", "--by", "run").stdout.splitlines()[1]
    assert line.split(maxsplit=8) == [make_short_name(failed), "1", "0", "-", "-", "-", "-", "-", "not paid"]


def test_only_runs_since_a_moment_count(older_runs: CliEnv) -> None:
    assert costs(older_runs, "--since", "2020-01-01")["total"]["runs"] == 2
    assert costs(older_runs, "--since", "4w")["total"]["runs"] == 2
    assert costs(older_runs, "--since", "2999-01-01")["total"]["runs"] == 0
    assert costs(older_runs, "--since", "0m")["total"]["runs"] == 0
    assert costs(older_runs, "--since", "1970-01-02")["since"] == 86400.0


@pytest.mark.parametrize("moment", ["soon", "7", "-7d", "1y", "2026-11-31", "2026-1-1", "nand", ""])
def test_what_is_no_moment_is_refused(readonly_env: CliEnv, moment: str) -> None:
    refusal = expect_refusal(readonly_env, "cost", "--since", moment)
    assert (refusal.exit_code, refusal.code) == (2, "usage")
    assert "'--since'" in refusal.message
    assert repr(moment) in refusal.message
    assert "7d" in refusal.message


def test_what_makes_no_group_is_refused(readonly_env: CliEnv) -> None:
    refusal = expect_refusal(readonly_env, "cost", "--by", "mood")
    assert (refusal.exit_code, refusal.code) == (2, "usage")
    assert "'agent', 'model', 'run', 'day', 'project', 'session', 'task', 'role'" in refusal.message


def test_what_an_agent_reports_of_a_scripted_model_is_no_cost(cli_env: CliEnv) -> None:
    claude = cli_env.run("claude", SAYS_HELLO)
    assert claude.select_events("turn_completed")[0]["cost_usd"] > 0
    run_to_end(cli_env)
    forget_calls(cli_env)
    found = costs(cli_env)
    assert [(each["name"], each["cost_usd"], each["cost_kind"]) for each in (*found["groups"], found["total"])] == [
        ("claude", None, "not_paid"),
        ("scripted", None, "not_paid"),
        ("total", None, "not_paid"),
    ]
    *_, one, other, total, note = cli_env.inspan("cost").stdout.splitlines()
    assert [line.split("  ")[-1] for line in (one, other, total)] == ["not paid"] * 3
    assert note == "A script or a cassette answered 2 runs: not paid."
    model = claude.select_events("thread_started")[0]["model"]
    assert [group["name"] for group in costs(cli_env, "--by", "model")["groups"]] == [model, "scripted"]


def test_a_living_run_counts_with_what_it_has_used_so_far(ended_run: EndedRun) -> None:
    cli_env, _ = ended_run
    start_waiting_run(cli_env)
    found = costs(cli_env)["total"]
    assert {name: found[name] for name in ("runs", *CALL)} == {"runs": 2, **times(2)}
    release_tool(cli_env)


def test_a_run_that_is_being_closed_is_counted_once(cli_env: CliEnv) -> None:
    folder = open_folder(str(cli_env.folder(run_to_end(cli_env))))
    mark_active(str(cli_env.state), folder)
    lock = lock_run(folder)
    try:
        found = costs(cli_env)["total"]
        assert {name: found[name] for name in ("runs", *CALL)} == {"runs": 1, **CALL}
    finally:
        os.close(lock)


def downgrade_index(cli_env: CliEnv) -> None:
    """Makes the index one of an inspan that knew less."""
    with sqlite3.connect(cli_env.state / "index.db") as database:
        database.execute("ALTER TABLE run DROP COLUMN input")
        database.execute("PRAGMA user_version = 2")
    database.close()


@pytest.mark.parametrize("command", ["ps -aq", "cost --by run"])
def test_an_index_of_an_older_inspan_fills_itself_anew(cli_env: CliEnv, command: str) -> None:
    for scenario in (SAYS_HELLO, FAILS):
        run_to_end(cli_env, scenario)
    before = cli_env.inspan(*command.split()).stdout
    downgrade_index(cli_env)
    done = cli_env.inspan(*command.split())
    assert (done.returncode, done.stdout, done.stderr) == (0, before, "")
    forget_calls(cli_env)
    assert costs(cli_env)["total"] == expected_sums("total", 2, CALL, tokens_not_reported=1)


def test_an_index_of_an_older_inspan_is_told_where_a_run_is_looked_up_and_heals_once(ended_run: EndedRun) -> None:
    cli_env, run_id = ended_run
    downgrade_index(cli_env)
    refusal = parse_refusal(cli_env.inspan("show", run_id, "--json"))
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert "another version of inspan (2, not 6)" in refusal.message
    assert "`inspan reindex`" in refusal.next
    assert cli_env.inspan("reindex").stdout == "1 run indexed\n"
    assert cli_env.inspan("show", run_id).returncode == 0


def test_a_run_that_ends_beside_an_index_of_an_older_inspan_is_not_forgotten(ended_run: EndedRun) -> None:
    cli_env, first = ended_run
    downgrade_index(cli_env)
    run_id = cli_env.detach("scripted", SAYS_HELLO)
    cli_env.inspan("wait", run_id)
    rows = json.loads(cli_env.inspan("ps", "-a", "--json").stdout)["runs"]
    assert [(row["run_id"], row["outcome"], row["tokens"]) for row in rows] == [
        (run_id, "completed", CALL_TOKENS),
        (first, "completed", CALL_TOKENS),
    ]
    assert cli_env.inspan("show", first).returncode == 0
