"""`prune`: what is old goes, with all that belongs to it; what lives, is young or is no run's stays."""

import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inspan.runs.projects import project_of
from inspan.stores.orphans import disk_bytes
from inspan.stores.run_folder import lock_run, open_folder
from tests.cli_env import CliEnv
from tests.deep_tree import nest_folders

from .refusal import expect_refusal
from .scenarios import FAILS, SAYS_HELLO, EndedRun, release_tool, run_to_end, start_waiting_run

NOTHING: dict[str, Any] = {
    **{kind: [] for kind in ("runs", "sessions", "sockets", "drafts", "boxes", "worktrees", "problems")},
    "projects": {},
    "freed_bytes": 0,
}
DAY_S = 86400.0


def age_runs(cli_env: CliEnv, *, days: dict[str, float]) -> None:
    """Lets runs have begun so many days ago."""
    for run_id, age in days.items():
        path = cli_env.folder(run_id) / "run.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "created_at": time.time() - age * DAY_S}))
    assert cli_env.inspan("reindex").returncode == 0


def run_prune(cli_env: CliEnv, *arguments: str, code: int = 0) -> dict[str, Any]:
    sure = () if "--dry-run" in arguments else ("--yes",)
    done = cli_env.inspan("prune", *arguments, *sure, "--json")
    assert (done.returncode, done.stderr) == (code, "")
    value = json.loads(done.stdout)
    assert value.pop("schema") == 1
    assert value.pop("dry_run") == ("--dry-run" in arguments)
    return value


def list_run_ids(cli_env: CliEnv) -> list[str]:
    return cli_env.inspan("ps", "-aq").stdout.split()


def test_nothing_is_deleted_where_nothing_is(readonly_env: CliEnv) -> None:
    done = readonly_env.inspan("prune")
    assert (done.returncode, done.stdout, done.stderr) == (0, "nothing deleted; 0 bytes freed\n", "")
    assert run_prune(readonly_env, "--dry-run") == NOTHING
    assert not readonly_env.state.exists()


def test_runs_older_than_thirty_days_go_with_their_sessions(cli_env: CliEnv) -> None:
    old, young = run_to_end(cli_env), run_to_end(cli_env)
    age_runs(cli_env, days={old: 30.1, young: 29.9})
    paths = [cli_env.folder(old), cli_env.state / "sessions" / old]
    size = sum(disk_bytes(str(path)) for path in paths)
    whose = {"projects": {project_of(str(cli_env.work)): 1}}
    expected = {**NOTHING, "runs": [old], "sessions": [old], "freed_bytes": size, **whose}
    assert run_prune(cli_env, "--dry-run") == expected
    assert list_run_ids(cli_env) == [young, old]
    assert run_prune(cli_env) == expected
    assert [path.exists() for path in paths] == [False, False]
    assert list_run_ids(cli_env) == [young]
    assert cli_env.inspan("show", young).returncode == 0
    assert (cli_env.state / "sessions" / young).is_dir()
    assert run_prune(cli_env) == NOTHING


def test_folders_that_are_nested_very_deep_go_with_their_run_and_keep_none(cli_env: CliEnv) -> None:
    runs = [run_to_end(cli_env), run_to_end(cli_env)]
    with nest_folders(cli_env.folder(runs[0]) / "agent/deep", file="last"):
        with nest_folders(cli_env.state / "sessions" / runs[0] / "config/deep", file="last"):
            assert run_prune(cli_env, "--older-than", "0d")["runs"] == runs[::-1]
    assert list_run_ids(cli_env) == []


