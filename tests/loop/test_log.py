"""The log of a loop, cut, refused by the disk, read at another time of day: it is a prefix, and the loop goes on."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from inspan.errors import RunBusy
from inspan.folds.loop import LoopFold, LoopState
from inspan.protocol.events import RunEnded
from inspan.protocol.wire import Record
from inspan.stores.event_log import iter_log, read_log
from inspan.stores.run_folder import lock_run, open_folder
from tests.cli_env import CliEnv, processes_of, wait_until
from tests.conftest import skip

from .conftest import Loops
from .test_loops import COUNT_UP, IDLE, write_scripts
from .test_recover import count_turns, die_at, find_continuing, find_first, meet

CHECK = 'test "$(cat n)" -ge 2'


def fold(records: list[Record]) -> LoopState:
    folded = LoopFold()
    for record in records:
        folded.add(record)
    return folded.state


def test_a_log_that_is_cut_at_any_byte_is_a_prefix(loops: Loops, tmp_path: Path) -> None:
    loop = loops.run("--check", CHECK, model=loops.cli_env.scenario(COUNT_UP))
    whole = (loops.cli_env.folder(loop.run_id) / "events.jsonl").read_bytes()
    path = tmp_path / "cut"
    path.write_bytes(whole)
    records = read_log(str(path))
    assert len(records) == 11
    ends = [at + 1 for at, byte in enumerate(whole) if byte == 10]
    for cut in range(len(whole), -1, -1):
        os.truncate(path, cut)
        found = list(iter_log(str(path)))
        assert found == records[: sum(end <= cut for end in ends)]
        if cut in ends:
            assert fold(found) == fold(records[: len(found)])


@pytest.mark.parametrize("kept", [1, 40, -1], ids=["a byte", "a part", "all but its end"])
def test_a_loop_goes_on_from_a_log_with_half_a_record(cli_env: CliEnv, kept: int) -> None:
    lost = die_at(cli_env, 4, cli_env.scenario(COUNT_UP))
    log = cli_env.folder(lost) / "events.jsonl"
    *_, last = log.read_bytes().splitlines(keepends=True)
    os.truncate(log, log.stat().st_size - len(last) + len(last[:kept]))
    new = cli_env.inspan("recover", "--yes").stdout.strip()
    cli_env.wait_for_end(new)
    assert (cli_env.events(new)[-1]["reason"], count_turns(cli_env)) == ("done", 2)
    assert cli_env.kinds(lost) == ["run_started", "attempt_started", "attempt_ended", "run_ended"]


@pytest.mark.parametrize("number", [2, 3, 5])
def test_a_disk_that_gives_errors_is_told_and_recovered_from(cli_env: CliEnv, number: int) -> None:
    assert meet(cli_env, "broken", number, cli_env.scenario(COUNT_UP)) == 0
    ended = cli_env.events(find_first(cli_env))[-1]
    assert (ended["outcome"], ended["reason"]) == ("failed", "store")
    assert "Input/output error" in ended["message"]
    assert ended["next"] == "Free disk space, then go on with it: `inspan recover`."
    new = cli_env.inspan("recover", "--yes").stdout.strip()
    cli_env.wait_for_end(new)
    assert cli_env.events(new)[-1]["reason"] == "done"
    assert cli_env.inspan("recover", "--yes").stdout == ""
    assert count_turns(cli_env) == 2


def test_a_full_disk_is_told_and_recovered_from_once_there_is_room(cli_env: CliEnv) -> None:
    alone = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    if subprocess.run([*alone, "true"], check=False).returncode:
        skip("no-namespaces")
    state, kept = cli_env.env["XDG_STATE_HOME"], cli_env.root / "kept"
    check = f"test -e freed || {{ cat /dev/zero > {state}/filler; false; }}"
    words = ("--profile", "clean", "--delay", "0s", "--no-progress", "0", "--model-from", cli_env.scenario(COUNT_UP))
    loop = shlex.join(cli_env.argv("loop", "count", "-a", "scripted", "--check", check, *words))
    recover, wait, again = (
        shlex.join(cli_env.argv(*each)) for each in (("recover", "--yes"), ("wait", "@last"), ("recover", "--dry-run"))
    )
    script = "\n".join(
        [
            f"mount -t tmpfs -o size=2m small {state} || exit 99",
            f"{loop}; echo $?",
            f"{recover}; echo $?",
            f"rm {state}/filler; touch freed",
            f"{wait.replace('@last', f'$({recover})')}; echo $?",
            f"{again}",
            f"cp -a {state} {kept}",
        ]
    )
    done = subprocess.run(
        [*alone, "sh", "-c", script], env=cli_env.env, cwd=cli_env.work, capture_output=True, text=True, check=False
    )
    assert [line for line in done.stdout.split() if line.isdigit()] == ["1", "1", "0"], done.stderr
    assert "Traceback" not in done.stderr
    assert "inspan: nothing was lost here" in done.stderr
    logs = [read_log(str(path)) for path in kept.glob("inspan/projects/*/*/runs/*/events.jsonl")]
    assert all(records and isinstance(records[-1].event, RunEnded) for records in logs)


# Time


@pytest.mark.parametrize("when", ["earlier", "later"])
def test_a_clock_that_is_set_by_a_day_neither_ends_a_wait_nor_makes_it_longer(cli_env: CliEnv, when: str) -> None:
    assert meet(cli_env, when, 6, cli_env.scenario(COUNT_UP)) == 0  # After `wait_started`.
    loop = cli_env.events(find_first(cli_env))
    assert (loop[-1]["reason"], count_turns(cli_env)) == ("done", 2)
    assert 0 <= loop[-1]["duration_s"] < 3600


def test_a_clock_that_is_set_right_in_a_wait_ends_no_later_wait(cli_env: CliEnv) -> None:
    limit = '[[call]]\nfail = {status = 429}\nrepeat = "always"\n'
    scripts = {"scripted_1": limit, "scripted_2": limit, "scripted_3": COUNT_UP.replace("echo 0", "echo 1")}
    assert meet(cli_env, "right", 4, write_scripts(cli_env, **scripts)) == 0  # After the first `wait_started`.
    loop = cli_env.kinds(find_first(cli_env))
    assert [kind for kind in loop if kind in ("attempt_ended", "wait_started")] == [
        *("attempt_ended", "wait_started", "attempt_ended", "wait_started", "attempt_ended")
    ]


def test_a_limit_is_counted_from_the_end_of_the_run_that_met_it(cli_env: CliEnv) -> None:
    limit = '[[call]]\nfail = {status = 429, headers = {retry-after = "1"}}\nrepeat = "always"\n'
    scripts = {"scripted_1": limit, "scripted_2": COUNT_UP.replace("echo 0", "echo 1")}
    assert meet(cli_env, "behind", 0, write_scripts(cli_env, **scripts)) == 0
    assert cli_env.events(find_first(cli_env))[-1]["reason"] == "done"


# Owners


def test_a_second_owner_is_kept_out(loops: Loops) -> None:
    cli_env = loops.cli_env
    loop = loops.start(model=cli_env.scenario(IDLE))
    wait_until(lambda: "attempt_started" in loop.kinds, "first attempt")
    with pytest.raises(RunBusy, match="has a writer already"):
        lock_run(open_folder(str(cli_env.folder(loop.run_id))))
    refused = cli_env.inspan("recover", loop.run_id, "--yes")
    assert refused.returncode == 2 and "is none that was lost" in refused.stderr
    assert find_continuing(cli_env, loop.run_id) == []
    cli_env.inspan("stop", loop.run_id)
    assert processes_of(loop.runs[0]) == []
