"""Limits on memory, processors and processes: real control groups where this machine lets us make some."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inspan.containment import control_groups
from inspan.containment.control_groups import add_inner_groups, count_memory_kills, create_groups, remove_groups
from inspan.errors import SandboxUnusable
from inspan.protocol.limits import Limits
from tests.cli_env import CliEnv, kill_process, wait_until
from tests.conftest import skip
from tests.running.fake_agent import Fake, detach_fake_agent, fake_agent_env, run_fake_agent, wait_for_event


def _make(**limits: float) -> list[str]:
    """The groups with these limits; a machine that has none to give is told of."""
    try:
        return create_groups(f"test-{os.getpid()}-{os.urandom(4).hex()}", Limits(**limits))  # pyright: ignore[reportArgumentType]  by name
    except SandboxUnusable:
        skip("no-control-groups")


@pytest.fixture
def groups(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    made = _make(**request.param)
    yield made
    remove_groups(made)
    assert not any(map(os.path.exists, made))


def _run_in(groups: list[str], program: str) -> subprocess.CompletedProcess[str]:
    join = "".join(f"open({group + '/cgroup.procs'!r}, 'w').write('0');" for group in groups)
    return subprocess.run([sys.executable, "-c", join + program], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("groups", [{"memory_bytes": 200 * 1024**2}], indirect=True)
def test_what_uses_more_memory_is_killed_and_counted(groups: list[str]) -> None:
    assert _run_in(groups, "x = bytearray(20 * 1024**2); print(len(x))").stdout == f"{20 * 1024**2}\n"
    assert count_memory_kills(groups) == 0
    assert _run_in(groups, "x = bytearray(600 * 1024**2); print(len(x))").returncode == -9
    assert count_memory_kills(groups) >= 1


@pytest.mark.parametrize("groups", [{"pids": 20}], indirect=True)
def test_no_more_processes_than_the_limit_come_about(groups: list[str]) -> None:
    fork = "import os, time\nn = 0\ntry:\n while n < 60:\n  if os.fork() == 0: time.sleep(30); os._exit(0)\n  n += 1\n"
    end = "except OSError: pass\nprint(n, flush=True)\nimport signal; os.killpg(0, signal.SIGKILL)"
    done = _run_in(groups, f"import os; os.setsid();exec({fork + end!r})")
    assert 0 < int(done.stdout) < 20, done.stderr


@pytest.mark.parametrize("groups", [{"cpus": 0.5, "pids": 50}], indirect=True)
def test_a_share_of_a_processor_is_what_the_kernel_was_told(groups: list[str]) -> None:
    quotas = [
        path.read_text().split()[0]
        for group in groups
        for name in ("cpu.cfs_quota_us", "cpu.max")
        if (path := Path(group, name)).exists()
    ]
    assert quotas == ["50000"]


def test_a_machine_without_control_groups_refuses_a_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mounts").write_text("22 1 0:20 / / rw - ext4 /dev/vda rw\n")
    monkeypatch.setattr(control_groups, "_MOUNTS", str(tmp_path / "mounts"))
    with pytest.raises(SandboxUnusable, match="no control groups for memory") as caught:
        create_groups("run", Limits(memory_bytes=1024**3))
    assert "--memory" in caught.value.next_step


@pytest.mark.parametrize(
    ("mounts", "own", "expected"),
    [
        ("30 1 0:30 / {top} rw - cgroup2 none rw\n", "0::/user/app/ours\n", "user/app"),
        ("30 1 0:30 /user {top} rw - cgroup2 none rw\n", "0::/user/app/ours\n", "app"),
        ("31 1 0:31 / {top} rw - cgroup none rw,memory\n", "4:memory:/part\n0::/\n", "part"),
        ("31 1 0:31 /box {top} rw - cgroup none rw,memory\n", "4:memory:/box/part\n0::/\n", "part"),
        ("31 1 0:31 / {top} rw - cgroup none rw,cpu,memory\n", "4:cpu,memory:/part\n0::/\n", "part"),
    ],
)
def test_a_group_is_made_where_both_versions_allow_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mounts: str, own: str, expected: str
) -> None:
    """On folders that look like them: which of the versions a machine has cannot be chosen."""
    top = tmp_path / "top"
    parent = top / expected
    (parent / "ours").mkdir(parents=True)
    (parent / "cgroup.subtree_control").write_text("cpu memory pids\n")
    (tmp_path / "mounts").write_text(mounts.format(top=top))
    (tmp_path / "own").write_text(own)
    monkeypatch.setattr(control_groups, "_MOUNTS", str(tmp_path / "mounts"))
    monkeypatch.setattr(control_groups, "_OWN", str(tmp_path / "own"))
    (made,) = create_groups("run", Limits(memory_bytes=4096))
    assert made == str(parent / "inspan-run")
    written = {path.name: path.read_text() for path in Path(made).iterdir()}
    assert written in ({"memory.max": "4096"}, {"memory.limit_in_bytes": "4096"})


def test_a_run_in_a_sandbox_has_its_groups_in_those_of_the_sandbox(tmp_path: Path) -> None:
    """On folders that look like groups of version 2, in which one may have groups or processes and not both."""
    box = tmp_path / "inspan-box"
    box.mkdir()
    (box / "cgroup.controllers").write_text("cpu memory pids\n")
    (made,) = create_groups("run", Limits(pids=5), within=[str(box)])
    assert made == str(box / "inspan-run")
    assert (box / "cgroup.subtree_control").read_text() == "+pids"
    assert (box / "inspan-run" / "pids.max").read_text() == "5"


@pytest.mark.parametrize("groups", [{"pids": 50}], indirect=True)
def test_inner_groups_share_the_limit_and_go_with_the_outer_one(groups: list[str]) -> None:
    inner = add_inner_groups(groups, "commands")
    beside = create_groups("run", Limits(pids=20), within=groups)
    fork = "import os, time\nfor _ in range(60):\n try: os.fork() or time.sleep(600)\n except OSError: break\n"
    tell = "print(open({!r}).read().strip(), flush=True); import signal; os.killpg(0, signal.SIGKILL)"
    for folders, most in ((inner, 50), (beside, 20)):
        count = tell.format(os.path.join(folders[0], "pids.current"))
        done = _run_in(folders, f"import os; os.setsid();exec({fork + count!r})")
        assert int(done.stdout) == most, done.stderr
        wait_until(lambda: Path(groups[0], "pids.current").read_text() == "0\n", "end of all processes")


def test_a_group_that_cannot_be_made_leaves_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    top = tmp_path / "top"
    for name in ("memory", "pids"):
        (top / name / "ours").mkdir(parents=True)
    (top / "pids" / "ours" / "inspan-run").write_text("in the way")
    (tmp_path / "mounts").write_text(
        "".join(
            f"3{n} 1 0:3{n} / {top}/{name} rw - cgroup none rw,{name}\n" for n, name in enumerate(("memory", "pids"))
        )
    )
    (tmp_path / "own").write_text("1:memory:/ours\n2:pids:/ours\n")
    monkeypatch.setattr(control_groups, "_MOUNTS", str(tmp_path / "mounts"))
    monkeypatch.setattr(control_groups, "_OWN", str(tmp_path / "own"))
    monkeypatch.setattr(control_groups, "_REMOVE_S", 0.0)
    with pytest.raises(SandboxUnusable, match="cannot limit a run"):
        create_groups("run", Limits(memory_bytes=4096, pids=5))
    assert not (top / "pids" / "ours" / "inspan-run").is_dir()


_FORKS = """
import os, time
begin()
count = 0
try:
    while count < 100:
        if os.fork() == 0: time.sleep(600)
        count += 1
