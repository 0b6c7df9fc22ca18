"""The environment of one cell: a HOME, a state and a working folder of its own; `inspan` runs there as a user would."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from inspan.agents.registry import find_driver
from inspan.contracts.driver import Driver, SessionSupport
from inspan.contracts.journal import JournalEntry, OfferedTool, read_journal
from inspan.stores.event_log import read_log
from inspan.stores.run_folder import active_runs, open_folder
from inspan.system.platform import has_variable, list_pids

from .cell import ScenarioFailed, require, require_equal

_LONGEST_S = 120.0
_POLL_S = 0.05
# So that one slow answer of a busy machine is no failure: nothing here waits so long on a healthy one.
_WAIT_TIMEOUT_S = 60.0


class RunTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has ended: what its command printed, what its log tells, and every request of its to the model."""

    run_id: str
    code: int
    stdout: str
    stderr: str
    events: list[dict[str, Any]]
    requests: list[JournalEntry] = []

    @property
    def ended(self) -> dict[str, Any]:
        return self.events[-1]

    @property
    def texts(self) -> list[str]:
        """What the agent said, block by block."""
        return [event["text"] for event in self.select_events("text_said")]

    @property
    def skipped(self) -> list[str]:
        """The steps of the script that were left out, and why."""
        return [f"step {each.step}: {each.why}" for entry in self.requests for each in entry.skipped]

    @property
    def offered(self) -> list[OfferedTool]:
        """Every tool that was offered to the model in any request, once."""
        return list({each.key: each for entry in self.requests for each in entry.offered}.values())

    @property
    def called(self) -> list[tuple[str, str]]:
        """The tools that the model called, in order."""
        return [entry.called for entry in self.requests if entry.called]

    @property
    def results(self) -> list[tuple[tuple[str, str], str | None]]:
        """Each tool that was called, with what the next request told of it; None where that told nothing."""
        asked = [entry for entry in self.requests if entry.step]
        after = [*asked[1:], None]
        return [
            (entry.called, following.told if following and following.results else None)
            for entry, following in zip(asked, after, strict=True)
            if entry.called
        ]

    def select_events(self, *kinds: str) -> list[dict[str, Any]]:
        """The events of these kinds, in order."""
        return [event for event in self.events if event["kind"] in kinds]

    def require_outcome(self, outcome: str, *reasons: str) -> None:
        """Raises `ScenarioFailed` unless the run ended so."""
        told = (self.ended["outcome"], self.ended["reason"])
        wanted = [(outcome, reason) for reason in reasons]
        require(told in wanted, f"ended as {told} ({self.ended.get('message', '')}), and {wanted} was wanted")

    def require_completed(self) -> None:
        """Raises `ScenarioFailed` unless the agent finished its work."""
        self.require_outcome("completed", "done")
        require_equal("exit code", self.code, 0)


