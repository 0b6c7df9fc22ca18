"""A supervisor that is killed at any moment: the log is a valid prefix, and whoever looks next tells it honestly."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from inspan.protocol.events import ErrorReported, RunEnded, RunStarted
from inspan.protocol.wire import Record, encode, encode_record
from inspan.runs.lost import declare_lost
from inspan.stores.event_log import read_log
from inspan.stores.run_folder import claim_folder, open_folder, write_json
from tests.cli_env import CliEnv, list_pids, open_files, processes_of, wait_until
from tests.protocol.examples import STARTED
from tests.running.fake_agent import Fake, detach_fake_agent, fake_agent_env, find_processes, wait_for_event

# Says one thing each time the next step is allowed: a file of that number in the working folder.
_ACTS = """
begin()
for number in range(100):
    while not os.path.exists(f"step-{number}"): time.sleep(0.01)
    say(f"step {number}")
"""
# The records before the first step: run_started, thread_started, turn_started.
_OPENING = 3


def _log(cli_env: CliEnv, run_id: str) -> list[Record]:
    return read_log(str(cli_env.folder(run_id) / "events.jsonl"))


def _until_record(cli_env: CliEnv, run_id: str, count: int) -> list[Record]:
    def enough() -> list[Record]:
        found = _log(cli_env, run_id)
        return found if len(found) >= count else []

    return wait_until(enough, f"record {count}")


def _kill_supervisor(cli_env: CliEnv, run_id: str) -> None:
    lock = str(cli_env.folder(run_id) / "lock")
    os.kill(cli_env.supervisor(run_id), signal.SIGKILL)
    # What is killed holds its lock until it gets its turn; and so may a child of it that was being started.
    wait_until(lambda: not any(lock in open_files(pid) for pid in list_pids()), "free lock")


def _is_gone(run_id: str, tmp_path: Path) -> bool:
    return not processes_of(run_id) and not find_processes(str(tmp_path / "puppet"))


@pytest.mark.parametrize("count", range(1, 11))
def test_a_supervisor_killed_at_any_event_leaves_a_valid_prefix_and_is_declared_lost_once(
    cli_env: CliEnv, fake: Fake, tmp_path: Path, count: int
) -> None:
    for number in range(count - _OPENING):
        (cli_env.work / f"step-{number}").touch()
    run_id = detach_fake_agent(cli_env, fake_agent_env(fake, _ACTS))
    seen = _until_record(cli_env, run_id, count)
    _kill_supervisor(cli_env, run_id)
    wait_until(lambda: _is_gone(run_id, tmp_path), "empty house")
    prefix = _log(cli_env, run_id)
    assert prefix[: len(seen)] == seen
    assert not any(isinstance(record.event, RunEnded) for record in prefix)

    assert cli_env.inspan("ps").returncode == 0
    told = _log(cli_env, run_id)
    assert told[:-1] == prefix
    last = told[-1].event
    assert isinstance(last, RunEnded)
    assert (last.outcome, last.reason) == ("lost", "supervisor_lost")

    before = (cli_env.folder(run_id) / "events.jsonl").read_bytes()
    for reading in (["ps", "-a"], ["show", run_id], ["events", run_id], ["wait", run_id], ["reindex"]):
        cli_env.inspan(*reading)
    assert (cli_env.folder(run_id) / "events.jsonl").read_bytes() == before
    assert list(cli_env.state.glob("active/*")) == []


def test_a_lost_run_is_no_success(cli_env: CliEnv, fake: Fake) -> None:
    run_id = detach_fake_agent(cli_env, fake_agent_env(fake, _ACTS))
    wait_for_event(cli_env, run_id, "turn_started")
    _kill_supervisor(cli_env, run_id)
    assert cli_env.inspan("wait", run_id).returncode == 1
    assert '"status": "failed"' in (cli_env.folder(run_id) / "exit.json").read_text()


def test_a_follower_of_a_run_whose_supervisor_is_killed_is_told_so(cli_env: CliEnv, fake: Fake) -> None:
    run_id = detach_fake_agent(cli_env, fake_agent_env(fake, _ACTS))
    wait_for_event(cli_env, run_id, "turn_started")
    follower = cli_env.start("events", "-f", run_id)
    assert follower.stdout
    follower.stdout.readline()
    _kill_supervisor(cli_env, run_id)
    rest = follower.stdout.read()
    assert b'"reason":"supervisor_lost"' in rest.splitlines()[-1]
    assert follower.wait() == 1


@pytest.mark.parametrize("reading", [["ps", "-a"], ["wait"], ["events"], ["reindex"]], ids=" ".join)
def test_readers_that_race_to_declare_a_run_lost_append_one_record(
    cli_env: CliEnv, fake: Fake, reading: list[str]
) -> None:
    run_id = detach_fake_agent(cli_env, fake_agent_env(fake, _ACTS))
    wait_for_event(cli_env, run_id, "turn_started")
    _kill_supervisor(cli_env, run_id)
    wait_until(lambda: not processes_of(run_id), "empty house")
    named = [*reading, run_id] if reading[0] in ("wait", "events") else reading
    readers = [cli_env.start(*named) for _ in range(8)]
    errors = [reader.communicate()[1] for reader in readers]
    assert [error for error in errors if b"Traceback" in error or b"inspan broke" in error] == []
    cli_env.inspan("ps")
    ends = [record for record in _log(cli_env, run_id) if isinstance(record.event, RunEnded)]
    assert len(ends) == 1
    assert _log(cli_env, run_id)[-1] == ends[0]
    cli_env.inspan("reindex")
    assert cli_env.inspan("ps", "-a", "-q").stdout.split() == [run_id]


def test_readers_that_look_at_the_very_same_moment_tell_each_run_once(tmp_path: Path) -> None:
    script = """
