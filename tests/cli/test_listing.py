"""`ps`, `rm` and `reindex`: what is listed, what is deleted, and a list that can be made anew."""

import json
from typing import Any

import pytest

from inspan.protocol.ids import make_short_name
from tests.cli_env import CliEnv

from .refusal import expect_refusal
from .scenarios import CALL_TOKENS, EndedRun, release_tool, run_to_end, start_waiting_run


def list_runs_json(cli_env: CliEnv, *arguments: str) -> list[dict[str, Any]]:
    done = cli_env.inspan("ps", *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    value = json.loads(done.stdout)
    assert value.keys() == {"schema", "runs"}
    assert value["schema"] == 1
    return value["runs"]


def test_nothing_is_listed_where_nothing_ran(readonly_env: CliEnv) -> None:
    for arguments in ((), ("-a",)):
        done = readonly_env.inspan("ps", *arguments)
        assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
        assert readonly_env.inspan("ps", "-q", *arguments).stdout == ""
        assert list_runs_json(readonly_env, *arguments) == []
    assert not readonly_env.state.exists()


def test_ended_runs_are_listed_on_demand_newest_first(old_runs: CliEnv) -> None:
    assert list_runs_json(old_runs) == []
    failed, completed = list_runs_json(old_runs, "-a")
    assert failed["run_id"] > completed["run_id"]
    expected = {"outcome": "completed", "reason": "done", "tokens": CALL_TOKENS, "alive": False, "prompt": "do it"}
    expected |= {"state": None}
    assert expected.items() <= completed.items()
    assert {"outcome": "failed", "reason": "overloaded", "tokens": 0}.items() <= failed.items()
    assert completed["path"] == str(old_runs.folder(completed["run_id"]))


def test_the_table_has_a_head_and_a_line_for_each_run(old_runs: CliEnv) -> None:
    head, failed, completed = old_runs.inspan("ps", "-a").stdout.splitlines()
    assert head.split() == ["RUN", "STATE", "AGENT", "FOLDER", "TIME", "TOKENS", "COST", "AGE", "PROMPT"]
    assert "✘ failed (overloaded)" in failed
    short = make_short_name(old_runs.inspan("ps", "-aq").stdout.split()[1])
    assert completed.split()[:5] == [short, "✔", "completed", "scripted", str(old_runs.work)]
    assert f"  {CALL_TOKENS} " in completed


def test_as_many_runs_are_listed_as_wanted(old_runs: CliEnv) -> None:
    newest, oldest = old_runs.inspan("ps", "-aq").stdout.split()
    assert old_runs.inspan("ps", "-aqn", "1").stdout == f"{newest}\n"
    assert old_runs.inspan("ps", "-aqn", "9").stdout == f"{newest}\n{oldest}\n"


def test_a_living_run_is_listed_with_what_it_has_spent_so_far(cli_env: CliEnv) -> None:
    run_id = start_waiting_run(cli_env)
    (run,) = list_runs_json(cli_env)
    expected = {"run_id": run_id, "alive": True, "outcome": "running", "reason": "", "tokens": CALL_TOKENS}
    assert expected.items() <= run.items()
    line = cli_env.inspan("ps").stdout.splitlines()[1]
    assert line.split()[:4] == [make_short_name(run_id), "●", "working:", "touch"]
    assert (run["state"]["status"], run["state"]["tool"]) == ("working", "bash")
    release_tool(cli_env)
    cli_env.inspan("wait", run_id)
    assert list_runs_json(cli_env) == []
    assert cli_env.inspan("ps").stderr == "inspan: no run is running: `inspan ps -a` lists the ended ones\n"


def test_living_runs_come_before_ended_ones(ended_run: EndedRun) -> None:
    cli_env, ended = ended_run
    living = start_waiting_run(cli_env)
    assert [(run["run_id"], run["alive"]) for run in list_runs_json(cli_env, "-a")] == [(living, True), (ended, False)]
    assert [run["run_id"] for run in list_runs_json(cli_env, "-a", "-n", "1")] == [living]
    release_tool(cli_env)


def test_a_living_run_is_not_deleted(cli_env: CliEnv) -> None:
    run_id = start_waiting_run(cli_env)
    done = cli_env.inspan("rm", run_id)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"inspan: Run {run_id} is still running.\n  → `inspan stop {run_id}` first.\n"
    assert cli_env.inspan("ps", "-q").stdout == f"{run_id}\n"
    release_tool(cli_env)
    assert cli_env.inspan("wait", run_id).returncode == 0


def test_a_deleted_run_is_gone_with_its_session(ended_run: EndedRun) -> None:
    cli_env, run_id = ended_run
    session = cli_env.state / "sessions" / run_id
    assert session.is_dir()
    done = cli_env.inspan("rm", run_id)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{run_id}\n", "")
    assert list(cli_env.state.glob("projects/*/*/runs/*")) == []
    assert not session.exists()
    assert list_runs_json(cli_env, "-a") == []
    assert expect_refusal(cli_env, "show", run_id).code == "run_not_found"
    assert json.loads(cli_env.inspan("reindex", "--json").stdout) == {"schema": 1, "runs": 0, "problems": []}


def test_several_runs_are_deleted_at_once(cli_env: CliEnv) -> None:
    ids = [run_to_end(cli_env) for _ in range(3)]
    done = cli_env.inspan("rm", *ids[:2], "--yes", "--json")
    assert json.loads(done.stdout) == {"schema": 1, "dry_run": False, "removed": ids[:2], "worktrees": []}
    assert cli_env.inspan("ps", "-aq").stdout == f"{ids[2]}\n"


@pytest.mark.parametrize("loss", ["gone", "corrupt"])
def test_the_list_can_be_made_anew_from_the_logs(cli_env: CliEnv, loss: str) -> None:
    for _ in range(2):
        run_to_end(cli_env)
    before = list_runs_json(cli_env, "-a")
    for path in cli_env.state.glob("index.db*"):
        path.unlink()
    if loss == "corrupt":
        (cli_env.state / "index.db").write_bytes(b"\x00junk" * 1000)
    done = cli_env.inspan("reindex")
    assert (done.returncode, done.stdout, done.stderr) == (0, "2 runs indexed\n", "")
    assert list_runs_json(cli_env, "-a") == before


def test_a_list_can_be_made_where_nothing_ran(cli_env: CliEnv) -> None:
    assert cli_env.inspan("reindex").stdout == "0 runs indexed\n"
