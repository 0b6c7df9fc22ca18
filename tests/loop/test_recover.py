"""What was lost goes on, once: loops and runs whose processes were killed at every moment."""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.cli_env import CliEnv, kill_process, processes_of, wait_until

from .conftest import Loops
from .test_loops import COUNT_UP, IDLE, SAY

CHECK = 'test "$(cat n)" -ge 2'
# What the log of a loop says that counts to two. Killed after each of them, it goes on.
MOMENTS = (
    *("run_started", "attempt_started", "attempt_ended", "check_started", "check_ended", "wait_started"),
    *("attempt_started", "attempt_ended", "check_started", "check_ended"),
)


def die_at(cli_env: CliEnv, number: int, model: str) -> str:
    """Runs a loop until its log has so many records; gives its id."""
    assert meet(cli_env, "kill", number, model) == -9
    return find_first(cli_env)


def meet(cli_env: CliEnv, what: str, number: int, model: str) -> int:
    """Runs a loop to which something happens after so many records; gives its exit code."""
    script = str(Path(__file__).with_name("die_at.py"))
    argv = [sys.executable, script, what, str(number), str(cli_env.work), model, CHECK]
    return subprocess.run(argv, env=cli_env.env, cwd=cli_env.work, capture_output=True, check=False).returncode


def find_first(cli_env: CliEnv) -> str:
    return sorted(path.name for path in cli_env.state.glob("projects/*/*/runs/*"))[0]


def describe_runs(cli_env: CliEnv) -> dict[str, dict[str, Any]]:
    found = [json.loads(path.read_text()) for path in cli_env.state.glob("projects/*/*/runs/*/run.json")]
    return {each["run_id"]: each for each in found}


def find_continuing(cli_env: CliEnv, run_id: str) -> list[str]:
    return [name for name, each in describe_runs(cli_env).items() if each["task"].get("continues") == run_id]


def count_turns(cli_env: CliEnv) -> int:
    """How often an agent was at work, in whichever run."""
    return sum(cli_env.kinds(run).count("tool_completed") for run in describe_runs(cli_env))


@pytest.mark.parametrize("index", range(len(MOMENTS)), ids=[f"{at}-{kind}" for at, kind in enumerate(MOMENTS)])
def test_a_loop_goes_on_from_every_event_of_its_log(cli_env: CliEnv, index: int) -> None:
    lost = die_at(cli_env, index + 1, cli_env.scenario(COUNT_UP))
    assert tuple(cli_env.kinds(lost)) == MOMENTS[: index + 1]
    listed = cli_env.inspan("ps", "-a").stdout
    assert "lost" in listed
    done = cli_env.inspan("recover", "--yes")
    assert done.returncode == 0, done.stderr
    (new,) = find_continuing(cli_env, lost)
    assert done.stdout.strip() == new
    cli_env.wait_for_end(new)
    assert cli_env.events(new)[-1]["reason"] == "done"
    assert (cli_env.events(lost)[-1]["outcome"], cli_env.events(new)[0]["continues"]) == ("lost", lost)
    assert ((cli_env.work / "n").read_text(), count_turns(cli_env)) == ("2\n", 2)
    again = cli_env.inspan("recover", "--yes")
    assert (again.stdout, again.stderr) == ("", "inspan: nothing was lost here\n")
    assert all(processes_of(run) == [] for run in describe_runs(cli_env))


def test_a_continued_loop_counts_the_restarts_and_the_time_of_the_lost_one(loops: Loops) -> None:
    cli_env = loops.cli_env
    lost = die_at(cli_env, 6, cli_env.scenario(COUNT_UP))
    policy = describe_runs(cli_env)[lost]
    policy["policy"]["max_restarts"] = 0
    path = next(cli_env.state.glob(f"projects/*/*/runs/{lost}/run.json"))
    path.write_text(json.dumps(policy))
    cli_env.inspan("ps", "-a")
    new = cli_env.inspan("recover", "--yes").stdout.strip()
    cli_env.wait_for_end(new)
    assert cli_env.events(new)[-1]["reason"] == "max_restarts"
    assert count_turns(cli_env) == 1


