"""A state folder that is not as inspan left it: said in a sentence, never made worse."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from inspan.protocol.ids import make_short_name
from inspan.protocol.wire import encode_record, unpack_record
from inspan.stores.run_folder import lock_run, open_folder
from tests.cli_env import CliEnv, kill_process, processes_of, wait_until

from .refusal import expect_refusal, parse_refusal
from .scenarios import SAYS_HELLO, EndedRun, last_event, release_tool, run_to_end, start_waiting_run

READERS = ("show", "logs", "events", "wait @last")


def run_it(cli_env: CliEnv) -> tuple[str, ...]:
    return ("run", "do it", "-a", "scripted", "--profile", "clean", "--model-from", cli_env.scenario(SAYS_HELLO))


@pytest.mark.parametrize("command", ["run", "ps", "ps -a", "show", "show 2026", "stop x", "reindex"])
def test_a_state_folder_that_is_a_file_is_named(cli_env: CliEnv, command: str) -> None:
    cli_env.state.write_text("mine")
    arguments = run_it(cli_env) if command == "run" else command.split()
    refusal = expect_refusal(cli_env, *arguments)
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert str(cli_env.state) in refusal.message
    assert "XDG_STATE_HOME" in refusal.next
    assert cli_env.state.read_text() == "mine"


def test_a_run_is_refused_where_the_folder_of_sockets_is_not_the_users(cli_env: CliEnv) -> None:
    Path(cli_env.sockets, "inspan").symlink_to("/")
    refusal = expect_refusal(cli_env, *run_it(cli_env))
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert f"{cli_env.sockets}/inspan is not a folder of yours" in refusal.message
    assert "XDG_RUNTIME_DIR" in refusal.next
    assert not cli_env.state.exists()


@pytest.mark.parametrize("mode", [0o500, 0o000], ids=["unwritable", "unreadable"])
def test_a_run_is_refused_where_the_state_folder_cannot_be_used(user_cli_env: CliEnv, mode: int) -> None:
    user_cli_env.state.mkdir(mode=mode)
    try:
        refusal = parse_refusal(user_cli_env.inspan(*run_it(user_cli_env), "--json"))
    finally:
        user_cli_env.state.chmod(0o700)
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert str(user_cli_env.state) in refusal.message
    assert "Permission denied" in refusal.message
    assert "XDG_STATE_HOME" in refusal.next
    assert os.listdir(user_cli_env.state) == []


@pytest.mark.parametrize("command", ["ps", "show", "show 2026", "reindex"])
def test_reading_is_refused_where_the_state_folder_cannot_be_read(user_cli_env: CliEnv, command: str) -> None:
    user_cli_env.state.mkdir(mode=0o000)
    try:
        refusal = parse_refusal(user_cli_env.inspan(*command.split(), "--json"))
    finally:
        user_cli_env.state.chmod(0o700)
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert str(user_cli_env.state) in refusal.message


def test_a_run_that_cannot_be_listed_as_active_is_withdrawn(ended_user_run: EndedRun) -> None:
    user_cli_env, _ = ended_user_run
    active = user_cli_env.state / "active"
    active.chmod(0o500)
    try:
        refusal = expect_refusal(user_cli_env, *run_it(user_cli_env))
    finally:
        active.chmod(0o700)
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert str(active) in refusal.message


@pytest.fixture
def no_index(cli_env: CliEnv) -> CliEnv:
    """A house whose index is no database. It is only a convenience: what runs must go on without it."""
    cli_env.state.mkdir(mode=0o700)
    (cli_env.state / "index.db").write_bytes(b"no database at all, " * 300)
    return cli_env


@pytest.mark.parametrize("command", ["ps -a", "show 2026", "show @last"])
def test_a_corrupt_index_is_named_with_the_way_to_rebuild_it(no_index: CliEnv, command: str) -> None:
    refusal = expect_refusal(no_index, *command.split())
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert str(no_index.state / "index.db") in refusal.message
    assert "inspan reindex" in refusal.next


def test_a_corrupt_index_does_not_keep_a_run_from_its_work(no_index: CliEnv) -> None:
    done = no_index.inspan(*run_it(no_index))
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert no_index.inspan("reindex").stdout == "1 run indexed\n"
    assert no_index.inspan("ps", "-aq").stdout == f"{no_index.folder().name}\n"


def test_a_corrupt_index_does_not_hide_a_living_run(no_index: CliEnv) -> None:
    run_id = start_waiting_run(no_index)
    assert no_index.inspan("ps", "-q").stdout == f"{run_id}\n"
    assert no_index.inspan("stop", run_id).stdout == f"{run_id} cancelled\n"
    assert last_event(no_index, run_id)["reason"] == "stopped"


def make_newer(log: Path) -> None:
    """Makes the log one of a schema that does not exist yet, with a good checksum."""
    first, *rest = log.read_bytes().splitlines(keepends=True)
    number, at, body = unpack_record(first.rstrip(b"\n"))
    log.write_bytes(encode_record(number, at, body.replace(b'"schema":1', b'"schema":999')) + b"".join(rest))


def damage_log(log: Path) -> None:
    """Changes one letter in the middle."""
    lines = log.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"turn_started", b"turn_stirred")
    log.write_bytes(b"".join(lines))


def drop_record(log: Path) -> None:
    """Takes a whole record out of the middle."""
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:2] + lines[3:]))


each_harm = pytest.mark.parametrize(
    ("harm", "code", "says"),
    [
        (make_newer, "log_too_new", "schema 999"),
        (damage_log, "log_broken", "after record 2"),
        (drop_record, "log_broken", "after record 2"),
    ],
    ids=["newer", "damaged", "shortened"],
)


@each_harm
def test_a_log_that_cannot_be_read_is_named_and_left_as_it_is(
    ended_run: EndedRun, harm: Callable[[Path], None], code: str, says: str
) -> None:
    cli_env, run_id = ended_run
    log = cli_env.folder(run_id) / "events.jsonl"
    harm(log)
    for command in READERS:
        refusal = expect_refusal(cli_env, *command.split())
        assert (refusal.exit_code, refusal.code) == (1, code)
        assert str(log) in refusal.message
        assert says in refusal.message


@pytest.mark.parametrize("command", ["logs", "events"])
def test_following_a_damaged_log_shows_what_is_good_and_then_says_so(ended_run: EndedRun, command: str) -> None:
    cli_env, run_id = ended_run
    whole = cli_env.inspan(command, "--json").stdout.splitlines()
    damage_log(cli_env.folder(run_id) / "events.jsonl")
    done = cli_env.inspan(command, "-f", "--json")
    assert (done.returncode, done.stdout.splitlines()) == (1, whole[:2])
    assert json.loads(done.stderr)["error"]["code"] == "log_broken"


@each_harm
def test_a_log_that_cannot_be_read_does_not_hide_the_other_runs(
    cli_env: CliEnv, harm: Callable[[Path], None], code: str, says: str
) -> None:
    bad, good = run_to_end(cli_env), run_to_end(cli_env)
    harm(cli_env.folder(bad) / "events.jsonl")
    assert cli_env.inspan("ps", "-aq").stdout == f"{good}\n{bad}\n"
    done = cli_env.inspan("reindex")
    assert (done.returncode, done.stdout) == (1, "1 run indexed\n")
    assert done.stderr.startswith(f"{bad}: ")
    assert says in done.stderr
    assert cli_env.inspan("ps", "-aq").stdout == f"{good}\n"


@each_harm
def test_a_log_that_cannot_be_read_can_be_deleted(
    ended_run: EndedRun, harm: Callable[[Path], None], code: str, says: str
) -> None:
    cli_env, run_id = ended_run
    harm(cli_env.folder(run_id) / "events.jsonl")
    done = cli_env.inspan("rm", run_id)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{run_id}\n", "")
    assert cli_env.inspan("ps", "-aq").stdout == ""


def test_a_damaged_run_whose_supervisor_died_is_listed_among_the_living_ones(cli_env: CliEnv) -> None:
    lost = start_waiting_run(cli_env)
    kill_process(cli_env.supervisor(lost))
    wait_until(lambda: not processes_of(lost), "end")
    damage_log(cli_env.folder(lost) / "events.jsonl")
    living = start_waiting_run(cli_env)
    runs = json.loads(cli_env.inspan("ps", "--json").stdout)["runs"]
    assert [(run["run_id"], run["outcome"], run["reason"], run["alive"]) for run in runs] == [
        (living, "running", "", True),
        (lost, "unreadable", "log_broken", False),
    ]
    assert cli_env.inspan("rm", lost).returncode == 0
    assert cli_env.inspan("ps", "-q").stdout == f"{living}\n"
    release_tool(cli_env)


def test_a_log_whose_last_record_is_torn_is_read_up_to_it(cli_env: CliEnv) -> None:
    lost = start_waiting_run(cli_env)
    kill_process(cli_env.supervisor(lost))
    wait_until(lambda: not processes_of(lost), "end")
    with (cli_env.folder(lost) / "events.jsonl").open("ab") as log:
        log.write(b'{"n":5,"t":1.0')
    assert cli_env.inspan("wait", lost).stdout == f"{lost} lost supervisor_lost\n"
    assert last_event(cli_env, lost)["outcome"] == "lost"


def test_a_run_that_may_not_be_read_is_not_said_to_be_gone(user_cli_env: CliEnv) -> None:
    kept, closed = (run_to_end(user_cli_env) for _ in range(2))
    folder = user_cli_env.folder(closed)
    folder.chmod(0)
    try:
        refusal = expect_refusal(user_cli_env, "show", closed)
        done = user_cli_env.inspan("reindex", "--json")
    finally:
        folder.chmod(0o700)
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert "Permission denied" in refusal.message
    assert "reindex" not in refusal.next
    told = json.loads(done.stdout)
    assert (done.returncode, told["runs"]) == (1, 1)
    assert [closed in problem and "Permission denied" in problem for problem in told["problems"]] == [True]
    assert user_cli_env.inspan("ps", "-aq").stdout.split() == [kept]


def test_an_index_is_not_emptied_where_no_run_may_be_read(user_cli_env: CliEnv) -> None:
    run_id = run_to_end(user_cli_env)
    projects = user_cli_env.state / "projects"
    projects.chmod(0)
    try:
        refusal = expect_refusal(user_cli_env, "reindex")
    finally:
        projects.chmod(0o700)
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert user_cli_env.inspan("ps", "-aq").stdout.split() == [run_id]


def test_a_run_without_its_description_is_named(ended_run: EndedRun) -> None:
    cli_env, run_id = ended_run
    folder = cli_env.folder(run_id)
    (folder / "run.json").unlink()
    for name in (run_id, "@last"):
        refusal = expect_refusal(cli_env, "show", name)
        assert (refusal.exit_code, refusal.code) == (2, "run_not_found")
        assert str(folder) in refusal.message
        assert "inspan reindex" in refusal.next
    assert cli_env.inspan("reindex").stdout == "0 runs indexed\n"
    assert cli_env.inspan("ps", "-aq").stdout == ""


def test_a_run_whose_description_is_no_json_is_named(ended_run: EndedRun) -> None:
    cli_env, run_id = ended_run
    described = cli_env.folder(run_id) / "run.json"
    described.write_text("{")
    refusal = expect_refusal(cli_env, "show")
    assert (refusal.exit_code, refusal.code) == (1, "state_unusable")
    assert str(described) in refusal.message
    assert "inspan rm" in refusal.next
    done = cli_env.inspan("reindex", "--json")
    problems = json.loads(done.stdout)["problems"]
    assert (done.returncode, len(problems)) == (1, 1)
    assert str(described) in problems[0]


def test_a_living_run_whose_description_is_no_json_hides_no_other(cli_env: CliEnv) -> None:
    bad, good = start_waiting_run(cli_env), start_waiting_run(cli_env)
    (cli_env.folder(bad) / "run.json").write_text("{")
    done = cli_env.inspan("ps")
    assert done.returncode == 0
    assert re.search(rf"^{make_short_name(bad)} .* unreadable \(state_unusable\)", done.stdout, re.MULTILINE)
    assert re.search(rf"^{make_short_name(good)} +● (starting|working)", done.stdout, re.MULTILINE)
    release_tool(cli_env)


def test_nobody_but_its_owner_can_delete_or_end_a_run_that_is_being_written(ended_run: EndedRun) -> None:
    cli_env, run_id = ended_run
    lock = lock_run(open_folder(str(cli_env.folder(run_id))))
    try:
        refusal = expect_refusal(cli_env, "rm", run_id)
    finally:
        os.close(lock)
    assert (refusal.exit_code, refusal.code) == (1, "run_busy")
    assert run_id in refusal.message
    assert f"inspan stop {run_id}" in refusal.next


def test_a_folder_that_is_no_run_is_left_alone(ended_run: EndedRun) -> None:
    cli_env, run_id = ended_run
    stray = cli_env.folder(run_id).parent / "stray"
    stray.mkdir()
    (cli_env.state / "active" / "20990101-000000000-1").symlink_to("/nonexistent")
    assert cli_env.inspan("ps", "-aq").stdout == f"{run_id}\n"
    assert cli_env.inspan("show").returncode == 0
    assert cli_env.inspan("reindex").stdout == "1 run indexed\n"
    assert stray.is_dir()


@pytest.mark.parametrize(("name", "content"), [("events.jsonl", "{"), ("run.json", "{")])
def test_a_damaged_run_can_be_removed_after_the_list_was_made_anew(
    ended_run: EndedRun, name: str, content: str
) -> None:
    cli_env, run_id = ended_run
    damaged = cli_env.folder(run_id) / name
    damaged.write_text(content + damaged.read_text())
    cli_env.inspan("reindex")
    assert run_id in cli_env.inspan("rm", run_id).stdout
    assert list(cli_env.state.glob("projects/*/*/runs/*")) == []


@pytest.mark.parametrize("command", ["logs -f", "events -f", "wait"])
def test_a_run_whose_folder_is_removed_while_it_is_followed_is_called_gone(cli_env: CliEnv, command: str) -> None:
    run_id = start_waiting_run(cli_env)
    follower = cli_env.start(*command.split(), run_id)
    wait_until(lambda: _watches(follower.pid), "follower")
    supervisor = cli_env.supervisor(run_id)
    # At once: of a folder that goes file by file the lock may go first, and the run be declared lost in what is left.
    gone = cli_env.folder(run_id).rename(cli_env.root / "gone")
    kill_process(supervisor)
    shutil.rmtree(gone)
    _, err = follower.communicate(timeout=120)
    assert follower.returncode == 2
    assert f"Run {run_id} is gone: its folder was removed." in err.decode()


def _watches(pid: int) -> bool:
    try:
        return any("inotify" in os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False
