"""A disk that is really full: a small file system of its own, and an agent that floods it."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from inspan.protocol.events import RunEnded
from inspan.stores.event_log import read_log
from tests.cli_env import CliEnv, wait_until
from tests.conftest import skip
from tests.running.fake_agent import Fake, fake_agent_env, find_processes

# A page less than the reserve: the log's own last page may be as good as full.
_RESERVED_BYTES = 12 * 1024 - 200
_FLOOD = """
begin()
while True: say("flood " * {words})
"""


def _on_a_small_disk(cli_env: CliEnv, script: str, *, size: str) -> subprocess.CompletedProcess[str]:
    """Runs a script whose state folder is a disk of that size; what is on it in the end is kept in `kept`."""
    alone = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    if subprocess.run([*alone, "true"], check=False).returncode:
        skip("no-namespaces")
    state = shlex.quote(cli_env.env["XDG_STATE_HOME"])
    kept = shlex.quote(str(cli_env.root / "kept"))
    text = f"mount -t tmpfs -o {size} small {state} || exit 99\n{script}\ncode=$?\ncp -a {state} {kept}\nexit $code"
    return subprocess.run(
        [*alone, "sh", "-c", text],
        env=cli_env.env,
        cwd=cli_env.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def _inspan(cli_env: CliEnv, *arguments: str) -> str:
    return shlex.join(cli_env.argv(*arguments))


@pytest.mark.parametrize("way", ["bwrap", "unshare", "reaper"])
def test_an_agent_that_floods_the_disk_ends_as_a_failure_of_the_store(
    cli_env: CliEnv, fake: Fake, tmp_path: Path, way: str
) -> None:
    cli_env.env |= {**fake_agent_env(fake, _FLOOD.format(words=200)), "INSPAN_CONTAINMENT": way}
    done = _on_a_small_disk(
        cli_env, _inspan(cli_env, "run", "flood", "-a", "codex", "--profile", "user", "-q"), size="size=512k"
    )
    assert done.returncode == 1, done.stderr
    wait_until(lambda: not find_processes(str(tmp_path / "puppet")), "empty house")
    (folder,) = (cli_env.root / "kept").glob("inspan/projects/*/*/runs/*")
    events = [record.event for record in read_log(str(folder / "events.jsonl"))]
    last = events[-1]
    assert isinstance(last, RunEnded)
    assert (last.outcome, last.reason) == ("failed", "store")
    assert "No space left on device" in last.message
    assert last.next == "Free disk space, then run the task again."
    assert [event for event in events if isinstance(event, RunEnded)] == [last]
    assert "Traceback" not in done.stderr + (folder / "supervisor.log").read_text()


def test_a_run_whose_disk_was_full_is_listed_once_there_is_room(cli_env: CliEnv, fake: Fake) -> None:
    cli_env.env |= fake_agent_env(fake, _FLOOD.format(words=200))
    script = "\n".join(
        [
            _inspan(cli_env, "run", "flood", "-a", "codex", "--profile", "user", "-q") + " 2>&1",
            f"rm {shlex.quote(cli_env.env['XDG_STATE_HOME'])}/inspan/projects/*/*/runs/*/stdout",
            _inspan(cli_env, "ps", "-a", "--json"),
        ]
    )
    done = _on_a_small_disk(cli_env, script, size="size=512k")
    assert done.returncode == 0, done.stderr
    (listed,) = json.loads(done.stdout.splitlines()[-1])["runs"]
    assert (listed["outcome"], listed["reason"], listed["alive"]) == ("failed", "store", False)
    assert list((cli_env.root / "kept").glob("inspan/active/*")) == []


def test_the_room_that_was_kept_holds_a_last_record_when_not_a_byte_is_left(cli_env: CliEnv) -> None:
    script = f"""
import os
from inspan.protocol.events import TextSaid
from inspan.protocol.wire import encode
from inspan.stores.event_log import RunLog, read_log
path = os.environ["XDG_STATE_HOME"] + "/log"
log = RunLog(path)
with open(path + ".filler", "wb", buffering=0) as filler:
    try:
        while True: filler.write(b"x" * 4096)
    except OSError: pass
refused = 0
while not refused:
    log.append(encode(TextSaid(text="y" * 1000)))
    try: log.flush()
    except OSError: refused += 1
