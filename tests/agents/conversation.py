"""A conversation over several runs: each turn says what its model must be shown of the others, and what it must not."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.refusal import Refusal, told
from tests.house import House, until

# A tool that waits for the test, in every agent's shell.
HOLD_ON = "run = 'touch started; until test -e go; do python3 -c \"import time; time.sleep(0.02)\"; done'"
STALLS = "[[call]]\nstall = 'before-headers'\n"


def scene(say: str, *, holds: Sequence[str] = (), lacks: Sequence[str] = (), more: str = "") -> str:
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


def is_kept(house: House) -> bool:
    """Whether an agent has written down that it holds on: a tool starts before the agent's own file says so."""
    home = Path(house.env["HOME"])
    folders = [*house.state.glob("sessions/*/config"), home / ".claude", home / ".codex"]
    files = [path for folder in folders for path in folder.rglob("*.jsonl")]
    return any(b"touch started" in path.read_bytes() for path in files)


class Conversation:
    """Talks to one agent in one house; every turn is an `inspan run` of its own."""

    def __init__(self, house: House, agent: str, *arguments: str, profile: str = "clean") -> None:
        self.house = house
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
        turn = self.turn(prompt, *more, scenario=scenario or answered(prompt, holds=holds, lacks=lacks), env=env)
        assert turn.verdict == ("completed", "done"), turn.ended
        return turn

    def turn(self, prompt: str, *more: str, scenario: str, env: dict[str, str] | None = None) -> Turn:
        """Runs a turn to its end, whatever that is."""
        done = self.house.inspan(*self.command(prompt, *more, scenario=scenario), env=env)
        events = [json.loads(line)["event"] for line in done.stdout.splitlines()]
        assert events, done.stderr
        return Turn(code=done.returncode, events=events)

    def refused(self, prompt: str, *more: str, scenario: str = "") -> Refusal:
        """A turn that must not start, and must leave no run behind."""
        before = runs(self.house)
        done = self.house.inspan(*self.command(prompt, *more, scenario=scenario or answered(prompt)))
        assert runs(self.house) == before
        return told(done)

    def start(self, prompt: str, *more: str, scenario: str) -> subprocess.Popen[bytes]:
        """Starts a turn and leaves it running."""
        return self.house.start(*self.command(prompt, *more, scenario=scenario))

    def hold(self, prompt: str, *more: str, then: str = "") -> str:
        """Starts a turn whose tool waits for `let_go`; gives the run's id once the tool is at it."""
        run_id = self.detach(prompt, *more, scenario=f"[[call]]\n{HOLD_ON}\n{then or scene(f're:{prompt}')}")
        until((self.house.work / "started").exists, "tool")
        until(lambda: is_kept(self.house), "transcript")
        return run_id

    def let_go(self, run_id: str) -> None:
        """Lets the tool of `hold` end, and waits for the run to complete."""
        (self.house.work / "go").touch()
        waited = self.house.inspan("wait", run_id)
        assert waited.stdout == f"{run_id} completed done\n"
        for name in ("started", "go"):
            (self.house.work / name).unlink()

    def detach(self, prompt: str, *more: str, scenario: str) -> str:
        """Starts a turn and gives its run's id."""
        done = self.house.inspan(*self.command(prompt, "-d", *more, scenario=scenario))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["run_id"]

    def command(self, prompt: str, *more: str, scenario: str) -> list[str]:
        # A file of its own for each turn: several may run at once.
        model = self.house.scenario(scenario, name=f"{len(list(self.house.root.glob('*.toml')))}-{prompt}")
        return ["run", prompt, "--json", *self._always, "--model-from", model, *more]


def answered(prompt: str, *, holds: Sequence[str] = (), lacks: Sequence[str] = ()) -> str:
    return scene(f"re:{prompt}", holds=holds, lacks=lacks)


def runs(house: House) -> list[str]:
    return sorted(path.name for path in house.state.glob("projects/*/*/runs/*"))


def session_keys(house: House) -> list[str]:
    return sorted(path.name for path in house.state.glob("sessions/*"))