def test_what_is_deleted_and_what_would_be_is_said(ended_run: EndedRun) -> None:
    cli_env, run_id = ended_run
    age_runs(cli_env, days={run_id: 31})
    head, run, session, would = cli_env.inspan("prune", "--dry-run").stdout.splitlines()
    assert head.split() == ["WHAT", "NAME", "PROJECT", "AGE", "SIZE"]
    assert run.split()[:4] == ["run", run_id, project_of(str(cli_env.work)), "31d"]
    assert session.split()[:4] == ["session", run_id, "-", "-"]
    done = cli_env.inspan("prune", "--yes").stdout.splitlines()
    assert done[:3] == [head, run, session]
    said = "1 run, 1 session deleted; "
    assert done[3].startswith(said)
    assert would == done[3].replace("deleted", "would be deleted").replace("freed", "would be freed")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--older-than", "7d"), [2, 3]),
        (("--older-than", "0d"), [0, 1, 2, 3]),
        (("--older-than", "4w"), [3]),
        (("--older-than", "2020-01-01"), []),
        (("--older-than", "0d", "--keep", "1"), [1, 2, 3]),
        (("--older-than", "7d", "--keep", "3"), [3]),
        (("--older-than", "7d", "--keep", "9"), []),
        (("--older-than", "0d", "--outcome", "failed"), [1]),
        (("--older-than", "0d", "--outcome", "failed", "--outcome", "completed"), [0, 1, 2, 3]),
        (("--older-than", "0d", "--outcome", "lost"), []),
        (("--older-than", "0d", "--project", "boat"), [2, 3]),
        # Of those that match, the newest one stays.
        (("--older-than", "0d", "--project", "boat", "--keep", "1"), [3]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]  words
)
def test_runs_are_chosen_by_age_number_outcome_and_project(
    four_runs: tuple[CliEnv, list[str]], arguments: tuple[str, ...], expected: list[int]
) -> None:
    cli_env, ids = four_runs
    everywhere = () if "--project" in arguments else ("--all-projects",)
    assert run_prune(cli_env, "--dry-run", *everywhere, *arguments)["runs"] == [ids[number] for number in expected]


@pytest.fixture(scope="module")
def four_runs(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> Iterator[tuple[CliEnv, list[str]]]:
    """Runs of 0, 1, 10 and 40 days, newest first: the second failed, the last two are of the project boat."""
    made = CliEnv(tmp_path_factory.mktemp("four"), binaries=binaries)
    ids: list[str] = []
    for scenario, project in ((SAYS_HELLO, "boat"), (SAYS_HELLO, "boat"), (FAILS, "shed"), (SAYS_HELLO, "shed")):
        ids.insert(0, made.detach("scripted", scenario, "--project", project))
        made.inspan("wait", ids[0])
    age_runs(made, days=dict(zip(ids, (0.001, 1.0, 10.0, 40.0), strict=True)))
    yield made, ids
    made.close()


def test_a_living_run_is_never_touched(cli_env: CliEnv) -> None:
    run_id = start_waiting_run(cli_env)
    assert run_prune(cli_env, "--older-than", "2999-01-01") == NOTHING
    assert (cli_env.state / "sessions" / run_id).is_dir()
    assert cli_env.inspan("ps", "-q").stdout == f"{run_id}\n"
    release_tool(cli_env)
    assert cli_env.inspan("wait", run_id).returncode == 0


def test_an_ended_run_whose_owner_is_not_done_with_it_stays(ended_run: EndedRun) -> None:
    cli_env, run_id = ended_run
    lock = lock_run(open_folder(str(cli_env.folder(run_id))))
    try:
        assert run_prune(cli_env, "--older-than", "0d") == NOTHING
    finally:
        os.close(lock)
    assert list_run_ids(cli_env) == [run_id]


def test_leftovers_go_whatever_their_runs_age(cli_env: CliEnv) -> None:
    run_id, deleted = run_to_end(cli_env), run_to_end(cli_env)
    shutil.rmtree(cli_env.folder(deleted))
    cli_env.inspan("reindex")
    draft = cli_env.folder(run_id) / "run.json.1.draft"
    draft.write_text("{")
    deaf = Path(cli_env.env["XDG_RUNTIME_DIR"]) / "inspan" / _socket_name(cli_env, run_id)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(deaf))
    for path in (draft, deaf):
        os.utime(path, (time.time() - 3600, time.time() - 3600))
    found = run_prune(cli_env, "--dry-run")
    names = {"sessions": [deleted], "drafts": [draft.name], "sockets": [deaf.name]}
    assert {kind: found[kind] for kind in ("runs", *names)} == {"runs": [], **names}
    assert draft.exists() and deaf.exists()
    assert run_prune(cli_env) == found
    assert not draft.exists() and not deaf.exists()
    assert os.listdir(cli_env.state / "sessions") == [run_id]
    assert run_prune(cli_env) == NOTHING


def _socket_name(cli_env: CliEnv, run_id: str) -> str:
    return os.path.basename(open_folder(str(cli_env.folder(run_id))).socket)


