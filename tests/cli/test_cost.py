"""`cost`: what runs have used, as the agents report it; and an index of an older inspan that fills itself anew."""

import json
import os
import sqlite3
from datetime import UTC, datetime
from typing import Any

import pytest

from inspan.stores.folder import mark_active, open_folder, take_lock
from tests.house import House

from .refusal import refusal_of, told
from .scenes import CALL_TOKENS, FAILS, SAYS_HELLO, ended_run, let_go, waiting_run

# One call of a scenario that does not say otherwise.
CALL = {"input": 100, "output": 7, "cache_read": 20, "cache_write": 10, "reasoning": 3}
NONE: dict[str, Any] = dict.fromkeys(CALL)


def costs(house: House, *arguments: str) -> dict[str, Any]:
    done = house.inspan("cost", *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    value = json.loads(done.stdout)
    assert value.keys() == {"schema", "by", "since", "groups", "total"}
    return value


def sums(name: str, runs: int, tokens: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Sums of runs of which none reported a cost, unless told otherwise."""
    usual = {"tokens_not_reported": 0, "cost_usd": None, "cost_not_reported": runs, "scripted_runs": runs}
    return {"name": name, "runs": runs, **tokens, **usual, "scripted_usd": 0.0, **more}


def test_nothing_was_used_where_nothing_ran(untouched: House) -> None:
    done = untouched.inspan("cost")
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 1)
    assert costs(untouched)["groups"] == []
    assert costs(untouched)["total"] == sums("total", 0, NONE)
    assert not untouched.state.exists()


def test_tokens_are_summed_and_a_cost_that_nobody_told_is_not_reported(old_runs: House) -> None:
    # The second run failed before its model told any tokens.
    one = sums("scripted", 2, CALL, tokens_not_reported=1)
    assert costs(old_runs) == {
        "schema": 1,
        "by": "agent",
        "since": None,
        "groups": [one],
        "total": {**one, "name": "total"},
    }
    head, line, note = old_runs.inspan("cost").stdout.splitlines()
    assert head.split() == ["AGENT", "RUNS", "INPUT", "OUTPUT", "CACHE-READ", "CACHE-WRITE", "REASONING", "COST"]
    assert line.split(maxsplit=7) == ["scripted", "2", "100", "7", "20", "10", "3", "not reported"]
    assert note == "Tokens were not reported by 1 run."


@pytest.mark.parametrize("by", ["run", "day", "project", "model"])
def test_groups_are_made_as_asked(old_runs: House, by: str) -> None:
    rows = json.loads(old_runs.inspan("ps", "-a", "--json").stdout)["runs"]
    days = sorted({f"{datetime.fromtimestamp(row['started_at'], UTC):%Y-%m-%d}" for row in rows}, reverse=True)
    names = {
        "run": [row["run_id"] for row in rows],
        "day": days,
        "project": [rows[0]["project"]],
        "model": ["scripted"],
    }
    found = costs(old_runs, "--by", by)
    assert found["by"] == by
    assert [group["name"] for group in found["groups"]] == names[by]
    shown = [line.split()[0] for line in old_runs.inspan("cost", "--by", by).stdout.splitlines()]
    assert shown == [by.upper(), *names[by], *(["total"] if len(names[by]) > 1 else []), "Tokens"]


def test_a_run_by_itself_without_any_tokens_shows_none(old_runs: House) -> None:
    failed = json.loads(old_runs.inspan("ps", "-a", "--json").stdout)["runs"][0]["run_id"]
    group = costs(old_runs, "--by", "run")["groups"][0]
    assert group == sums(failed, 1, NONE, tokens_not_reported=1)
    line = old_runs.inspan("cost", "--by", "run").stdout.splitlines()[1]
    assert line.split(maxsplit=7) == [failed, "1", "-", "-", "-", "-", "-", "not reported"]


def test_only_runs_since_a_moment_count(old_runs: House) -> None:
    assert costs(old_runs, "--since", "2020-01-01")["total"]["runs"] == 2
    assert costs(old_runs, "--since", "4w")["total"]["runs"] == 2
    assert costs(old_runs, "--since", "2999-01-01")["total"]["runs"] == 0
    assert costs(old_runs, "--since", "0m")["total"]["runs"] == 0
    assert costs(old_runs, "--since", "1970-01-02")["since"] == 86400.0


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
    assert "'agent', 'model', 'run', 'day', 'project'" in refusal.message


def test_the_cost_that_an_agent_reports_is_summed_beside_those_who_report_none(house: House) -> None:
    claude = house.run("claude", SAYS_HELLO)
    reported = claude.ended["cost_usd"]
    ended_run(house)
    found = costs(house)
    assert [(group["name"], group["cost_usd"], group["cost_not_reported"]) for group in found["groups"]] == [
        ("claude", reported, 0),
        ("scripted", None, 1),
    ]
    assert (found["total"]["cost_usd"], found["total"]["cost_not_reported"]) == (reported, 1)
    _, one, other, total, note = house.inspan("cost").stdout.splitlines()
    assert one.endswith(f"  ${reported:.4f}")
    assert other.endswith("  not reported")
    assert total.endswith(f"  ${reported:.4f}, not reported by 1 run")
    assert note == f"A scripted model answered 2 runs: ${reported:.4f} was never paid."
    model = claude.of("thread_started")[0]["model"]
    assert [group["name"] for group in costs(house, "--by", "model")["groups"]] == [model, "scripted"]


def test_a_living_run_counts_with_what_it_has_used_so_far(house: House) -> None:
    ended_run(house)
    waiting_run(house)
    assert costs(house)["total"] == sums("total", 2, {name: 2 * count for name, count in CALL.items()})
    let_go(house)


def test_a_run_that_is_being_closed_is_counted_once(house: House) -> None:
    folder = open_folder(str(house.folder(ended_run(house))))
    mark_active(str(house.state), folder)
    lock = take_lock(folder)
    try:
        assert costs(house)["total"] == sums("total", 1, CALL)
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
    assert costs(house)["total"] == sums("total", 2, CALL, tokens_not_reported=1)


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