def test_the_time_of_a_check_that_was_killed_is_counted_too(loops: Loops) -> None:
    cli_env = loops.cli_env
    loop = loops.start("--check", "sleep 600", "--max-time", "1m", model=cli_env.scenario(SAY))
    cli_env.wait_for_events(loop.run_id, "check_started")
    active_s = cli_env.kill_in_silence(loop.run_id)
    described = describe_runs(cli_env)[loop.run_id]
    described["policy"]["time_limit_s"] = active_s - 0.5
    (cli_env.folder(loop.run_id) / "run.json").write_text(json.dumps(described))
    new = cli_env.inspan("recover", "--yes").stdout.strip()
    assert active_s <= loop.ended["duration_s"] + 0.001
    cli_env.wait_for_end(new)
    assert cli_env.events(new)[-1]["reason"] == "run_timeout"
    assert "attempt_started" not in cli_env.kinds(new)


def test_a_loop_whose_rules_are_broken_keeps_no_other_from_going_on(cli_env: CliEnv) -> None:
    broken = die_at(cli_env, 3, cli_env.scenario(COUNT_UP))
    described = describe_runs(cli_env)[broken]
    described["policy"]["max_restarts"] = 1.5
    (cli_env.folder(broken) / "run.json").write_text(json.dumps(described))
    assert meet(cli_env, "kill", 3, cli_env.scenario(COUNT_UP)) == -9
    (cli_env.work / "n").unlink()
    done = cli_env.inspan("recover", "--yes")
    assert done.returncode == 0 and "its rules cannot be used: max_restarts 1.5: Expected" in done.stderr, done.stderr
    cli_env.wait_for_end(new := done.stdout.strip())
    assert (cli_env.events(new)[-1]["reason"], find_continuing(cli_env, broken)) == ("done", [])


def test_many_who_recover_at_once_go_on_once(cli_env: CliEnv) -> None:
    lost = die_at(cli_env, 3, cli_env.scenario(COUNT_UP))
    with ThreadPoolExecutor(4) as pool:
        done = [each.result() for each in [pool.submit(cli_env.inspan, "recover", "--yes") for _ in range(4)]]
    assert [each.returncode for each in done] == [0] * 4, [each.stderr for each in done]
    (new,) = find_continuing(cli_env, lost)
    assert [each.stdout.strip() for each in done if each.stdout.strip()] == [new]
    cli_env.wait_for_end(new)
    assert count_turns(cli_env) == 2


def test_a_run_whose_supervisor_was_killed_goes_on_in_its_session(cli_env: CliEnv) -> None:
    lost = cli_env.detach("codex", '[[call]]\nrun = "touch first"\n' + IDLE)
    cli_env.wait_for_events(lost, "tool_completed")
    kill_process(cli_env.supervisor(lost))
    cli_env.scenario(SAY)
    told = cli_env.inspan("show", lost).stdout
    assert "inspan recover" in told
    new = cli_env.inspan("recover", "--yes").stdout.strip()
    cli_env.wait_for_end(new)
    first, last = cli_env.events(new)[0], cli_env.events(new)[-1]
    assert (first["continues"], first["resumes"], last["reason"]) == (lost, lost, "done")
    assert cli_env.inspan("recover", "--yes").stdout == ""


def test_what_somebody_resumed_is_left_alone(cli_env: CliEnv) -> None:
    lost = cli_env.detach("codex", '[[call]]\nrun = "touch first"\n' + IDLE)
    cli_env.wait_for_events(lost, "tool_completed")
    kill_process(cli_env.supervisor(lost))
    model = cli_env.scenario(SAY)
    words = ("resume", lost, "go on", "--profile", "clean", "--model-from", model)
    assert cli_env.inspan(*words).returncode == 0
    assert cli_env.inspan("recover", "--yes").stdout == ""


def test_a_loop_that_goes_on_says_what_it_waits_for(cli_env: CliEnv) -> None:
    limit = '[[call]]\nfail = {status = 429, headers = {retry-after = "3600"}}\nrepeat = "always"\n'
    die_at(cli_env, 4, cli_env.scenario(limit))  # After `wait_started`.
    new = cli_env.inspan("recover", "--yes").stdout.strip()
    cli_env.wait_for_events(new, "wait_started")
    assert re.search(r"rate limited.*(59m|1h00m)", listed := cli_env.inspan("ps").stdout), listed
    assert "is limited by its provider" in cli_env.events(new)[1]["why"]
    cli_env.inspan("stop", new)


