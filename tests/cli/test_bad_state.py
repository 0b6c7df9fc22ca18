"""A state folder that is not as inspan left it: said in a sentence, never made worse."""

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from inspan.protocol.wire import body_of, record_line
from inspan.stores.folder import open_folder, take_lock
from tests.house import House, processes_of, until

from .refusal import refusal_of, told
from .scenes import SAYS_HELLO, ended_run, last_event, let_go, waiting_run

READERS = ("show", "logs", "events", "wait @last")


def run_it(house: House) -> tuple[str, ...]:
    return ("run", "do it", "-a", "scripted", "--profile", "clean", "--model-from", house.scenario(SAYS_HELLO))


@pytest.mark.parametrize("command", ["run", "ps", "ps -a", "show", "show 2026", "stop x", "reindex"])
def test_a_state_folder_that_is_a_file_is_named(house: House, command: str) -> None:
    house.state.write_text("mine")
    arguments = run_it(house) if command == "run" else command.split()
    refusal = refusal_of(house, *arguments)
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert str(house.state) in refusal.message
    assert "XDG_STATE_HOME" in refusal.next
    assert house.state.read_text() == "mine"


@pytest.mark.parametrize("mode", [0o500, 0o000], ids=["unwritable", "unreadable"])
def test_a_run_is_refused_where_the_state_folder_cannot_be_used(user_house: House, mode: int) -> None:
    user_house.state.mkdir(mode=mode)
    try:
        refusal = told(user_house.inspan(*run_it(user_house), "--json"))
    finally:
        user_house.state.chmod(0o700)
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert str(user_house.state) in refusal.message
    assert "Permission denied" in refusal.message
    assert "XDG_STATE_HOME" in refusal.next
    assert os.listdir(user_house.state) == []


@pytest.mark.parametrize("command", ["ps", "show", "show 2026", "reindex"])
def test_reading_is_refused_where_the_state_folder_cannot_be_read(user_house: House, command: str) -> None:
    user_house.state.mkdir(mode=0o000)
    try:
        refusal = told(user_house.inspan(*command.split(), "--json"))
    finally:
        user_house.state.chmod(0o700)
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert str(user_house.state) in refusal.message


def test_a_run_that_cannot_be_listed_as_active_is_withdrawn(user_house: House) -> None:
    ended_run(user_house)
    active = user_house.state / "active"
    active.chmod(0o500)
    try:
        refusal = refusal_of(user_house, *run_it(user_house))
    finally:
        active.chmod(0o700)
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert str(active) in refusal.message


@pytest.fixture
def no_index(house: House) -> House:
    """A house whose index is no database. It is only a convenience: what runs must go on without it."""
    house.state.mkdir(mode=0o700)
    (house.state / "index.db").write_bytes(b"no database at all, " * 300)
    return house


@pytest.mark.parametrize("command", ["ps -a", "show 2026", "show @last"])
def test_a_corrupt_index_is_named_with_the_way_to_rebuild_it(no_index: House, command: str) -> None:
    refusal = refusal_of(no_index, *command.split())
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert str(no_index.state / "index.db") in refusal.message
    assert "inspan reindex" in refusal.next


def test_a_corrupt_index_does_not_keep_a_run_from_its_work(no_index: House) -> None:
    done = no_index.inspan(*run_it(no_index))
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert no_index.inspan("reindex").stdout == "1 runs indexed\n"
    assert no_index.inspan("ps", "-aq").stdout == f"{no_index.folder().name}\n"


def test_a_corrupt_index_does_not_hide_a_living_run(no_index: House) -> None:
    run_id = waiting_run(no_index)
    assert no_index.inspan("ps", "-q").stdout == f"{run_id}\n"
    assert no_index.inspan("stop", run_id).stdout == f"{run_id} cancelled\n"
    assert last_event(no_index, run_id)["reason"] == "stopped"


def newer(log: Path) -> None:
    """Makes the log one of a schema that does not exist yet, with a good checksum."""
    first, *rest = log.read_bytes().splitlines(keepends=True)
    number, at, body = body_of(first.rstrip(b"\n"))
    log.write_bytes(record_line(number, at, body.replace(b'"schema":1', b'"schema":999')) + b"".join(rest))


def damaged(log: Path) -> None:
    """Changes one letter in the middle."""
    lines = log.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"turn_started", b"turn_stirred")
    log.write_bytes(b"".join(lines))


def shortened(log: Path) -> None:
    """Takes a whole record out of the middle."""
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:2] + lines[3:]))


each_harm = pytest.mark.parametrize(
    ("harm", "code", "says"),
    [
        (newer, "log_too_new", "schema 999"),
        (damaged, "log_broken", "after record 2"),
        (shortened, "log_broken", "after record 2"),
    ],
    ids=["newer", "damaged", "shortened"],
)


@each_harm
def test_a_log_that_cannot_be_read_is_named_and_left_as_it_is(
    house: House, harm: Callable[[Path], None], code: str, says: str
) -> None:
    run_id = ended_run(house)
    log = house.folder(run_id) / "events.jsonl"
    harm(log)
    for command in READERS:
        refusal = refusal_of(house, *command.split())
        assert (refusal.exit_code, refusal.code) == (1, code)
        assert str(log) in refusal.message
        assert says in refusal.message


