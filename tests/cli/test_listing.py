"""`ps`, `rm` and `reindex`: what is listed, what is deleted, and a list that can be made anew."""

import json
from typing import Any

import pytest

from tests.house import House

from .refusal import refusal_of
from .scenes import CALL_TOKENS, ended_run, let_go, waiting_run


def listed(house: House, *arguments: str) -> list[dict[str, Any]]:
    done = house.inspan("ps", *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    value = json.loads(done.stdout)
    assert value.keys() == {"schema", "runs"}
    assert value["schema"] == 1
    return value["runs"]


def test_nothing_is_listed_where_nothing_ran(untouched: House) -> None:
    for arguments in ((), ("-a",)):
        done = untouched.inspan("ps", *arguments)
        assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
        assert untouched.inspan("ps", "-q", *arguments).stdout == ""
        assert listed(untouched, *arguments) == []
    assert not untouched.state.exists()


def test_ended_runs_are_listed_on_demand_newest_first(old_runs: House) -> None:
    assert listed(old_runs) == []
    failed, completed = listed(old_runs, "-a")
    assert failed["run_id"] > completed["run_id"]
    expected = {"outcome": "completed", "reason": "done", "tokens": CALL_TOKENS, "alive": False, "prompt": "do it"}
    assert expected.items() <= completed.items()
    assert {"outcome": "failed", "reason": "overloaded", "tokens": 0}.items() <= failed.items()
    assert completed["path"] == str(old_runs.folder(completed["run_id"]))


def test_the_table_has_a_head_and_a_line_for_each_run(old_runs: House) -> None:
    head, failed, completed = old_runs.inspan("ps", "-a").stdout.splitlines()
    assert head.split() == ["RUN", "AGENT", "STATE", "TIME", "TOKENS", "COST", "AGE", "PROMPT"]
    assert "failed (overloaded)" in failed
    assert completed.split()[1:3] == ["scripted", "completed"]
    assert f"  {CALL_TOKENS} " in completed


def test_as_many_runs_are_listed_as_wanted(old_runs: House) -> None:
    newest, oldest = old_runs.inspan("ps", "-aq").stdout.split()
    assert old_runs.inspan("ps", "-aqn", "1").stdout == f"{newest}\n"
    assert old_runs.inspan("ps", "-aqn", "9").stdout == f"{newest}\n{oldest}\n"


def test_a_living_run_is_listed_with_what_it_has_spent_so_far(house: House) -> None:
    run_id = waiting_run(house)
    (run,) = listed(house)
    expected = {"run_id": run_id, "alive": True, "outcome": "running", "reason": "", "tokens": CALL_TOKENS}
    assert expected.items() <= run.items()
    line = house.inspan("ps").stdout.splitlines()[1]
    assert line.split()[:3] == [run_id, "scripted", "running"]
    let_go(house)
    house.inspan("wait", run_id)
    assert listed(house) == []


def test_living_runs_come_before_ended_ones(house: House) -> None:
    ended = ended_run(house)
    living = waiting_run(house)
    assert [(run["run_id"], run["alive"]) for run in listed(house, "-a")] == [(living, True), (ended, False)]
    assert [run["run_id"] for run in listed(house, "-a", "-n", "1")] == [living]
    let_go(house)


def test_a_living_run_is_not_deleted(house: House) -> None:
    run_id = waiting_run(house)
    done = house.inspan("rm", run_id)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"inspan: Run {run_id} is still running.\n  → `inspan stop {run_id}` first.\n"
    assert house.inspan("ps", "-q").stdout == f"{run_id}\n"
    let_go(house)
    assert house.inspan("wait", run_id).returncode == 0


def test_a_deleted_run_is_gone_with_its_session(house: House) -> None:
    run_id = ended_run(house)
    session = house.state / "sessions" / run_id
    assert session.is_dir()
    done = house.inspan("rm", run_id)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{run_id}\n", "")
    assert list(house.state.glob("projects/*/*/runs/*")) == []
    assert not session.exists()
    assert listed(house, "-a") == []
    assert refusal_of(house, "show", run_id).code == "run_not_found"
    assert json.loads(house.inspan("reindex", "--json").stdout) == {"schema": 1, "runs": 0, "problems": []}


def test_several_runs_are_deleted_at_once(house: House) -> None:
    ids = [ended_run(house) for _ in range(3)]
    done = house.inspan("rm", *ids[:2], "--json")
    assert json.loads(done.stdout) == {"schema": 1, "removed": ids[:2]}
    assert house.inspan("ps", "-aq").stdout == f"{ids[2]}\n"


@pytest.mark.parametrize("loss", ["gone", "corrupt"])
def test_the_list_can_be_made_anew_from_the_logs(house: House, loss: str) -> None:
    for _ in range(2):
        ended_run(house)
    before = listed(house, "-a")
    for path in house.state.glob("index.db*"):
        path.unlink()
    if loss == "corrupt":
        (house.state / "index.db").write_bytes(b"\x00junk" * 1000)
    done = house.inspan("reindex")
    assert (done.returncode, done.stdout, done.stderr) == (0, "2 runs indexed\n", "")
    assert listed(house, "-a") == before


def test_a_list_can_be_made_where_nothing_ran(house: House) -> None:
    assert house.inspan("reindex").stdout == "0 runs indexed\n"