def test_a_run_whose_folder_is_gone_is_forgotten(ended_run: EndedRun) -> None:
    cli_env, run_id = ended_run
    shutil.rmtree(cli_env.folder(run_id))
    assert run_prune(cli_env, "--older-than", "0d")["runs"] == [run_id]
    assert list_run_ids(cli_env) == []


def test_a_session_stays_until_its_last_run_goes(cli_env: CliEnv) -> None:
    first = cli_env.run("codex", SAYS_HELLO).run_id
    model = cli_env.scenario(SAYS_HELLO)
    cli_env.inspan("run", "go on", "-r", first, "--model-from", model)
    second = list_run_ids(cli_env)[0]
    assert second != first
    assert run_prune(cli_env, "--older-than", "0d", "--keep", "1", "--dry-run")["sessions"] == []
    found = run_prune(cli_env, "--older-than", "0d", "--keep", "1")
    assert (found["runs"], found["sessions"], found["problems"]) == ([first], [], [])
    assert os.listdir(cli_env.state / "sessions") == [first]
    found = run_prune(cli_env, "--older-than", "0d")
    assert (found["runs"], found["sessions"], found["problems"]) == ([second], [first], [])
    assert os.listdir(cli_env.state / "sessions") == []


def test_one_run_that_cannot_be_deleted_does_not_keep_the_others(cli_env: CliEnv) -> None:
    stuck, free = run_to_end(cli_env), run_to_end(cli_env)
    session = cli_env.state / "sessions" / stuck
    shutil.rmtree(session)
    session.write_text("no folder")
    found = run_prune(cli_env, "--older-than", "0d", code=1)
    assert found["runs"] == [free]
    assert [problem.startswith(f"{stuck}: Cannot use ") for problem in found["problems"]] == [True]


def test_a_folder_that_its_owner_may_not_write_to_goes_with_its_run(user_cli_env: CliEnv) -> None:
    run_id = run_to_end(user_cli_env)
    locked = user_cli_env.folder(run_id) / "agent" / "locked"
    locked.mkdir()
    (locked / "file").touch()
    locked.chmod(0o500)
    assert run_prune(user_cli_env, "--older-than", "0d")["runs"] == [run_id]
    assert list_run_ids(user_cli_env) == []


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--older-than", "30"), "usage", ("'--older-than'", "'30'")),
        (("--older-than", "-1d"), "usage", ("'--older-than'", "'-1d'")),
        (("--keep", "-1"), "usage", ("'--keep'", "-1")),
        (("--keep", "many"), "usage", ("'--keep'", "'many'")),
        (("--outcome", "bored"), "usage", ("'--outcome'", "'bored'", "'completed'")),
        (("--project", "nosuch"), "bad_input", ("--project 'nosuch'", "no such project")),
        (("everything",), "usage", ("everything",)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]  words
)
def test_a_choice_that_makes_no_sense_is_refused(
    old_runs: CliEnv, arguments: tuple[str, ...], code: str, says: tuple[str, ...]
) -> None:
    refusal = expect_refusal(old_runs, "prune", *arguments)
    assert (refusal.exit_code, refusal.code) == (2, code)
    assert [words for words in says if words not in refusal.message] == []


def test_a_project_that_was_misspelt_is_named(four_runs: tuple[CliEnv, list[str]]) -> None:
    refusal = expect_refusal(four_runs[0], "prune", "--project", "baot")
    assert refusal.next == "Known projects: boat."


def test_runs_that_are_all_too_young_are_told_with_the_way_to_them(cli_env: CliEnv) -> None:
    run_to_end(cli_env)
    run_to_end(cli_env)
    for words, newer in (
        ((), "2 newer ones"),
        (("--keep", "1"), "1 newer one"),
        (("--older-than", "2d"), "2 newer ones"),
    ):
        done = cli_env.inspan("prune", *words)
        age = "2d" if words[:1] == ("--older-than",) else "30d"
        assert (done.returncode, done.stdout) == (0, "nothing deleted; 0 bytes freed\n")
        assert done.stderr == f"inspan: no run is older than {age}: `--older-than 0d` takes {newer}\n"
    assert cli_env.inspan("prune", "--keep", "2").stderr == ""
