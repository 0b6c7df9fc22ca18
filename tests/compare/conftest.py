"""A repository to compare agents in, and what a comparison has left."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli_env import CliEnv

SET_ONE = '[[call]]\nrun = "echo 1 > n"\n[[call]]\nsay = "Done."\n'
CLAIM = '[[call]]\nsay = "Done, believe me."\n'
IDLE = '[[call]]\nstall = "before-headers"\n'
CHECK = 'test "$(cat n)" = 1'


class Repository:
    """A checkout with one commit, in which n is 0."""

    def __init__(self, cli_env: CliEnv) -> None:
        self.cli_env = cli_env
        self.path = cli_env.work
        self.git("init", "-q", "-b", "main")
        (self.path / "n").write_text("0\n")
        self.commit("First commit")

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=Test", "-c", "user.email=test@example.com")
        done = subprocess.run(
            ["git", *identity, *arguments],
            cwd=self.path,
            env={**self.cli_env.env, "GIT_CONFIG_NOSYSTEM": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def compare(
        self, *arguments: str, agents: str = "scripted", check: str = CHECK, **scripts: str
    ) -> "subprocess.CompletedProcess[str]":
        """Compares agents, each on its own script; the scripted agent solves the task where nothing else is said."""
        return self.cli_env.inspan(*self.build(*arguments, agents=agents, check=check, **scripts))

    def build(self, *arguments: str, agents: str = "scripted", check: str = CHECK, **scripts: str) -> list[str]:
        for name, text in {"scripted": SET_ONE, **scripts}.items():
            self.cli_env.scenario(text, name)
        model = f"script:{self.cli_env.root}/{{agent}}.toml"
        checks = ("--check", check) if check else ()
        return ["compare", "-a", agents, *checks, "--profile", "clean", "--model-from", model, *arguments]

    def write_instance(self, patch: str, name: str = "x__y-1") -> str:
        """A file with one SWE-bench instance, whose tests are in `t.sh`; the first commit is not the last."""
        base = self.git("rev-list", "--max-parents=0", "HEAD")
        instance = {
            "repo": f"x/{self.path.name}",
            "base_commit": base,
            "problem_statement": "n should be 1.",
            "instance_id": name,
            "FAIL_TO_PASS": ["t.sh"],
            "PASS_TO_PASS": [],
            "test_patch": patch,
        }
        path = self.cli_env.root / "swe.jsonl"
        path.write_text(json.dumps(instance) + "\n")
        return str(path)

    @property
    def worktree(self) -> Path:
        """The only one that is left."""
        (found,) = [path for path in self.cli_env.state.glob("worktrees/*/*") if path.is_dir() and not path.suffix]
        return found

    @property
    def store(self) -> Path:
        (found,) = (self.cli_env.state / "comparisons").iterdir()
        return found

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What is in the file so far, of which the last line may be half a one."""
        found = list(self.cli_env.state.glob("comparisons/*/results.jsonl"))
        whole, _, _ = (found[0].read_text() if found else "").rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    @property
    def results(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["kind"] == "cell_ended"]


@pytest.fixture
def repository(cli_env: CliEnv) -> Repository:
    return Repository(cli_env)