@pytest.mark.parametrize("command", ["logs", "events"])
def test_following_a_damaged_log_shows_what_is_good_and_then_says_so(house: House, command: str) -> None:
    run_id = ended_run(house)
    whole = house.inspan(command, "--json").stdout.splitlines()
    damaged(house.folder(run_id) / "events.jsonl")
    done = house.inspan(command, "-f", "--json")
    assert (done.returncode, done.stdout.splitlines()) == (1, whole[:2])
    assert json.loads(done.stderr)["error"]["code"] == "log_broken"


@each_harm
def test_a_log_that_cannot_be_read_does_not_hide_the_other_runs(
    house: House, harm: Callable[[Path], None], code: str, says: str
) -> None:
    bad, good = ended_run(house), ended_run(house)
    harm(house.folder(bad) / "events.jsonl")
    assert house.inspan("ps", "-aq").stdout == f"{good}\n{bad}\n"
    done = house.inspan("reindex")
    assert (done.returncode, done.stdout) == (1, "1 runs indexed\n")
    assert done.stderr.startswith(f"{bad}: ")
    assert says in done.stderr
    assert house.inspan("ps", "-aq").stdout == f"{good}\n"


@each_harm
def test_a_log_that_cannot_be_read_can_be_deleted(
    house: House, harm: Callable[[Path], None], code: str, says: str
) -> None:
    run_id = ended_run(house)
    harm(house.folder(run_id) / "events.jsonl")
    done = house.inspan("rm", run_id)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{run_id}\n", "")
    assert house.inspan("ps", "-aq").stdout == ""


def test_a_damaged_run_whose_supervisor_died_is_listed_among_the_living_ones(house: House) -> None:
    lost = waiting_run(house)
    os.kill(house.supervisor(lost), signal.SIGKILL)
    until(lambda: not processes_of(lost), "end")
    damaged(house.folder(lost) / "events.jsonl")
    living = waiting_run(house)
    runs = json.loads(house.inspan("ps", "--json").stdout)["runs"]
    assert [(run["run_id"], run["outcome"], run["reason"], run["alive"]) for run in runs] == [
        (living, "running", "", True),
        (lost, "unreadable", "log_broken", False),
    ]
    assert house.inspan("rm", lost).returncode == 0
    assert house.inspan("ps", "-q").stdout == f"{living}\n"
    let_go(house)


def test_a_log_whose_last_record_is_torn_is_read_up_to_it(house: House) -> None:
    lost = waiting_run(house)
    os.kill(house.supervisor(lost), signal.SIGKILL)
    until(lambda: not processes_of(lost), "end")
    with (house.folder(lost) / "events.jsonl").open("ab") as log:
        log.write(b'{"n":5,"t":1.0')
    assert house.inspan("wait", lost).stdout == f"{lost} lost supervisor_lost\n"
    assert last_event(house, lost)["outcome"] == "lost"


def test_a_run_without_its_description_is_named(house: House) -> None:
    run_id = ended_run(house)
    folder = house.folder(run_id)
    (folder / "run.json").unlink()
    for name in (run_id, "@last"):
        refusal = refusal_of(house, "show", name)
        assert (refusal.exit_code, refusal.code) == (2, "run_not_found")
        assert str(folder) in refusal.message
        assert "inspan reindex" in refusal.next
    assert house.inspan("reindex").stdout == "0 runs indexed\n"
    assert house.inspan("ps", "-aq").stdout == ""


def test_a_run_whose_description_is_no_json_is_named(house: House) -> None:
    run_id = ended_run(house)
    described = house.folder(run_id) / "run.json"
    described.write_text("{")
    refusal = refusal_of(house, "show")
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert str(described) in refusal.message
    assert "inspan rm" in refusal.next
    done = house.inspan("reindex", "--json")
    problems = json.loads(done.stdout)["problems"]
    assert (done.returncode, len(problems)) == (1, 1)
    assert str(described) in problems[0]


def test_a_living_run_whose_description_is_no_json_hides_no_other(house: House) -> None:
    bad, good = waiting_run(house), waiting_run(house)
    (house.folder(bad) / "run.json").write_text("{")
    done = house.inspan("ps")
    assert done.returncode == 0
    assert re.search(rf"^{bad} .* unreadable \(state_unusable\)", done.stdout, re.MULTILINE)
    assert re.search(rf"^{good} .* running ", done.stdout, re.MULTILINE)
    let_go(house)


def test_nobody_but_its_owner_can_delete_or_end_a_run_that_is_being_written(house: House) -> None:
    run_id = ended_run(house)
    lock = take_lock(open_folder(str(house.folder(run_id))))
    try:
        refusal = refusal_of(house, "rm", run_id)
    finally:
        os.close(lock)
    assert (refusal.exit_code, refusal.code) == (1, "run_busy")
    assert run_id in refusal.message
    assert f"inspan stop {run_id}" in refusal.next


def test_a_folder_that_is_no_run_is_left_alone(house: House) -> None:
    run_id = ended_run(house)
    stray = house.folder(run_id).parent / "stray"
    stray.mkdir()
    (house.state / "active" / "20990101-000000000-1").symlink_to("/nonexistent")
    assert house.inspan("ps", "-aq").stdout == f"{run_id}\n"
    assert house.inspan("show").returncode == 0
    assert house.inspan("reindex").stdout == "1 runs indexed\n"
    assert stray.is_dir()
