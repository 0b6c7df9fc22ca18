"""Nothing that a run starts survives it, by each way of containment, however the run ends, whoever runs it."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from inspan.containment.containment import METHODS
from inspan.system.platform import list_children
from inspan.transports.process import find_agent_pid
from tests.cli_env import CliEnv, processes_of, wait_until
from tests.running.fake_agent import Fake, detach_fake_agent, fake_agent_env, find_processes, wait_for_event
from tests.soak import rounds

_DEPTH = {way.name: way.agent_depth for way in METHODS}
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
def each_user_env(request: pytest.FixtureRequest) -> CliEnv:
    return request.getfixturevalue("cli_env" if request.param == "owner" else "user_cli_env")


@pytest.mark.parametrize("round_number", range(rounds(1)))
@pytest.mark.parametrize("ending", _ENDINGS)
def test_nothing_is_left_of_a_tree_that_does_not_want_to_die(
    each_user_env: CliEnv, fake: Fake, tmp_path: Path, ending: str, round_number: int
) -> None:
    prompt, more, expected = _ENDINGS[ending]
    env = fake_agent_env(fake, _ACTS.format(marker=f"{tmp_path}/nameless"))
    runs = {
        way: detach_fake_agent(each_user_env, env | {"INSPAN_CONTAINMENT": way}, *more, prompt=prompt) for way in _DEPTH
    }
    for run_id in runs.values():
        wait_for_event(each_user_env, run_id, "run_ended" if ending == "timeout" else "text_said")
    if prompt == "stay":
        assert len(find_processes(str(tmp_path))) >= 6 * len(runs), "the trees stand"
    _end(each_user_env, runs, ending)
    wait_until(lambda: not any(map(processes_of, runs.values())) and not find_processes(str(tmp_path)), "empty house")
    assert {way: _verdict(each_user_env, run_id) for way, run_id in runs.items()} == dict.fromkeys(runs, expected)


def _end(cli_env: CliEnv, runs: dict[str, str], ending: str) -> None:
    if ending in ("stop", "kill"):
        assert cli_env.inspan(ending, *runs.values()).returncode == 0
    elif ending == "agent killed":
        for way, run_id in runs.items():
            os.kill(_agent(cli_env, run_id, way), signal.SIGKILL)
    elif ending == "supervisor killed":
        for run_id in runs.values():
            os.kill(cli_env.supervisor(run_id), signal.SIGKILL)


def _verdict(cli_env: CliEnv, run_id: str) -> tuple[str, str]:
    cli_env.inspan("wait", run_id)
    last = cli_env.events(run_id)[-1]
    return last["outcome"], last["reason"]


def _agent(cli_env: CliEnv, run_id: str, way: str) -> int:
    """The agent's own process: the supervisor's child, and as many below it as the way puts between."""
    supervisor = cli_env.supervisor(run_id)
    agent = find_agent_pid(supervisor, depth=1 + _DEPTH[way])
    assert agent is not None
    assert b"/puppet\0exec" in Path(f"/proc/{agent}/cmdline").read_bytes()
    return agent


@pytest.mark.parametrize("way", sorted(_DEPTH))
def test_an_agent_holds_nothing_of_inspan_but_its_own_three_pipes(cli_env: CliEnv, fake: Fake, way: str) -> None:
    acts = """
begin()
for name in sorted(os.listdir("/proc/self/fd"), key=int):
    try: say(f"{name} " + os.readlink(f"/proc/self/fd/{name}").split(":")[0])
    except FileNotFoundError: pass
finish()
"""
    env = {**fake_agent_env(fake, acts), "INSPAN_CONTAINMENT": way}
    run_id = detach_fake_agent(cli_env, env)
    wait_for_event(cli_env, run_id, "run_ended")
    held = [event["text"] for event in cli_env.events(run_id) if event["kind"] == "text_said"]
    stdin, *others = held
    assert others == ["1 pipe", "2 pipe"]
    assert stdin == "0 /memfd" or stdin.endswith(" (deleted)"), "a file that nobody else can open by name"


def test_a_run_holds_on_to_nothing_that_its_caller_left_open(cli_env: CliEnv, fake: Fake) -> None:
    ours, theirs = os.pipe()
    done = subprocess.run(
        cli_env.argv("run", "x", "-d", "-a", "codex", "--profile", "user"),
        env={**cli_env.env, **fake_agent_env(fake, "begin()\nwhile True: time.sleep(86400)")},
        cwd=cli_env.work,
        pass_fds=[theirs],
        capture_output=True,
        text=True,
        check=True,
    )
    os.close(theirs)
    run_id = done.stdout.strip()
    wait_for_event(cli_env, run_id, "thread_started")
    os.set_blocking(ours, False)
    assert os.read(ours, 1) == b"", "the end of the pipe: nobody else holds it"
    os.close(ours)
    cli_env.inspan("kill", run_id)


@pytest.mark.parametrize(
    ("code", "expected"), [("os._exit(0)", 0), ("os._exit(7)", 7), ("os.kill(os.getpid(), 9)", 137)]
)
@pytest.mark.parametrize("way", ["bwrap", "reaper"])
def test_the_agents_exit_code_passes_through(cli_env: CliEnv, fake: Fake, way: str, code: str, expected: int) -> None:
    env = {**fake_agent_env(fake, f"begin()\n{code}"), "INSPAN_CONTAINMENT": way}
    run_id = detach_fake_agent(cli_env, env)
    wait_for_event(cli_env, run_id, "run_ended")
    assert cli_env.events(run_id)[-1].get("exit_code") == expected


def test_a_reaper_lets_go_of_orphans_while_the_agent_works(cli_env: CliEnv, fake: Fake) -> None:
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
    run_id = detach_fake_agent(cli_env, {**fake_agent_env(fake, acts), "INSPAN_CONTAINMENT": "reaper"})
    wait_for_event(cli_env, run_id, "text_said")
    reaper = find_agent_pid(cli_env.supervisor(run_id), depth=1)
    assert reaper is not None
    wait_until(lambda: len(list_children(reaper)) == 1, "reaper with the agent as its only child")
    cli_env.inspan("kill", run_id)
    wait_until(lambda: not processes_of(run_id), "empty house")


def test_of_an_agent_that_kills_its_reaper_only_what_has_dropped_the_runs_id_is_left(
    cli_env: CliEnv, fake: Fake, tmp_path: Path
) -> None:
    """What the reaper is documented not to do; the namespaces of the other ways cannot be left like this."""
    named, nameless = f"{tmp_path}/named", f"{tmp_path}/nameless"
    acts = f"""
begin()
def start(marker, env):
    pid = os.fork()
    if not pid:
        os.setsid()
        os.execve("/bin/sh", ["sh", "-c", "sleep 86400; exit", marker], env)
    while marker not in open(f"/proc/{{pid}}/cmdline").read(): time.sleep(0.01)
start({named!r}, os.environ)
start({nameless!r}, {{}})
say("grown")
os.kill(os.getppid(), signal.SIGKILL)
while True: time.sleep(86400)
"""
    run_id = detach_fake_agent(cli_env, {**fake_agent_env(fake, acts), "INSPAN_CONTAINMENT": "reaper"})
    wait_for_event(cli_env, run_id, "run_ended")
    assert _verdict(cli_env, run_id) == ("failed", "crashed")
    wait_until(lambda: not processes_of(run_id), "nothing with the id of the run")
    assert find_processes(named) == []
    (left,) = find_processes(nameless)
    os.killpg(left, signal.SIGKILL)