log.write_last_record(encode(TextSaid(text="z" * {_RESERVED_BYTES})))
log.close()
assert len(read_log(path)[-1].event.text) == {_RESERVED_BYTES}
"""
    done = _on_a_small_disk(cli_env, shlex.join([sys.executable, "-c", script]), size="size=256k")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("size", ["size=8k", "size=40k", *(f"nr_inodes={count},size=4m" for count in range(2, 18, 3))])
def test_a_disk_that_is_too_small_from_the_start_is_told_in_a_sentence(
    cli_env: CliEnv, fake: Fake, tmp_path: Path, size: str
) -> None:
    cli_env.env |= fake_agent_env(fake, _FLOOD.format(words=200))
    done = _on_a_small_disk(
        cli_env, _inspan(cli_env, "run", "flood", "-a", "codex", "--profile", "user", "-q"), size=size
    )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "inspan broke" not in done.stderr
    wait_until(lambda: not find_processes(str(tmp_path / "puppet")), "empty house")


def test_a_state_folder_on_a_read_only_disk_is_told_in_a_sentence(cli_env: CliEnv, fake: Fake) -> None:
    cli_env.env |= fake_agent_env(fake, "begin(); finish()")
    done = _on_a_small_disk(cli_env, _inspan(cli_env, "run", "x", "-a", "codex", "--profile", "user"), size="ro")
    assert done.returncode == 1
    assert f"Cannot use {cli_env.state}: Read-only file system" in done.stderr
    assert "XDG_STATE_HOME" in done.stderr


def _with_old_runs(cli_env: CliEnv, *then: str) -> str:
    """A script that makes three runs and an index of them, keeps that index, and goes on."""
    run = _inspan(cli_env, "run", "x", "-a", "codex", "--profile", "user", "-q")
    index = shlex.quote(f"{cli_env.env['XDG_STATE_HOME']}/inspan/index.db")
    kept = shlex.quote(str(cli_env.root / "index.db"))
    return "\n".join(["set -e", *[run] * 3, f"cp {index} {kept}", "set +e", *then])


def _fill_up(cli_env: CliEnv) -> str:
    state = shlex.quote(cli_env.env["XDG_STATE_HOME"])
    last = f"dd if=/dev/zero of={state}/filler bs=1 oflag=append conv=notrunc 2>&-"
    return f"cat /dev/zero >{state}/filler 2>{state}/refusal; {last}"


def _remount(cli_env: CliEnv) -> str:
    # By its size as well: an ordinary user's mount may not be changed from what it was.
    state = shlex.quote(cli_env.env["XDG_STATE_HOME"])
    remount = f"mount -o remount,ro,size=4m small {state}"
    # As long as a supervisor that is about to leave has its log open, the disk is busy.
    return f"tries=0; until {remount} 2>&-; do tries=$((tries+1)); test $tries -lt 1200 || exit 99; sleep 0.1; done"


_WRITERS = ["reindex", "rm @last", "prune --yes --older-than 2999-01-01", "run x -a codex --profile user -q"]


@pytest.mark.parametrize("command", _WRITERS)
@pytest.mark.parametrize("disk", ["full", "read-only"])
def test_a_command_that_cannot_write_says_so_and_spoils_nothing(
    cli_env: CliEnv, fake: Fake, disk: str, command: str
) -> None:
    cli_env.env |= fake_agent_env(fake, "begin(); say('hi'); finish()")
    spoil = _fill_up(cli_env) if disk == "full" else _remount(cli_env)
    ended = "code=$?; test $code -lt 2 || exit 98"
    look = [f"{_inspan(cli_env, *words)} 2>&1" for words in (["ps", "-aq"], ["show"])]
    then = [spoil, _inspan(cli_env, *command.split()), ended, "echo the rest:", *look]
    done = _on_a_small_disk(cli_env, _with_old_runs(cli_env, *then), size="size=4m")
    # Deleting needs no room: on a full disk all that was to be deleted is gone, and there is no run to show.
    deleted_all = disk == "full" and command.startswith("prune")
    assert done.returncode == (2 if deleted_all else 0), done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "broke" not in done.stderr
    listed = done.stdout.partition("the rest:\n")[2].splitlines()
    ids = [line for line in listed if re.fullmatch(r"\d{8}-\d{9}-\d+", line)]
    assert not ids if deleted_all else len(ids) >= 2


@pytest.mark.parametrize("disk", ["full", "read-only"])
def test_an_index_that_cannot_be_rebuilt_stays_as_it_was(cli_env: CliEnv, fake: Fake, disk: str) -> None:
    cli_env.env |= fake_agent_env(fake, "begin(); say('hi'); finish()")
    lose_one = f"rm -r {shlex.quote(cli_env.env['XDG_STATE_HOME'])}/inspan/projects/*/*/runs/*1-* ; true"
    spoil = _fill_up(cli_env) if disk == "full" else _remount(cli_env)
    reindex = _inspan(cli_env, "reindex", "--json")
    done = _on_a_small_disk(cli_env, _with_old_runs(cli_env, lose_one, spoil, reindex), size="size=4m")
    if done.returncode:
        error = json.loads(done.stderr.splitlines()[-1])["error"]
        assert (done.returncode, error["code"]) == (1, "state_unusable")
        assert "reindex" not in error["next"]
        assert (cli_env.root / "kept/inspan/index.db").read_bytes() == (cli_env.root / "index.db").read_bytes()
        assert list((cli_env.root / "kept/inspan").glob("*.draft*")) == []
    else:
        assert disk == "full"


def test_a_lost_run_is_told_on_a_full_disk_in_the_room_that_was_kept(cli_env: CliEnv, fake: Fake) -> None:
    cli_env.env |= fake_agent_env(fake, "begin(); time.sleep(86400)")
    state = shlex.quote(cli_env.env["XDG_STATE_HOME"])
    script = "\n".join(
        [
            f"run=$({_inspan(cli_env, 'run', 'x', '-a', 'codex', '--profile', 'user', '-d')})",
            f"while ! grep -q turn_started {state}/inspan/projects/*/*/runs/$run/events.jsonl; do sleep 0.05; done",
            f"for fd in /proc/[0-9]*/fd/1; do case $(readlink $fd) in {state}/*/$run/supervisor.log)"
            " pid=${fd#/proc/}; kill -9 ${pid%%/*};; esac; done",
            _fill_up(cli_env),
            f"{_inspan(cli_env, 'wait')} $run",
        ]
    )
    done = _on_a_small_disk(cli_env, script, size="size=2m")
    assert (done.returncode, "lost supervisor_lost" in done.stdout) == (1, True), done.stderr


_HEARS = """
import asyncio, os, inspan
heard = []
task = inspan.Task(prompt="flood", cwd=os.getcwd(), agent="codex")
result = asyncio.run(inspan.run(task, on_event=heard.append))
ends = [event for event in heard if isinstance(event, inspan.RunEnded)]
print(result.reason, len(ends), heard[-1] == ends[0], ends[0].reason)
"""


def test_a_program_hears_the_end_of_a_run_on_a_full_disk(cli_env: CliEnv, fake: Fake) -> None:
    cli_env.env |= fake_agent_env(fake, _FLOOD.format(words=200))
    done = _on_a_small_disk(cli_env, shlex.join([sys.executable, "-c", _HEARS]), size="size=512k")
    assert (done.stdout, done.returncode) == ("store 1 True store\n", 0), done.stderr


def _run_hello(cli_env: CliEnv) -> str:
    scenario = cli_env.scenario('[[call]]\nsay = "hello"\n')
    return _inspan(cli_env, "run", "say hello", "-q", "-a", "scripted", "--profile", "clean", "--model-from", scenario)


def _list_kept(cli_env: CliEnv, pattern: str) -> list[str]:
    return sorted(path.name for path in (cli_env.root / "kept" / "inspan").glob(pattern))


def test_old_runs_can_be_deleted_from_a_full_disk(cli_env: CliEnv) -> None:
    steps = [
        *[_run_hello(cli_env)] * 3,
        _fill_up(cli_env),
        _inspan(cli_env, "rm", "@last"),
        _fill_up(cli_env),
        _inspan(cli_env, "prune", "--older-than", "0d", "--yes", "--json"),
        _inspan(cli_env, "ps", "-a", "-q", "--all"),
    ]
    done = _on_a_small_disk(cli_env, "\n".join(steps), size="size=3m")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    pruned = json.loads(done.stdout.splitlines()[-1])
    assert (len(pruned["runs"]), pruned["problems"]) == (2, [])
    assert [_list_kept(cli_env, pattern) for pattern in ("projects/*/*/runs/*", "sessions/*", "active/*")] == [[]] * 3


def test_an_index_that_was_begun_on_a_full_disk_reads_as_empty(cli_env: CliEnv) -> None:
    begun = shlex.quote(str(cli_env.state / "index.db"))
    steps = [_run_hello(cli_env), f": > {begun}", _fill_up(cli_env), _inspan(cli_env, "ps", "-a")]
    done = _on_a_small_disk(cli_env, "\n".join(steps), size="size=3m")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_a_ledger_on_a_full_disk_is_not_to_be_given_up(cli_env: CliEnv) -> None:
    steps = [_run_hello(cli_env), _fill_up(cli_env), _inspan(cli_env, "cost"), _inspan(cli_env, "budget")]
    done = _on_a_small_disk(cli_env, "\n".join(steps), size="size=3m")
    assert done.returncode == 1
    steps = {line for line in done.stderr.splitlines() if line.startswith("  →")}
    assert steps == {"  → Free some space on its disk, or check that disk, then try again."}
