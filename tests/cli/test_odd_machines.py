"""Machines that lack something: a home, a home that can be written to, git."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli_env import WAIT_S, CliEnv

from .refusal import parse_refusal

WRITES = '[[call]]\nwrite = {path = "greeting.txt", content = "good morning"}\n\n[[call]]\nsay = "Done."\n'
PROGRAMS = ("bwrap", "sh", "env", "cat")


@pytest.fixture
def path_without_git(tmp_path: Path) -> str:
    folder = tmp_path / "few"
    folder.mkdir()
    for name in PROGRAMS:
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    return str(folder)


def test_without_git_a_run_works_and_diff_says_what_it_cannot_tell(cli_env: CliEnv, path_without_git: str) -> None:
    env = {"PATH": path_without_git}
    subprocess.run(["git", "init", "-q"], cwd=cli_env.work, env=cli_env.env, check=True)
    run = cli_env.run("scripted", WRITES, env=env)
    assert run.verdict == ("completed", "done", 0)
    assert "There is no git program on PATH. Install git." in run.stderr
    done = cli_env.inspan("diff", env=env)
    assert done.returncode == 1
    assert "There is no git program on PATH." in done.stderr
    assert "unknown" in done.stderr
    assert done.stdout == f"added {cli_env.work}/greeting.txt\n"


def test_without_a_home_a_run_works_where_its_folders_are_named(cli_env: CliEnv) -> None:
    command = ("run", "hi", "-q", "-a", "scripted", "--model-from", cli_env.scenario(WRITES))
    done = subprocess.run(
        cli_env.argv(*command),
        env={name: value for name, value in cli_env.env.items() if name != "HOME"},
        cwd=cli_env.work,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("run", "hi", "-a", "scripted", "--json"),
        ("agents", "install", "pi", "--json"),
        ("completion", "--install", "bash", "--json"),
        ("config", "set", "runtime.default", "codex", "--json"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_home_that_cannot_be_written_to_is_told_with_the_next_step(
    user_cli_env: CliEnv, command: tuple[str, ...]
) -> None:
    home = Path(user_cli_env.env["HOME"])
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        del user_cli_env.env[name]
    if command[0] == "run":
        command = (*command, "--model-from", user_cli_env.scenario(WRITES))
    home.chmod(0o555)
    try:
        done = user_cli_env.inspan(*command)
        assert os.listdir(home) == []
    finally:
        home.chmod(0o755)
    refusal = parse_refusal(done)
    assert str(home) in refusal.message
    assert "Permission denied" in refusal.message