except OSError: pass
say(str(count))
finish()
"""


@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize("sandbox", ["none", "bwrap"])
def test_a_run_with_a_limit_is_held_to_it_and_leaves_no_group(cli_env: CliEnv, fake: Fake, sandbox: str) -> None:
    remove_groups(_make(pids=50))
    code, _, err = run_fake_agent(cli_env, fake_agent_env(fake, _FORKS), "--sandbox", sandbox, "--pids", "50")
    assert code == 0, err
    (said,) = (event["text"] for event in cli_env.events() if event["kind"] == "text_said")
    assert 0 < int(said) < 50
    assert cli_env.events()[0]["resources"] == {"pids": 50}
    assert "50 processes" in err
    assert "It could start no other process once" in err
    assert _list_groups(cli_env) == []


@pytest.mark.usefixtures("bubblewrap")
def test_a_run_that_is_killed_at_a_limit_blames_the_limit(cli_env: CliEnv, fake: Fake) -> None:
    remove_groups(_make(memory_bytes=2**26))
    env = fake_agent_env(fake, "begin(); x = bytearray(500 * 1024**2); finish()")
    code, _, err = run_fake_agent(cli_env, env, "--sandbox", "bwrap", "--memory", "64m")
    assert (code, cli_env.events()[-1]["reason"]) == (1, "environment"), err
    assert "reached its limit --memory" in err and "Give it more with --memory" in err


@pytest.mark.usefixtures("bubblewrap")
def test_the_group_of_a_lost_run_goes_when_it_is_declared_lost(cli_env: CliEnv, fake: Fake) -> None:
    remove_groups(_make(pids=50))
    run_id = detach_fake_agent(cli_env, fake_agent_env(fake, "begin(); time.sleep(600)"), "--pids", "50")
    wait_for_event(cli_env, run_id, "thread_started")
    assert len(_list_groups(cli_env)) == 1
    kill_process(cli_env.supervisor(run_id))
    cli_env.inspan("ps", "-a")
    assert cli_env.events()[-1]["reason"] == "supervisor_lost"
    assert _list_groups(cli_env) == []


def _list_groups(cli_env: CliEnv) -> list[str]:
    (folder,) = cli_env.state.glob("projects/*/*/runs/*")
    return [path for path in json.loads((folder / "run.json").read_text())["control_groups"] if os.path.exists(path)]


def test_a_user_who_may_make_none_is_refused_before_anything_starts(user_cli_env: CliEnv, fake: Fake) -> None:
    env = fake_agent_env(fake, "open('inside', 'w'); begin(); finish()")
    code, out, err = run_fake_agent(user_cli_env, env, "--memory", "1g")
    if code == 0:  # This user may: a session of systemd gives everybody a part of the tree.
        assert user_cli_env.events()[0]["resources"] == {"memory_bytes": 1024**3}
        return
    assert (code, out) == (1, "")
    assert "control group" in err and "--memory" in err and "Traceback" not in err
    assert os.listdir(user_cli_env.work) == []