def test_the_name_of_a_lost_loop_leads_to_what_goes_on_with_it(loops: Loops) -> None:
    cli_env = loops.cli_env
    limit = '[[call]]\nfail = {status = 429, headers = {retry-after = "3600"}}\nrepeat = "always"\n'
    lost = loops.start("--name", "nn1", model=cli_env.scenario(limit)).run_id
    cli_env.wait_for_events(lost, "wait_started")
    kill_process(cli_env.supervisor(lost))
    new = cli_env.inspan("recover", "nn1", "--yes").stdout.strip()
    cli_env.wait_for_events(new, "wait_started")
    told = cli_env.inspan("show", lost).stdout
    assert f"{new} goes on with it: `inspan show {new}`." in told and "inspan recover" not in told, told
    by_id = cli_env.inspan("stop", lost)
    assert (by_id.stdout, by_id.stderr) == (
        f"{lost} lost\n",
        f"inspan: {new} goes on with it: `inspan stop {new}`\n",
    )
    assert cli_env.inspan("stop", "nn1").stdout == f"{new} cancelled\n"
    assert f"{new} goes on with it" in cli_env.inspan("show", "nn1").stdout


def test_a_loop_that_goes_on_with_a_run_says_so(loops: Loops) -> None:
    cli_env = loops.cli_env
    loop = loops.start(model=cli_env.scenario(IDLE))
    wait_until(lambda: "attempt_started" in loop.kinds, "first attempt")
    cli_env.supervisor(loop.runs[0])
    kill_process(cli_env.supervisor(loop.run_id))
    new = cli_env.inspan("recover", "--yes").stdout.strip()
    listed = cli_env.inspan("ps").stdout
    assert "attempt 1, run" in listed, listed
    cli_env.inspan("stop", new)


def test_inside_of_a_run_what_was_started_there_goes_on_and_is_waited_for(cli_env: CliEnv) -> None:
    lost = die_at(cli_env, 3, cli_env.scenario(COUNT_UP, "counting"))
    recover = f"{sys.executable} -m inspan recover --yes"
    words = f"{recover} > unnamed 2> told; {recover} {lost} > named"
    cli_env.wait_for_end(cli_env.detach("codex", f'[[call]]\nrun = "{words}"\n' + SAY))
    assert (cli_env.work / "unnamed").read_text() == ""
    assert (cli_env.work / "told").read_text() == "inspan: nothing was lost here\n"
    new = (cli_env.work / "named").read_text().strip()
    assert [new] == find_continuing(cli_env, lost)
    assert (cli_env.events(new)[-1]["reason"], count_turns(cli_env)) == ("done", 3)


def test_what_was_lost_of_a_run_goes_on_in_it(cli_env: CliEnv) -> None:
    cli_env.env["JRUN_ID"] = "20260101-000000000-1"
    lost = die_at(cli_env, 3, cli_env.scenario(COUNT_UP))
    done = cli_env.inspan("recover", "--yes")
    (new,) = find_continuing(cli_env, lost)
    assert (done.returncode, done.stdout.strip()) == (0, new), done.stderr
    assert "waiting for its end" in done.stderr and cli_env.events(new)[-1]["reason"] == "done"


def test_without_a_yes_nothing_goes_on(cli_env: CliEnv) -> None:
    lost = die_at(cli_env, 3, cli_env.scenario(COUNT_UP))
    looked = cli_env.inspan("recover", "--dry-run")
    assert looked.returncode == 0 and lost in looked.stderr
    refused = cli_env.inspan("recover")
    assert refused.returncode == 2 and "use --yes to go on" in refused.stderr
    assert find_continuing(cli_env, lost) == []


def test_a_task_with_a_secret_says_why_it_cannot_go_on(loops: Loops) -> None:
    cli_env = loops.cli_env
    loop = loops.start("--env", "MY_API_KEY=sk-very-secret-0123456789", model=cli_env.scenario(IDLE))
    wait_until(lambda: "attempt_started" in loop.kinds, "first attempt")
    kill_process(cli_env.supervisor(loop.run_id))
    told = cli_env.inspan("recover", "--yes")
    assert (told.returncode, told.stdout) == (0, "")
    assert "its task held a secret, which is not stored: start it again" in told.stderr
    cli_env.inspan("stop", loop.runs[0])


def test_a_run_that_lives_or_has_ended_is_not_recovered(cli_env: CliEnv) -> None:
    done = cli_env.run("scripted", SAY)
    refused = cli_env.inspan("recover", done.run_id, "--yes")
    assert refused.returncode == 2
    assert f"Run {done.run_id} is none that was lost and waits to go on." in refused.stderr