import os, sys
from inspan.running import finalize
from inspan.runs import lost
from inspan.runs.find import refresh_summary
from inspan.stores.run_folder import all_runs
folders = list(all_runs(sys.argv[1]))
print("ready", flush=True)
for folder in folders:
    sys.stdin.readline()
    refresh_summary(sys.argv[1], folder)
    print("settled", flush=True)
"""
    folders = [claim_folder(str(tmp_path / "projects" / "p" / "t" / "runs"), pid=1) for _ in range(30)]
    for folder in folders:
        write_json(folder.file("run.json"), {})
        Path(folder.log).write_bytes(encode_record(1, 1.0, encode(STARTED)))
    argv = [sys.executable, "-c", script, str(tmp_path)]
    readers = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(8)]
    for _ in folders:
        for reader in readers:
            assert reader.stdout
            assert reader.stdout.readline()
        for reader in readers:
            assert reader.stdin
            reader.stdin.write(b"\n")
            reader.stdin.flush()
    for reader in readers:
        reader.communicate()
    told = [[type(record.event) for record in read_log(folder.log)] for folder in folders]
    assert told == [[RunStarted, RunEnded]] * len(folders)


def test_a_reader_that_came_second_finds_the_run_told_and_adds_nothing(cli_env: CliEnv, fake: Fake) -> None:
    run_id = detach_fake_agent(cli_env, fake_agent_env(fake, "begin(); finish()"))
    cli_env.inspan("wait", run_id)
    folder = open_folder(str(cli_env.folder(run_id)))
    before = Path(folder.log).read_bytes()
    summary = declare_lost(str(cli_env.state), folder)
    assert summary.ended
    assert summary.ended.outcome == "completed"
    assert Path(folder.log).read_bytes() == before


def test_a_run_killed_before_its_log_began_is_declared_lost(cli_env: CliEnv, fake: Fake) -> None:
    run_id = detach_fake_agent(cli_env, fake_agent_env(fake, _ACTS))
    wait_for_event(cli_env, run_id, "turn_started")
    _kill_supervisor(cli_env, run_id)
    wait_until(lambda: not processes_of(run_id), "empty house")
    (cli_env.folder(run_id) / "events.jsonl").unlink()
    cli_env.inspan("ps")
    assert cli_env.kinds(run_id) == ["run_ended"]
    assert cli_env.inspan("ps", "-a", "-q").stdout.split() == [run_id]


def test_whatever_escaped_containment_is_swept_when_the_run_is_declared_lost(cli_env: CliEnv, fake: Fake) -> None:
    run_id = detach_fake_agent(cli_env, fake_agent_env(fake, _ACTS))
    wait_for_event(cli_env, run_id, "turn_started")
    escaped = subprocess.Popen(["sleep", "86400"], env={"JRUN_ID": run_id})
    spared = subprocess.Popen(["sleep", "86400"], env={"JRUN_ID": run_id + "0", "OTHER": f"JRUN_ID={run_id}"})
    try:
        _kill_supervisor(cli_env, run_id)
        cli_env.inspan("wait", run_id)
        assert escaped.wait() == -signal.SIGKILL
        assert spared.poll() is None
    finally:
        for process in (escaped, spared):
            process.kill()
            process.wait()


@pytest.mark.usefixtures("bubblewrap")
def test_what_a_lost_run_has_left_in_git_data_is_removed_and_told_of(cli_env: CliEnv, fake: Fake) -> None:
    (cli_env.work / "inner").mkdir()
    for folder in (cli_env.work, cli_env.work / "inner"):
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    plant = "begin()\nfor top in ('', 'inner/'): os.symlink('/outside', top + '.git/COMMIT_EDITMSG')\n"
    env = fake_agent_env(fake, f"{plant}say('planted')\ntime.sleep(1000)\n")
    run_id = detach_fake_agent(cli_env, env, "--sandbox", "bwrap")
    wait_for_event(cli_env, run_id, "text_said")
    _kill_supervisor(cli_env, run_id)
    cli_env.inspan("wait", run_id)
    *_, first, second, last = [record.event for record in _log(cli_env, run_id)]
    assert isinstance(first, ErrorReported) and isinstance(second, ErrorReported) and isinstance(last, RunEnded)
    for told, top in ((first, ""), (second, "inner/")):
        assert f"/{top}.git/COMMIT_EDITMSG was made a link to /outside in the run" in told.message
        assert not os.path.lexists(cli_env.work / f"{top}.git/COMMIT_EDITMSG")


def test_a_living_run_is_never_declared_lost(cli_env: CliEnv, fake: Fake) -> None:
    run_id = detach_fake_agent(cli_env, fake_agent_env(fake, _ACTS))
    wait_for_event(cli_env, run_id, "turn_started")
    for reading in (["ps"], ["events", run_id], ["show", run_id], ["reindex"]):
        cli_env.inspan(*reading)
    assert "run_ended" not in cli_env.kinds(run_id)
    assert cli_env.inspan("ps", "-q").stdout.split() == [run_id]
    cli_env.inspan("kill", run_id)


def test_deleting_the_index_loses_nothing(cli_env: CliEnv, fake: Fake) -> None:
    env = fake_agent_env(fake, "begin(); say('hi'); finish()")
    ids = [detach_fake_agent(cli_env, env) for _ in range(3)]
    for run_id in ids:
        cli_env.inspan("wait", run_id)
    before = cli_env.inspan("ps", "-a", "--json").stdout
    for path in cli_env.state.glob("index.db*"):
        path.unlink()
    assert cli_env.inspan("reindex").stdout == "3 runs indexed\n"
    assert cli_env.inspan("ps", "-a", "--json").stdout == before


def test_a_spoilt_index_is_told_and_mended(cli_env: CliEnv, fake: Fake) -> None:
    env = fake_agent_env(fake, "begin(); say('hi'); finish()")
    run_id = detach_fake_agent(cli_env, env)
    cli_env.inspan("wait", run_id)
    for path in cli_env.state.glob("index.db*"):
        path.write_bytes(b"not a database" * 1000)
    told = cli_env.inspan("ps", "-a")
    assert told.returncode == 1
    assert "inspan reindex" in told.stderr
    second = detach_fake_agent(cli_env, env)
    wait_for_event(cli_env, second, "run_ended")
    assert cli_env.inspan("reindex").returncode == 0
    assert sorted(cli_env.inspan("ps", "-a", "-q").stdout.split()) == sorted([run_id, second])
