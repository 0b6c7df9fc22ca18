"""From the command to its supervisor: whatever dies or is told to go in between, there is a whole run or none."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inspan.protocol.ids import make_short_name
from inspan.stores.event_log import read_log
from tests.cli.scenarios import SAYS_HELLO, WAITS
from tests.cli_env import CliEnv, SavedCliEnv, list_pids, open_files, processes_of, wait_until

from .audit_signals import Moment, signal_command, signal_supervisor
from .fake_agent import Fake, fake_agent_env

# In the order in which a supervisor comes by them.
STARTING = [
    Moment("born"),
    Moment("import", "inspan.transports.process"),
    Moment("os.posix_spawn"),
    Moment("import", "inspan.running.supervisor"),
    Moment("import", "asyncio"),
    Moment("import", "inspan.running.execution"),
    Moment("import", "inspan.running.finalize"),
    Moment("open", "events.jsonl"),
    Moment("open", "events.jsonl.reserve"),
    Moment("socket.__new__"),
    Moment("open", "/stdout"),
    Moment("open", "/stderr"),
    Moment("socket.bind"),
    Moment("os.chmod", ".sock"),
]
NOTICE = "inspan: 1 process died here: `inspan recover` goes on with its work\n"
READERS = ("show", "logs", "wait", "events", "ps -a", "reindex")


def _detach(cli_env: CliEnv, env: dict[str, str], *more: str) -> str:
    return cli_env.detach("scripted", WAITS, *more, env=env)


@pytest.mark.parametrize("stage", range(len(STARTING)), ids=list(map(str, STARTING)))
def test_a_supervisor_killed_while_it_starts_leaves_a_run_that_every_command_reaches(
    cli_env: CliEnv, stage: int
) -> None:
    run_id = _detach(cli_env, signal_supervisor(cli_env, STARTING[stage], signal.SIGKILL))
    lock = str(cli_env.folder(run_id) / "lock")
    # A child of it that was being started may hold its lock for a moment longer.
    wait_until(lambda: not any(lock in open_files(pid) for pid in list_pids()), "free lock")
    # Each stage is first looked at by another command: whoever comes first has to tell the end, the next one agrees.
    first = stage % len(READERS)
    for command in (READERS[first], READERS[(first + 1) % len(READERS)]):
        words = command.split()
        named = [*words, run_id] if words[0] not in ("ps", "reindex") else words
        done = cli_env.inspan(*named)
        told = done.stderr.replace(NOTICE, "") if command == "ps -a" else done.stderr
        assert (done.returncode, told) == (1 if command == "wait" else 0, ""), command
        names = (run_id, make_short_name(run_id), "supervisor_lost")
        assert command == "reindex" or any(words in done.stdout for words in names)
    assert cli_env.kinds(run_id)[0] == "run_started"
    assert (cli_env.events(run_id)[-1]["outcome"], cli_env.kinds(run_id).count("run_ended")) == ("lost", 1)
    assert processes_of(run_id) == []
    assert cli_env.inspan("rm", run_id).stdout == f"{run_id}\n"
    assert list(cli_env.state.glob("projects/*/*/runs/*")) + list(cli_env.state.glob("active/*")) == []


@pytest.mark.parametrize("moment", STARTING, ids=str)
def test_a_supervisor_told_to_go_while_it_starts_ends_the_run_as_stop_does(cli_env: CliEnv, moment: Moment) -> None:
    run_id = _detach(cli_env, signal_supervisor(cli_env, moment, signal.SIGTERM))
    assert cli_env.inspan("wait", run_id).returncode == 143
    kinds, ended = cli_env.kinds(run_id), cli_env.events(run_id)[-1]
    assert (kinds[0], kinds.count("ending_began"), kinds[-1]) == ("run_started", 1, "run_ended")
    assert (ended["outcome"], ended["reason"]) == ("cancelled", "stopped")
    assert processes_of(run_id) == []
    assert (cli_env.folder(run_id) / "supervisor.log").read_text() == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_interrupt_and_a_hangup_do_the_same(cli_env: CliEnv, number: signal.Signals) -> None:
    run_id = _detach(cli_env, signal_supervisor(cli_env, Moment("born"), number))
    assert cli_env.inspan("wait", run_id).stdout == f"{run_id} cancelled stopped\n"


@pytest.mark.parametrize("way", ["bwrap", "unshare", "reaper"])
def test_the_agent_has_no_signal_blocked(cli_env: CliEnv, fake: Fake, way: str) -> None:
    env = fake_agent_env(fake, "begin(); say(str(signal.pthread_sigmask(signal.SIG_BLOCK, ()))); finish()")
    done = cli_env.inspan("run", "x", "-a", "codex", "--profile", "user", "-q", env={**env, "INSPAN_CONTAINMENT": way})
    assert (done.returncode, done.stdout) == (0, "set()\n")


def test_the_run_is_whole_on_disk_before_its_agent_is_spawned(cli_env: CliEnv) -> None:
    run_id = _detach(cli_env, signal_supervisor(cli_env, Moment("os.posix_spawn"), signal.SIGSTOP))
    supervisor = cli_env.supervisor(run_id)
    try:
        (record,) = wait_until(lambda: read_log(str(cli_env.folder(run_id) / "events.jsonl")), "first record")
        listed = json.loads(cli_env.inspan("ps", "--json").stdout)["runs"]
        assert (record.number, [each["run_id"] for each in listed]) == (1, [run_id])
        assert cli_env.inspan("show", run_id).returncode == 0
    finally:
        os.kill(supervisor, signal.SIGKILL)
    assert cli_env.inspan("wait", run_id).returncode == 1


# In the order in which the command comes by them, before and after the run is claimed.
BEFORE = [
    Moment("import", "inspan.cli.main"),
    Moment("import", "inspan.cli.start_run"),
    Moment("import", "inspan.planning.prepare"),
    Moment("open", "scenario.toml"),
]
AFTER = [
    Moment("os.mkdir", "/agent"),
    Moment("open", "/lock"),
    Moment("open", ".draft"),
    Moment("socket.bind"),
    Moment("open", "events.jsonl"),
    Moment("os.symlink"),
    Moment("os.rename"),
    Moment("os.posix_spawn"),
    Moment("import", "inspan.cli.follow"),
]
CLAIMED = [Moment("os.mkdir", "/agent"), Moment("os.symlink"), Moment("os.posix_spawn")]


def _follow(cli_env: CliEnv, env: dict[str, str], *more: str) -> subprocess.CompletedProcess[str]:
    scenario = cli_env.scenario(WAITS)
    return cli_env.inspan(
        "run", "do it", "-a", "scripted", "--profile", "clean", "--model-from", scenario, *more, env=env
    )


@pytest.fixture(scope="module")
def saved_env(tmp_path_factory: pytest.TempPathFactory, binaries: dict[str, str]) -> SavedCliEnv:
    """What is found out once, such as which containment works here, would start programs and take its time."""
    made = CliEnv(tmp_path_factory.mktemp("warm"), binaries=binaries)
    run_id = made.run("scripted", SAYS_HELLO).run_id
    made.inspan("rm", run_id)
    assert _list_left(made) == []
    return SavedCliEnv(made)


@pytest.fixture
def warm_env(saved_env: SavedCliEnv) -> Iterator[CliEnv]:
    """A house in which a run has been before, and none is left."""
    yield saved_env.restore()
    saved_env.close()


def _list_left(cli_env: CliEnv) -> list[Path]:
    return [path for place in ("projects/*/*/runs/*", "active/*", "sessions/*") for path in cli_env.state.glob(place)]


@pytest.mark.parametrize("moment", BEFORE, ids=str)
def test_a_command_told_to_go_before_it_has_claimed_a_run_leaves_none(warm_env: CliEnv, moment: Moment) -> None:
    done = _follow(warm_env, signal_command(warm_env, moment, signal.SIGTERM))
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, "", "")
    assert _list_left(warm_env) == []


@pytest.mark.parametrize("moment", BEFORE, ids=str)
def test_an_interrupt_before_a_run_is_claimed_leaves_neither_a_run_nor_a_traceback(
    warm_env: CliEnv, moment: Moment
) -> None:
    done = _follow(warm_env, signal_command(warm_env, moment, signal.SIGINT))
    assert done.returncode in (130, -signal.SIGINT)
    assert (done.stdout, done.stderr.strip()) == ("", "")
    assert _list_left(warm_env) == []


@pytest.mark.parametrize(
    ("number", "code", "reason"), [(signal.SIGTERM, 143, "stopped"), (signal.SIGINT, 130, "interrupted")]
)
@pytest.mark.parametrize("moment", AFTER, ids=str)
def test_a_command_told_to_go_later_stops_its_run(
    warm_env: CliEnv, moment: Moment, number: signal.Signals, code: int, reason: str
) -> None:
    done = _follow(warm_env, signal_command(warm_env, moment, number))
    run_id = warm_env.folder().name
    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr
    ended = warm_env.events(run_id)[-1]
    assert (ended["outcome"], ended["reason"]) == ("cancelled", reason)
    assert processes_of(run_id) == []


@pytest.mark.parametrize("moment", CLAIMED, ids=str)
def test_a_terminal_that_closes_then_ends_the_command_alone(warm_env: CliEnv, moment: Moment) -> None:
    done = _follow(warm_env, signal_command(warm_env, moment, signal.SIGHUP))
    assert done.returncode == -signal.SIGHUP
    (warm_env.work / "go").touch()
    assert warm_env.inspan("wait", "@last").returncode == 0


@pytest.mark.parametrize("moment", CLAIMED, ids=str)
def test_a_detaching_command_told_to_go_too_late_still_names_its_run(warm_env: CliEnv, moment: Moment) -> None:
    done = _follow(warm_env, signal_command(warm_env, moment, signal.SIGTERM), "-d")
    assert (done.returncode, done.stdout) == (0, f"{warm_env.folder().name}\n")
    (warm_env.work / "go").touch()
    assert warm_env.inspan("wait", "@last").returncode == 0


CLOSED = [tuple(number for number in range(3) if which >> number & 1) for which in range(1, 8)]
_HOST = """
import asyncio, json, os, sys
import inspan
async def main():
    # The loop stands already: what is opened from here on is ours.
    for number in CLOSED: os.close(number)
    task = inspan.Task(prompt="do it", cwd=os.getcwd(), agent="scripted", profile="clean", model_from=sys.argv[2])
    here = await inspan.run(task)
    apart = await (await inspan.start(task)).wait()
    held = [os.readlink(f"/proc/self/fd/{number}") for number in CLOSED]
    return [*((result.outcome, result.reason, result.output) for result in (here, apart)), held]
told = asyncio.run(main())
with open(sys.argv[1], "w") as file: json.dump(told, file)
"""


@pytest.mark.parametrize("closed", CLOSED, ids=str)
def test_a_program_without_standard_descriptors_runs_tasks_like_any_other(
    cli_env: CliEnv, closed: tuple[int, ...]
) -> None:
    report = cli_env.root / "report"
    code = _HOST.replace("CLOSED", repr(closed))
    subprocess.run(
        [sys.executable, "-c", code, str(report), cli_env.scenario(SAYS_HELLO)],
        env=cli_env.env,
        cwd=cli_env.work,
        timeout=240,
        check=True,
    )
    expected = [["completed", "done", "hello"], ["completed", "done", "hello"], ["/dev/null"] * len(closed)]
    assert json.loads(report.read_text()) == expected
    for log in cli_env.state.glob("projects/*/*/runs/*/events.jsonl"):
        kinds: list[Any] = [type(record.event).__name__ for record in read_log(str(log))]
        assert (kinds[0], kinds[-1]) == ("RunStarted", "RunEnded")
    assert [lock.read_bytes() for lock in cli_env.state.rglob("lock")] == [b""] * 4
