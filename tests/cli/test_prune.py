"""`prune`: what is old goes, with all that belongs to it; what lives, is young or is no run's stays."""

import json
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inspan.stores.folder import open_folder, take_lock
from inspan.stores.leftovers import disk_bytes
from tests.house import House

from .refusal import refusal_of
from .scenes import FAILS, SAYS_HELLO, ended_run, let_go, waiting_run

NOTHING: dict[str, Any] = {"runs": [], "sessions": [], "sockets": [], "drafts": [], "freed_bytes": 0, "problems": []}
DAY_S = 86400.0


@pytest.fixture
def house(house: House) -> Iterator[House]:
    """A house whose sockets are its own, too; their paths must be short."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        house.env["XDG_RUNTIME_DIR"] = name
        yield house


def aged(house: House, *, days: dict[str, float]) -> None:
    """Lets runs have begun so many days ago."""
    for run_id, age in days.items():
        path = house.folder(run_id) / "run.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "created_at": time.time() - age * DAY_S}))
    assert house.inspan("reindex").returncode == 0


def pruned(house: House, *arguments: str, code: int = 0) -> dict[str, Any]:
    done = house.inspan("prune", *arguments, "--json")
    assert (done.returncode, done.stderr) == (code, "")
    value = json.loads(done.stdout)
    assert value.pop("schema") == 1
    assert value.pop("dry_run") == ("--dry-run" in arguments)
    return value


def listed(house: House) -> list[str]:
    return house.inspan("ps", "-aq").stdout.split()


def test_nothing_is_deleted_where_nothing_is(untouched: House) -> None:
    done = untouched.inspan("prune")
    assert (done.returncode, done.stdout, done.stderr) == (0, "nothing deleted; 0 bytes freed\n", "")
    assert pruned(untouched, "--dry-run") == NOTHING
    assert not untouched.state.exists()


def test_runs_older_than_thirty_days_go_with_their_sessions(house: House) -> None:
    old, young = ended_run(house), ended_run(house)
    aged(house, days={old: 30.1, young: 29.9})
    paths = [house.folder(old), house.state / "sessions" / old]
    size = sum(disk_bytes(str(path)) for path in paths)
    expected = {**NOTHING, "runs": [old], "sessions": [old], "freed_bytes": size}
    assert pruned(house, "--dry-run") == expected
    assert listed(house) == [young, old]
    assert pruned(house) == expected
    assert [path.exists() for path in paths] == [False, False]
    assert listed(house) == [young]
    assert house.inspan("show", young).returncode == 0
    assert (house.state / "sessions" / young).is_dir()
    assert pruned(house) == NOTHING


def test_what_is_deleted_and_what_would_be_is_said(house: House) -> None:
    run_id = ended_run(house)
    aged(house, days={run_id: 31})
    head, run, session, would = house.inspan("prune", "--dry-run").stdout.splitlines()
    assert head.split() == ["WHAT", "NAME", "SIZE"]
    assert (run.split()[:2], session.split()[:2]) == (["run", run_id], ["session", run_id])
    done = house.inspan("prune").stdout.splitlines()
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
    four_runs: tuple[House, list[str]], arguments: tuple[str, ...], expected: list[int]
) -> None:
    house, ids = four_runs
    assert pruned(house, "--dry-run", *arguments)["runs"] == [ids[number] for number in expected]


@pytest.fixture(scope="module")
def four_runs(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> Iterator[tuple[House, list[str]]]:
    """Runs of 0, 1, 10 and 40 days, newest first: the second failed, the last two are of the project boat."""
    made = House(tmp_path_factory.mktemp("four"), binaries=binaries)
    ids: list[str] = []
    for scenario, project in ((SAYS_HELLO, "boat"), (SAYS_HELLO, "boat"), (FAILS, "shed"), (SAYS_HELLO, "shed")):
        ids.insert(0, made.detach("scripted", scenario, "--project", project))
        made.inspan("wait", ids[0])
    aged(made, days=dict(zip(ids, (0.001, 1.0, 10.0, 40.0), strict=True)))
    yield made, ids
    made.close()


def test_a_living_run_is_never_touched(house: House) -> None:
    run_id = waiting_run(house)
    assert pruned(house, "--older-than", "2999-01-01") == NOTHING
    assert (house.state / "sessions" / run_id).is_dir()
    assert house.inspan("ps", "-q").stdout == f"{run_id}\n"
    let_go(house)
    assert house.inspan("wait", run_id).returncode == 0


def test_an_ended_run_whose_owner_is_not_done_with_it_stays(house: House) -> None:
    run_id = ended_run(house)
    lock = take_lock(open_folder(str(house.folder(run_id))))
    try:
        assert pruned(house, "--older-than", "0d") == NOTHING
    finally:
        os.close(lock)
    assert listed(house) == [run_id]


def test_leftovers_go_whatever_their_runs_age(house: House) -> None:
    run_id, deleted = ended_run(house), ended_run(house)
    shutil.rmtree(house.folder(deleted))
    house.inspan("reindex")
    draft = house.folder(run_id) / "run.json.1.draft"
    draft.write_text("{")
    deaf = Path(house.env["XDG_RUNTIME_DIR"]) / "inspan" / _socket_name(house, run_id)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(deaf))
    for path in (draft, deaf):
        os.utime(path, (time.time() - 3600, time.time() - 3600))
    found = pruned(house, "--dry-run")
    names = {"sessions": [deleted], "drafts": [draft.name], "sockets": [deaf.name]}
    assert {kind: found[kind] for kind in ("runs", *names)} == {"runs": [], **names}
    assert draft.exists() and deaf.exists()
    assert pruned(house) == found
    assert not draft.exists() and not deaf.exists()
    assert os.listdir(house.state / "sessions") == [run_id]
    assert pruned(house) == NOTHING


def _socket_name(house: House, run_id: str) -> str:
    return os.path.basename(open_folder(str(house.folder(run_id))).socket)


def test_a_run_whose_folder_is_gone_is_forgotten(house: House) -> None:
    run_id = ended_run(house)
    shutil.rmtree(house.folder(run_id))
    assert pruned(house, "--older-than", "0d")["runs"] == [run_id]
    assert listed(house) == []


def test_a_session_stays_until_its_last_run_goes(house: House) -> None:
    first = house.run("codex", SAYS_HELLO).run_id
    model = house.scenario(SAYS_HELLO)
    house.inspan("run", "go on", "-r", first, "--model-from", model)
    second = listed(house)[0]
    assert second != first
    assert pruned(house, "--older-than", "0d", "--keep", "1", "--dry-run")["sessions"] == []
    found = pruned(house, "--older-than", "0d", "--keep", "1")
    assert (found["runs"], found["sessions"], found["problems"]) == ([first], [], [])
    assert os.listdir(house.state / "sessions") == [first]
    found = pruned(house, "--older-than", "0d")
    assert (found["runs"], found["sessions"], found["problems"]) == ([second], [first], [])
    assert os.listdir(house.state / "sessions") == []


def test_one_run_that_cannot_be_deleted_does_not_keep_the_others(user_house: House) -> None:
    stuck, free = ended_run(user_house), ended_run(user_house)
    locked = user_house.folder(stuck) / "agent" / "locked"
    locked.mkdir()
    (locked / "file").touch()
    locked.chmod(0o500)
    try:
        found = pruned(user_house, "--older-than", "0d", code=1)
        assert found["runs"] == [free]
        assert [problem.startswith(f"{stuck}: Cannot use ") for problem in found["problems"]] == [True]
    finally:
        locked.chmod(0o700)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--older-than", "30"), "usage", ("'--older-than'", "'30'")),
        (("--older-than", "-1d"), "usage", ("'--older-than'", "'-1d'")),
        (("--keep", "-1"), "usage", ("'--keep'", "-1")),
        (("--keep", "many"), "usage", ("'--keep'", "'many'")),
        (("--outcome", "bored"), "usage", ("'--outcome'", "'bored'", "'completed'")),
        (("--project", "nosuch"), "bad_input", ("project 'nosuch'", "no such project")),
        (("everything",), "usage", ("everything",)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]  words
)
def test_a_choice_that_makes_no_sense_is_refused(
    old_runs: House, arguments: tuple[str, ...], code: str, says: tuple[str, ...]
) -> None:
    refusal = refusal_of(old_runs, "prune", *arguments)
    assert (refusal.exit_code, refusal.code) == (2, code)
    assert [words for words in says if words not in refusal.message] == []


def test_a_project_that_was_misspelt_is_named(four_runs: tuple[House, list[str]]) -> None:
    refusal = refusal_of(four_runs[0], "prune", "--project", "baot")
    assert refusal.next == "Known projects: boat."
