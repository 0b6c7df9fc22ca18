"""A blueprint on the real command line, and what its log says."""

import json
import subprocess
from typing import Any

import pytest

from tests.cli_env import CliEnv


class Blueprints:
    """Runs blueprints whose agents are scripted, in the profile clean."""

    def __init__(self, cli_env: CliEnv) -> None:
        self.cli_env = cli_env
        self.code = 0
        self.stdout = self.stderr = ""

    def write(self, text: str, name: str = "work.toml") -> str:
        path = self.cli_env.root / name
        path.write_text(text)
        return str(path)

    def build(self, blueprint: str, *more: str, model: str = "") -> list[str]:
        source = ("--model-from", model) if model else ()
        return ["blueprint", "run", blueprint, "--profile", "clean", *source, *more]

    def run(self, text: str, *more: str, model: str = "") -> str:
        """Runs one to its end and gives its id."""
        return self.run_named(self.write(text), *more, model=model)

    def run_named(self, blueprint: str, *more: str, model: str = "") -> str:
        return self._call(*self.build(blueprint, *more, model=model))

    def resume(self, run_id: str) -> str:
        return self._call("blueprint", "resume", run_id)

    def start(self, text: str, *more: str, model: str = "") -> str:
        """Starts one and leaves it to itself."""
        done = self.cli_env.inspan(*self.build(self.write(text), "-d", *more, model=model))
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def make_repository(self, **files: str) -> None:
        """Makes the working folder one, with a commit of these files."""
        for name, text in files.items():
            (self.cli_env.work / name).write_text(f"{text}\n")
        for words in (("init", "-q"), ("add", "."), ("commit", "-q", "--allow-empty", "-m", "first")):
            identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
            subprocess.run(["git", *identity, *words], cwd=self.cli_env.work, env=self.cli_env.env, check=True)

    def _call(self, *words: str) -> str:
        known = set(self.list_ids())
        done = self.cli_env.inspan(*words)
        self.code, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr
        new = [each for each in self.list_ids() if each not in known]
        return new[0] if new else ""

    def list_ids(self) -> list[str]:
        """All blueprints that were started, the oldest first."""
        return sorted(name for name, each in self.describe_runs().items() if each.get("work") == "blueprint")

    def describe_runs(self) -> dict[str, dict[str, Any]]:
        found = [json.loads(path.read_text()) for path in self.cli_env.state.glob("projects/*/*/runs/*/run.json")]
        return {each["run_id"]: each for each in found}

    def nodes(self, run_id: str) -> dict[str, str]:
        """What became of each node, in its last round."""
        return {each["node"]: each["status"] for each in self.select(run_id, "node_ended")}

    def outputs(self, run_id: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in self.select(run_id, "node_ended"):
            found.update(each.get("outputs", {}))
        return found

    def select(self, run_id: str, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.cli_env.events(run_id) if event["kind"] == kind]

    def read_prompt(self, run_id: str, node: str, *, round: int = 1) -> str:
        """What the agent of a node was told."""
        (ended,) = [
            each for each in self.select(run_id, "node_ended") if each["node"] == node and each.get("round", 1) == round
        ]
        return str(self.describe_runs()[ended["runs"][0]]["task"]["prompt"])


@pytest.fixture
def blueprints(cli_env: CliEnv) -> Blueprints:
    return Blueprints(cli_env)
