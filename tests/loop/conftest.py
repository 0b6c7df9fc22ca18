"""A loop on the real command line, and what its log says."""

from typing import Any

import pytest

from tests.cli_env import CliEnv


class Loop:
    """A loop that has ended, or was started: its own log, and those of its runs."""

    def __init__(self, cli_env: CliEnv, run_id: str, *, code: int = 0, stderr: str = "") -> None:
        self.cli_env = cli_env
        self.run_id = run_id
        self.code = code
        self.stderr = stderr

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.cli_env.events(self.run_id)

    @property
    def kinds(self) -> list[str]:
        return [event["kind"] for event in self.events]

    @property
    def ended(self) -> dict[str, Any]:
        last = self.events[-1]
        assert last["kind"] == "run_ended", last
        return last

    @property
    def verdict(self) -> tuple[str, str, int]:
        return self.ended["outcome"], self.ended["reason"], self.code

    def select(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["kind"] == kind]

    @property
    def runs(self) -> list[str]:
        """The runs of its attempts, in order."""
        return [event["run_id"] for event in self.select("attempt_started")]


class Loops:
    """Starts loops of the scripted model in the profile clean."""

    def __init__(self, cli_env: CliEnv) -> None:
        self.cli_env = cli_env

    def build(self, *more: str, agent: str = "scripted", model: str = "", prompt: str = "do it") -> list[str]:
        chosen = () if "--agents" in more else ("-a", agent)
        return ["loop", prompt, *chosen, "--profile", "clean", "--delay", "0.01s", "--model-from", model, *more]

    def run(self, *more: str, agent: str = "scripted", model: str, prompt: str = "do it") -> Loop:
        """Runs one to its end."""
        done = self.cli_env.inspan(*self.build(*more, agent=agent, model=model, prompt=prompt))
        return Loop(self.cli_env, self.find_id(), code=done.returncode, stderr=done.stderr)

    def start(self, *more: str, agent: str = "scripted", model: str, prompt: str = "do it") -> Loop:
        """Starts one and leaves it to itself."""
        done = self.cli_env.inspan(*self.build("-d", *more, agent=agent, model=model, prompt=prompt))
        assert done.returncode == 0, done.stderr
        return Loop(self.cli_env, done.stdout.strip())

    def find_id(self) -> str:
        """The loop that was made first: its runs come after it."""
        return sorted(path.name for path in self.cli_env.state.glob("projects/*/*/runs/*"))[0]


@pytest.fixture
def loops(cli_env: CliEnv) -> Loops:
    return Loops(cli_env)
