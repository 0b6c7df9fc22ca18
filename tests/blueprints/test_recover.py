"""A blueprint whose process was killed goes on where it stood: nothing that has finished is done again."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cli_env import processes_of

from .conftest import Blueprints

# Commands that were interrupted are run again: what they do must bear that. Agents' turns are never doubled.
TEXT = """
[nodes.before]
kind = "command"
run = "touch before; echo seen"
outputs = { seen = "stdout" }
[nodes.work]
kind = "agent"
agent = "scripted"
prompt = "work: {{seen}}"
[nodes.test]
kind = "check"
run = "test $(wc -l < turns) -ge 2"
after = ["work"]
[loops.again]
nodes = ["work", "test"]
until = "test"
"""
TURN = '[[call]]\nrun = "echo x >> turns"\n[[call]]\nsay = "Done."\n'
MOMENTS = (
    *("run_started", "node_started", "node_output", "node_ended"),
    *("node_started", "node_output", "node_ended", "node_started", "node_ended"),
    *("node_started", "node_output", "node_ended", "node_started", "node_ended"),
)


def die_at(blueprints: Blueprints, number: int) -> str:
    done = meet(blueprints, "kill", number)
    assert done.returncode == -9, done.stderr
    (lost,) = blueprints.list_ids()
    return lost


def meet(blueprints: Blueprints, what: str, number: int) -> "subprocess.CompletedProcess[str]":
    """Runs a blueprint to which something happens after so many records."""
    cli_env = blueprints.cli_env
    script = str(Path(__file__).with_name("die_at.py"))
    words = (what, str(number), str(cli_env.work), cli_env.scenario(TURN), blueprints.write(TEXT))
    argv = [sys.executable, script, *words]
    return subprocess.run(argv, env=cli_env.env, cwd=cli_env.work, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("index", range(len(MOMENTS)), ids=[f"{at}-{kind}" for at, kind in enumerate(MOMENTS)])
def test_it_goes_on_from_every_event_of_its_log(blueprints: Blueprints, index: int) -> None:
    cli_env = blueprints.cli_env
    lost = die_at(blueprints, index + 1)
    assert tuple(cli_env.kinds(lost)) == MOMENTS[: index + 1]
    done = cli_env.inspan("recover", "--yes")
    assert done.returncode == 0, done.stderr
    new = done.stdout.strip()
    cli_env.wait_for_end(new)
    assert cli_env.events(new)[-1]["reason"] == "done", cli_env.events(new)
    assert (cli_env.events(lost)[-1]["outcome"], cli_env.events(new)[0]["continues"]) == ("lost", lost)
    assert (cli_env.work / "turns").read_text() == "x\nx\n"
    finished = {(each["node"], each.get("round", 1)) for each in blueprints.select(lost, "node_ended")}
    again = {(each["node"], each.get("round", 1)) for each in blueprints.select(new, "node_ended")}
    assert finished & again == set()
    assert finished | again == {("before", 1), ("work", 1), ("test", 1), ("work", 2), ("test", 2)}
    assert cli_env.inspan("recover", "--yes").stderr == "inspan: nothing was lost here\n"
    assert all(processes_of(run) == [] for run in blueprints.describe_runs())


def test_the_time_of_a_node_that_was_killed_is_counted_too(blueprints: Blueprints) -> None:
    cli_env = blueprints.cli_env
    lost = blueprints.start('timeout = "1m"\n[nodes.slow]\nkind = "command"\nrun = "sleep 600"\n')
    cli_env.wait_for_events(lost, "node_started")
    active_s = cli_env.kill_in_silence(lost)
    described = blueprints.describe_runs()[lost]
    described["blueprint"]["timeout"] = f"{active_s - 0.5:.3f}s"
    (cli_env.folder(lost) / "run.json").write_text(json.dumps(described))
    new = cli_env.inspan("recover", "--yes").stdout.strip()
    assert active_s <= cli_env.events(lost)[-1]["duration_s"] + 0.001
    cli_env.wait_for_end(new)
    assert cli_env.events(new)[-1]["reason"] == "run_timeout"
    assert [each["status"] for each in blueprints.select(new, "node_ended")] in ([], ["failed"])


def test_many_who_recover_at_once_go_on_once(blueprints: Blueprints) -> None:
    cli_env = blueprints.cli_env
    lost = die_at(blueprints, 6)
    with ThreadPoolExecutor(4) as pool:
        done = [each.result() for each in [pool.submit(cli_env.inspan, "recover", "--yes") for _ in range(4)]]
    assert [each.returncode for each in done] == [0] * 4, [each.stderr for each in done]
    (new,) = {each.stdout.strip() for each in done} - {""}
    cli_env.wait_for_end(new)
    assert blueprints.list_ids() == [lost, new]
    assert (cli_env.work / "turns").read_text() == "x\nx\n"
