"""Nothing that a run starts survives it, by each way of containment, however the run ends, whoever runs it."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from inspan.sandboxes.containment import WAYS
from inspan.transports.spawn import agent_pid
from tests.engine.puppet import Fake, detach, marked, puppet, wait_for
from tests.house import House, processes_of, until

_DEPTH = {way.name: way.depth for way in WAYS}
# By its prompt it ignores every polite signal (`resist`), goes and leaves its tree behind (`leave`), or stays.
_ACTS = """
begin()
grow({marker!r}, ignore=prompt == "resist")
say("grown")
if prompt == "leave":
    finish()
    os._exit(0)
while True: time.sleep(86400)
"""
# How it ends → the prompt, the options, and what the log then says.
_ENDINGS: dict[str, tuple[str, list[str], tuple[str, str]]] = {
    "stop": ("resist", [], ("cancelled", "stopped")),
    "kill": ("stay", [], ("cancelled", "killed")),
    "timeout": ("patient", ["--timeout", "3"], ("timed_out", "run_timeout")),
    "leave": ("leave", [], ("completed", "done")),
    "agent killed": ("stay", [], ("failed", "crashed")),
    "supervisor killed": ("stay", [], ("lost", "supervisor_lost")),
}


@pytest.fixture(params=["owner", "ordinary user"])
def anyones(request: pytest.FixtureRequest) -> House:
    return request.getfixturevalue("house" if request.param == "owner" else "user_house")


@pytest.mark.parametrize("ending", _ENDINGS)
def test_nothing_is_left_of_a_tree_that_does_not_want_to_die(
    anyones: House, fake: Fake, tmp_path: Path, ending: str
) -> None:
    prompt, more, expected = _ENDINGS[ending]
    env = puppet(fake, _ACTS.format(marker=f"{tmp_path}/nameless"))
    runs = {way: detach(anyones, env | {"INSPAN_CONTAINMENT": way}, *more, prompt=prompt) for way in _DEPTH}
    for run_id in runs.values():
        wait_for(anyones, run_id, "run_ended" if ending == "timeout" else "text_said")
    if prompt == "stay":
        assert len(marked(str(tmp_path))) >= 6 * len(runs), "the trees stand"
    _end(anyones, runs, ending)
    until(lambda: not any(map(processes_of, runs.values())) and not marked(str(tmp_path)), "empty house")
    assert {way: _verdict(anyones, run_id) for way, run_id in runs.items()} == dict.fromkeys(runs, expected)


def _end(house: House, runs: dict[str, str], ending: str) -> None:
    if ending in ("stop", "kill"):
        assert house.inspan(ending, *runs.values()).returncode == 0
    elif ending == "agent killed":
        for way, run_id in runs.items():
            os.kill(_agent(house, run_id, way), signal.SIGKILL)
    elif ending == "supervisor killed":
        for run_id in runs.values():
            os.kill(house.supervisor(run_id), signal.SIGKILL)


def _verdict(house: House, run_id: str) -> tuple[str, str]:
    house.inspan("wait", run_id)
    last = house.events(run_id)[-1]
    return last["outcome"], last["reason"]


def _agent(house: House, run_id: str, way: str) -> int:
    """The agent's own process: the supervisor's child, and as many below it as the way puts between."""
    supervisor = house.supervisor(run_id)
    root = agent_pid(supervisor, depth=1)
    assert root != supervisor
    agent = agent_pid(root, depth=_DEPTH[way])
    assert b"/puppet\0exec" in Path(f"/proc/{agent}/cmdline").read_bytes()
    return agent


@pytest.mark.parametrize("way", sorted(_DEPTH))
def test_an_agent_holds_nothing_of_inspan_but_its_own_three_pipes(house: House, fake: Fake, way: str) -> None:
    acts = """
begin()
for name in sorted(os.listdir("/proc/self/fd"), key=int):
    try: say(f"{name} " + os.readlink(f"/proc/self/fd/{name}").split(":")[0])
    except FileNotFoundError: pass
finish()
"""
    env = {**puppet(fake, acts), "INSPAN_CONTAINMENT": way}
    run_id = detach(house, env)
    wait_for(house, run_id, "run_ended")
    held = [event["text"] for event in house.events(run_id) if event["kind"] == "text_said"]
    assert held == ["0 /memfd", "1 pipe", "2 pipe"]


def test_a_run_holds_on_to_nothing_that_its_caller_left_open(house: House, fake: Fake) -> None:
    ours, theirs = os.pipe()
    done = subprocess.run(
        house.argv("run", "x", "-d", "-a", "codex", "--profile", "user"),
        env={**house.env, **puppet(fake, "begin()\nwhile True: time.sleep(86400)")},
        cwd=house.work,
        pass_fds=[theirs],
        capture_output=True,
        text=True,
        check=True,
    )
    os.close(theirs)
    run_id = done.stdout.strip()
    wait_for(house, run_id, "thread_started")
    os.set_blocking(ours, False)
    assert os.read(ours, 1) == b"", "the end of the pipe: nobody else holds it"
    os.close(ours)
    house.inspan("kill", run_id)


@pytest.mark.parametrize(
    ("code", "expected"), [("os._exit(0)", 0), ("os._exit(7)", 7), ("os.kill(os.getpid(), 9)", 137)]
)
@pytest.mark.parametrize("way", ["bwrap", "reaper"])
def test_the_agents_exit_code_passes_through(house: House, fake: Fake, way: str, code: str, expected: int) -> None:
    env = {**puppet(fake, f"begin()\n{code}"), "INSPAN_CONTAINMENT": way}
    run_id = detach(house, env)
    wait_for(house, run_id, "run_ended")
    assert house.events(run_id)[-1].get("exit_code") == expected


def test_a_reaper_lets_go_of_orphans_while_the_agent_works(house: House, fake: Fake) -> None:
    acts = """
begin()
for _ in range(20):
    if os.fork() == 0:
        if os.fork() == 0: os._exit(0)
        os._exit(0)
    os.wait()
say("orphans made")
while True: time.sleep(86400)
"""
    run_id = detach(house, {**puppet(fake, acts), "INSPAN_CONTAINMENT": "reaper"})
    wait_for(house, run_id, "text_said")
    reaper = agent_pid(house.supervisor(run_id), depth=1)
    children = Path(f"/proc/{reaper}/task/{reaper}/children")
    until(lambda: len(children.read_text().split()) == 1, "reaper with the agent as its only child")
    house.inspan("kill", run_id)
    until(lambda: not processes_of(run_id), "empty house")