class CellEnvironment:
    """Where the scenarios of one cell happen; whoever makes it closes it."""

    def __init__(self, root: Path, driver: Driver, *, agent: str, channel: str, env: Mapping[str, str]) -> None:
        self.root = root
        self.driver = driver
        self.work = root / "work"
        self._agent = agent
        self._channel = channel
        self._scripts = 0
        self._journals: dict[str, Path] = {}
        self.note = ""
        self.skipped: list[str] = []
        for name in ("home", "state", "work"):
            (root / name).mkdir(parents=True)
        own = {"HOME": str(root / "home"), "XDG_STATE_HOME": str(root / "state"), "LANG": "C.UTF-8"}
        self.env = {**env, **own}

    def run(self, script: str, *flags: str, prompt: str = "do it") -> RunTrace:
        """Runs to the end; the log must be whole and nothing of the run may live on."""
        done = self._run_inspan(*self._build_argv(script, prompt, flags), "--json")
        lines = [json.loads(line) for line in done.stdout.split("\n") if line.startswith("{")]
        if not lines:
            raise ScenarioFailed(f"the run was refused: {done.stderr.strip()[-600:]}")
        require_equal("first event", lines[0]["event"]["kind"], "run_started")
        run_id = lines[0]["event"]["run_id"]
        self._journals[run_id] = self._journal
        return self.load_trace(run_id, code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    @property
    def agent(self) -> str:
        """The agent's name, as it was asked for."""
        return self._agent

    @property
    def channel(self) -> str:
        """The channel that was asked for; empty for the usual one."""
        return self._channel

    @property
    def session_support(self) -> SessionSupport:
        """What an open session can do through the channel that was asked for, or through the first that holds one."""
        own = find_driver(self._agent).channels
        offered = [each.session for each in own if each.name == self._channel or not self._channel]
        return next((each for each in offered if each.messages), SessionSupport())

    def write_script(self, script: str) -> Path:
        """The file of a script for another program than `inspan run`."""
        self._scripts += 1
        path = self.root / f"script-{self._scripts}.toml"
        path.write_text(f"asides = true\njournal = {json.dumps(str(self._journal))}\n{script}", encoding="utf-8")
        return path

    def expect_refusal(self, script: str, *flags: str) -> int:
        """The exit code of a run that must not start."""
        done = self._run_inspan(*self._build_argv(script, "do it", flags), "--json")
        require_equal("events", [line for line in done.stdout.split("\n") if line.startswith("{")], [])
        return done.returncode

    def detach(self, script: str, *flags: str, prompt: str = "do it") -> str:
        """Starts a run, and gives its id."""
        done = self._run_inspan(*self._build_argv(script, prompt, flags), "-d")
        require(done.returncode == 0, f"the run was refused: {done.stderr.strip()[-600:]}")
        self._journals[done.stdout.strip()] = self._journal
        return done.stdout.strip()

    def run_command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs another command of inspan's, which must succeed."""
        done = self._run_inspan(*words)
        require(done.returncode == 0, f"inspan {' '.join(words)}: {done.stderr.strip()[-600:]}")
        return done

    def wait(self, run_id: str) -> RunTrace:
        """The story of a run that was started, once it has ended."""
        done = self._run_inspan("wait", run_id)
        return self.load_trace(run_id, code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def load_trace(self, run_id: str, *, code: int, stdout: str, stderr: str) -> RunTrace:
        """The story of an ended run, which must hold together."""
        folder = self.folder(run_id)
        records = read_log(str(folder / "events.jsonl"))
        require_equal("numbers of the log", [each.number for each in records], list(range(1, len(records) + 1)))
        require(records, "the log is empty")
        events = [msgspec.to_builtins(record.event) for record in records]
        require_equal("last event", events[-1]["kind"], "run_ended")
        require_equal("ends in the log", len([each for each in events if each["kind"] == "run_ended"]), 1)
        unknown = [(each["raw"][:200], each.get("note", "")) for each in events if each["kind"] == "unrecognized"]
        require_equal("lines that nobody knows", unknown, [])
        self.wait_until(
            lambda: not self.find_processes(run_id), f"the end of the processes {self.find_processes(run_id)}"
        )
        still = [open_folder(each.path).run_id for each in active_runs(str(self.root / "state" / "inspan"))]
        require(run_id not in still, "the run is still among those that live")
        requests = _read_requests(self._journals.get(run_id))
        return self.track_skipped(
            RunTrace(run_id=run_id, code=code, stdout=stdout, stderr=stderr, events=events, requests=requests)
        )

    def track_skipped(self, story: RunTrace) -> RunTrace:
        """Keeps count of what was skipped in a story; nothing may be, where the agent has all of its tools."""
        self.skipped += story.skipped
        if self.has_tools and story.events[0].get("mode", "exec") == "exec":
            require_equal("steps that were skipped", story.skipped, [])
        return story

    def folder(self, run_id: str) -> Path:
        """The folder of a run."""
        return next(iter((self.root / "state").glob(f"inspan/projects/*/*/runs/{run_id}")))

    def wait_until(self, look: Callable[[], object], what: str) -> None:
        """Looks until it holds; raises `ScenarioFailed` after a time that a healthy machine never needs."""
        deadline = time.monotonic() + _WAIT_TIMEOUT_S
        while not look():
            if time.monotonic() > deadline:
                raise ScenarioFailed(f"{what} did not come within {_WAIT_TIMEOUT_S:g} s")
            time.sleep(_POLL_S)

    def find_processes(self, run_id: str) -> list[int]:
        """Every process of a run that lives: its id is in the environment of all of them."""
        return [pid for pid in list_pids() if has_variable(pid, "JRUN_ID", run_id)]

    def close(self) -> None:
        """Ends what a scenario left running."""
        for folder in (self.root / "state").glob("inspan/projects/*/*/runs/*"):
            if self.find_processes(folder.name):
                self._run_inspan("kill", folder.name)

    def _build_argv(self, script: str, prompt: str, flags: Sequence[str]) -> list[str]:
        """A command line, in the widest mode that the agent has unless the flags say another."""
        mode = next((after for word, after in pairwise(flags) if word == "--mode"), self._widest_mode)
        self._scripts += 1
        path = self.root / f"script-{self._scripts}.toml"
        # An agent with tools may ask for a title; one that has none asks nothing but what it is asked.
        asides = mode != "complete" and self._widest_mode == "exec"
        head = f"asides = {str(asides).lower()}\njournal = {json.dumps(str(self._journal))}\n"
        path.write_text(head + script, encoding="utf-8")
        words = ["run", prompt, "-a", self._agent, "--profile", "clean", "--model-from", f"script:{path}", *flags]
        words += ["--channel", self._channel] if self._channel else []
        return words if "--mode" in flags else [*words, "--mode", mode]

    @property
    def _journal(self) -> Path:
        """Where the newest script writes down what it was asked."""
        return self.root / f"journal-{self._scripts}.jsonl"

    @property
    def has_tools(self) -> bool:
        """Whether the agent can do more than answer."""
        return self.driver.capabilities.exec != "no"

    @property
    def _widest_mode(self) -> str:
        return "exec" if self.has_tools else "complete"

    def _run_inspan(self, *words: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [sys.executable, "-m", "inspan", *words],
                env=self.env,
                cwd=self.work,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                encoding="utf-8",
                timeout=_LONGEST_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ScenarioFailed(f"inspan {words[0]} took more than {_LONGEST_S:g} s") from error


def _read_requests(journal: Path | None) -> list[JournalEntry]:
    return read_journal(journal.read_bytes()) if journal and journal.exists() else []
