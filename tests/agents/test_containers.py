"""The real agents in a container of podman's: their program is the host's, everything else is the image's."""

import subprocess
from pathlib import Path

import pytest

from inspan import Task
from inspan.planning.settings import apply_config
from tests.cli.test_diff import git, make_repository
from tests.cli_env import CliEnv, kill_process, processes_of, wait_until
from tests.podman import IMAGE, Podman
from tests.stores.snapshot_repository import IDENTITY

IN_A_CONTAINER = ("--sandbox", "podman", "--image", IMAGE)
COMMITS = f"git {' '.join(IDENTITY)} commit -qam by-the-agent"
LOOKS = "cat /proc/net/dev > net; ls / > root; cat ../secret; echo x >> .git/config; echo x > .git/hooks/pre-commit"
WORKS = f"""
[[call]]
run = "echo more >> kept.txt && {COMMITS}; {LOOKS}; id -u > user"
[[call]]
say = "done"
"""
STAYS = '[[call]]\nrun = "(setsid sleep 600 &); touch started; sleep 600"\n'


@pytest.fixture
def engine(podman: Podman, cli_env: CliEnv) -> Podman:
    cli_env.env["PATH"] = f"{podman.path}:{cli_env.env['PATH']}"
    return podman


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_an_agent_works_in_a_container(cli_env: CliEnv, engine: Podman, agent: str) -> None:
    make_repository(cli_env)
    (cli_env.root / "secret").write_text("of the host")
    config = (cli_env.work / ".git/config").read_text()
    done = cli_env.run(agent, WORKS, *IN_A_CONTAINER)
    assert done.code == 0, done.stderr
    started = done.events[0]
    assert (started["sandbox"], started["net"], started["access"]) == ("podman", "gateway", "sandbox")
    assert git(cli_env, "log", "--format=%s") == "by-the-agent\nfirst\n"
    assert (cli_env.work / "kept.txt").read_text() == "kept\nmore\n"
    assert (cli_env.work / "user").read_text().strip() != "0"
    assert (cli_env.work / "kept.txt").stat().st_uid == cli_env.work.stat().st_uid
    networks = [line.split(":")[0].strip() for line in (cli_env.work / "net").read_text().splitlines() if ":" in line]
    assert networks == ["lo"]
    assert "boot" not in (cli_env.work / "root").read_text().split()
    said = str(done.select_events("tool_completed") + done.select_events("tool_failed"))
    assert "of the host" not in said
    assert "../secret: No such file" in said
    assert (cli_env.work / ".git/config").read_text() == config
    assert not (cli_env.work / ".git/hooks/pre-commit").exists()
    assert engine.list_containers() == []


@pytest.mark.parametrize("how", ["its supervisor is killed", "it is stopped"])
def test_nothing_is_left_of_a_run_in_a_container(cli_env: CliEnv, engine: Podman, how: str) -> None:
    run_id = cli_env.detach("codex", STAYS, *IN_A_CONTAINER)
    wait_until((cli_env.work / "started").exists, "start of the command")
    assert [name.startswith(f"inspan-{run_id}") for name in engine.list_containers()] == [True]
    if how == "it is stopped":
        assert cli_env.inspan("stop", run_id).returncode == 0
    else:
        kill_process(cli_env.supervisor(run_id))
    wait_until(lambda: not processes_of(run_id), "end of its processes")
    wait_until(lambda: not engine.list_containers(), "end of its container")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--image", "some/image"), "the sandbox none takes no image"),
        (("--sandbox", "docker", "--image", "some/image"), "docker's daemon cannot start containers in a network"),
        (("--sandbox", "docker", "--image", "i", "--net", "open", "--memory", "1g"), "outside of the control groups"),
    ],
)
def test_what_a_container_cannot_be_is_refused(
    cli_env: CliEnv, tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    (tmp_path / "docker").write_text("#!/bin/sh\n")
    (tmp_path / "docker").chmod(0o755)
    path = {"PATH": f"{tmp_path}:{cli_env.env['PATH']}"}
    model = cli_env.scenario(STAYS)
    done = cli_env.inspan("run", "x", "-a", "codex", "--model-from", model, *words, env=path)
    assert (done.returncode, problem in done.stderr) == (2, True), done.stderr


def test_an_image_without_what_the_program_needs_is_told_of(cli_env: CliEnv, engine: Podman) -> None:
    """An image of nothing: not even what loads a program."""
    empty = cli_env.root / "empty.tar"
    subprocess.run(["tar", "cf", empty, "--files-from", "/dev/null"], check=True)
    assert engine.run("import", str(empty), "localhost/empty:1").returncode == 0
    done = cli_env.run("claude", '[[call]]\nsay = "x"\n', "--sandbox", "podman", "--image", "localhost/empty:1")
    assert done.code != 0
    assert "no such file or directory" in done.stderr.lower()
    assert engine.list_containers() == []


@pytest.mark.parametrize(
    ("sandbox", "image"), [("podman", "some/image"), ("worktree+docker", "some/image"), ("none", "")]
)
def test_a_configured_image_counts_where_the_sandbox_takes_one(cli_env: CliEnv, sandbox: str, image: str) -> None:
    env = {**cli_env.env, "INSPAN_RUNTIME_IMAGE": "some/image"}
    task = Task(prompt="x", cwd=str(cli_env.work), agent="codex", sandbox=sandbox)
    assert apply_config(task, env=env).task.image == image
