"""A conversation over several runs: each turn says what its model must be shown of the others, and what it must not."""

import json
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.refusal import Refusal, parse_refusal
from tests.cli_env import CliEnv, wait_until

# A tool that waits for the test, in every agent's shell: one process, and no `sleep`, which some agents refuse.
WAIT_FOR_GO = r'python3 -c "import os, time; [time.sleep(0.02) for _ in iter(lambda: os.path.exists(\"go\"), True)]"'
WAIT_STEP = f"run = 'touch started; {WAIT_FOR_GO}'"
STALLS = "[[call]]\nstall = 'before-headers'\n"


def build_turn_scenario(say: str, *, holds: Sequence[str] = (), lacks: Sequence[str] = (), more: str = "") -> str:
    """A scenario of one call, whose request must hold some texts and must lack others; `more` calls may follow."""
    traps = [f"[[call]]\nwhen = {json.dumps(text)}\nfail = {{status = 400}}\n" for text in lacks]
    call = f"[[call]]\nexpect_anywhere = {json.dumps(list(holds))}\nsay = {json.dumps(say)}\n"
    return "\n".join([*traps, call, more])


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One run that has ended, as its command told it."""

    code: int
    events: list[dict[str, Any]]

    @property
    def run_id(self) -> str:
        return self.events[0]["run_id"]

    @property
    def started(self) -> dict[str, Any]:
        return self.events[0]

    @property
    def ended(self) -> dict[str, Any]:
        return self.events[-1]

    @property
    def session_id(self) -> str:
        return self.ended["session_id"]

    @property
    def verdict(self) -> tuple[str, str]:
        return self.ended["outcome"], self.ended["reason"]


def has_saved_tool_use(cli_env: CliEnv, words: str = "touch started") -> bool:
    """Whether an agent has written this down: a tool, say, starts before the agent's own file says so."""
    home = Path(cli_env.env["HOME"])
    folders = [*cli_env.state.glob("sessions/*/config"), home / ".claude", home / ".codex"]
    with suppress(FileNotFoundError):  # An agent removes files of its own while we look.
        files = [path for folder in folders for path in folder.rglob("*.jsonl")]
        return any(words.encode() in path.read_bytes() for path in files)
    return False


class Conversation:
    """Talks to one agent in one house; every turn is an `inspan run` of its own."""

    def __init__(self, cli_env: CliEnv, agent: str, *arguments: str, profile: str = "clean") -> None:
        self.cli_env = cli_env
        self._always = ["-a", agent, "--profile", profile, *arguments]

    def say(
        self,
        prompt: str,
        *more: str,
        holds: Sequence[str] = (),
        lacks: Sequence[str] = (),
        scenario: str = "",
        env: dict[str, str] | None = None,
    ) -> Turn:
        """Runs a turn to its end; its model answers with the prompt's own words behind `re:`."""
        turn = self.run_turn(
            prompt, *more, scenario=scenario or build_answer_scenario(prompt, holds=holds, lacks=lacks), env=env
        )
        assert turn.verdict == ("completed", "done"), turn.ended
        return turn

    def run_turn(self, prompt: str, *more: str, scenario: str, env: dict[str, str] | None = None) -> Turn:
        """Runs a turn to its end, whatever that is."""
        done = self.cli_env.inspan(*self.command(prompt, *more, scenario=scenario), env=env)
        events = [json.loads(line)["event"] for line in done.stdout.splitlines()]
        assert events, done.stderr
        return Turn(code=done.returncode, events=events)

    def expect_refusal(self, prompt: str, *more: str, scenario: str = "") -> Refusal:
        """A turn that must not start, and must leave no run behind."""
        before = list_runs(self.cli_env)
        done = self.cli_env.inspan(*self.command(prompt, *more, scenario=scenario or build_answer_scenario(prompt)))
        assert list_runs(self.cli_env) == before
        return parse_refusal(done)

    def start(self, prompt: str, *more: str, scenario: str) -> subprocess.Popen[bytes]:
        """Starts a turn and leaves it running."""
        return self.cli_env.start(*self.command(prompt, *more, scenario=scenario))

    def start_waiting(self, prompt: str, *more: str, then: str = "") -> str:
        """Starts a turn whose tool waits for `release`; gives the run's id once the tool is at it."""
        run_id = self.detach(
            prompt, *more, scenario=f"[[call]]\n{WAIT_STEP}\n{then or build_turn_scenario(f're:{prompt}')}"
        )
        wait_until((self.cli_env.work / "started").exists, "tool")
        wait_until(lambda: has_saved_tool_use(self.cli_env), "transcript")
        self.cli_env.wait_for_events(run_id, "thread_started", "model_call_ended")
        return run_id

    def release(self, run_id: str) -> None:
        """Lets the tool of `hold` end, and waits for the run to complete."""
        (self.cli_env.work / "go").touch()
        waited = self.cli_env.inspan("wait", run_id)
        assert waited.stdout == f"{run_id} completed done\n"
        for name in ("started", "go"):
            (self.cli_env.work / name).unlink()

    def detach(self, prompt: str, *more: str, scenario: str) -> str:
        """Starts a turn and gives its run's id."""
        done = self.cli_env.inspan(*self.command(prompt, "-d", *more, scenario=scenario))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["run_id"]

    def command(self, prompt: str, *more: str, scenario: str) -> list[str]:
        # A file of its own for each turn: several may run at once.
        model = self.cli_env.scenario(scenario, name=f"{len(list(self.cli_env.root.glob('*.toml')))}-{prompt}")
        return ["run", prompt, "--json", *self._always, "--model-from", model, *more]


def build_answer_scenario(prompt: str, *, holds: Sequence[str] = (), lacks: Sequence[str] = ()) -> str:
    return build_turn_scenario(f"re:{prompt}", holds=holds, lacks=lacks)


def list_runs(cli_env: CliEnv) -> list[str]:
    return sorted(path.name for path in cli_env.state.glob("projects/*/*/runs/*"))


def session_keys(cli_env: CliEnv) -> list[str]:
    return sorted(path.name for path in cli_env.state.glob("sessions/*"))
