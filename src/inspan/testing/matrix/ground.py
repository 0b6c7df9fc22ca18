"""The ground of one cell: a HOME, a state and a working folder of its own, and `inspan` run in it as a user would."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from inspan.contracts.driver import Driver
from inspan.stores.folder import active_runs, open_folder
from inspan.stores.log import read_log

from .cell import Unmet, must, same

_LONGEST_S = 120.0
_LOOKS_S = 0.05
# So that one slow answer of a busy machine is no failure: nothing here waits so long on a healthy one.
_PATIENCE_S = 60.0


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has ended: what its command printed, and what its log tells."""

    run_id: str
    code: int
    stdout: str
    stderr: str
    events: list[dict[str, Any]]

    @property
    def ended(self) -> dict[str, Any]:
        return self.events[-1]

    @property
    def texts(self) -> list[str]:
        """What the agent said, block by block."""
        return [event["text"] for event in self.of("text_said")]

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        """The events of these kinds, in order."""
        return [event for event in self.events if event["kind"] in kinds]

    def ends(self, outcome: str, *reasons: str) -> None:
        """Raises `Unmet` unless the run ended so."""
        told = (self.ended["outcome"], self.ended["reason"])
        wanted = [(outcome, reason) for reason in reasons]
        must(told in wanted, f"ended as {told} ({self.ended.get('message', '')}), and {wanted} was wanted")

    def is_done(self) -> None:
        """Raises `Unmet` unless the agent finished its work."""
        self.ends("completed", "done")
        same("exit code", self.code, 0)


class Ground:
    """Where the scenarios of one cell happen; whoever makes it closes it."""

    def __init__(self, root: Path, driver: Driver, *, agent: str, channel: str, env: Mapping[str, str]) -> None:
        self.root = root
        self.driver = driver
        self.work = root / "work"
        self._agent = agent
        self._channel = channel
        self._scripts = 0
        for name in ("home", "state", "work"):
            (root / name).mkdir(parents=True)
        own = {"HOME": str(root / "home"), "XDG_STATE_HOME": str(root / "state"), "LANG": "C.UTF-8"}
        self.env = {**env, **own}

    def run(self, script: str, *flags: str, prompt: str = "do it") -> Story:
        """Runs to the end; the log must be whole and nothing of the run may live on."""
        done = self._inspan(*self._words(script, prompt, flags), "--json")
        lines = [json.loads(line) for line in done.stdout.split("\n") if line.startswith("{")]
        if not lines:
            raise Unmet(f"the run was refused: {done.stderr.strip()[-600:]}")
        same("first event", lines[0]["event"]["kind"], "run_started")
        run_id = lines[0]["event"]["run_id"]
        return self.story(run_id, code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def refused(self, script: str, *flags: str) -> int:
        """The exit code of a run that must not start."""
        done = self._inspan(*self._words(script, "do it", flags), "--json")
        same("events", [line for line in done.stdout.split("\n") if line.startswith("{")], [])
        return done.returncode

    def detach(self, script: str, *flags: str, prompt: str = "do it") -> str:
        """Starts a run, and gives its id."""
        done = self._inspan(*self._words(script, prompt, flags), "-d")
        must(done.returncode == 0, f"the run was refused: {done.stderr.strip()[-600:]}")
        return done.stdout.strip()

    def order(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs another command of inspan's, which must succeed."""
        done = self._inspan(*words)
        must(done.returncode == 0, f"inspan {' '.join(words)}: {done.stderr.strip()[-600:]}")
        return done

    def wait(self, run_id: str) -> Story:
        """The story of a run that was started, once it has ended."""
        done = self._inspan("wait", run_id)
        return self.story(run_id, code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def story(self, run_id: str, *, code: int, stdout: str, stderr: str) -> Story:
        """The story of an ended run, which must hold together."""
        folder = self.folder(run_id)
        records = read_log(str(folder / "events.jsonl"))
        same("numbers of the log", [each.number for each in records], list(range(1, len(records) + 1)))
        must(records, "the log is empty")
        events = [msgspec.to_builtins(record.event) for record in records]
        same("last event", events[-1]["kind"], "run_ended")
        same("ends in the log", len([each for each in events if each["kind"] == "run_ended"]), 1)
        unknown = [(each["raw"][:200], each.get("note", "")) for each in events if each["kind"] == "unrecognized"]
        same("lines that nobody knows", unknown, [])
        self.until(lambda: not self.living(run_id), f"the end of the processes {self.living(run_id)}")
        still = [open_folder(each.path).run_id for each in active_runs(str(self.root / "state" / "inspan"))]
        must(run_id not in still, "the run is still among those that live")
        return Story(run_id=run_id, code=code, stdout=stdout, stderr=stderr, events=events)

    def folder(self, run_id: str) -> Path:
        """The folder of a run."""
        return next(iter((self.root / "state").glob(f"inspan/projects/*/*/runs/{run_id}")))

    def until(self, look: Callable[[], object], what: str) -> None:
        """Looks until it holds; raises `Unmet` after a time that a healthy machine never needs."""
        deadline = time.monotonic() + _PATIENCE_S
        while not look():
            if time.monotonic() > deadline:
                raise Unmet(f"{what} did not come within {_PATIENCE_S:g} s")
            time.sleep(_LOOKS_S)

    def living(self, run_id: str) -> list[int]:
        """Every process of a run that lives: its id is in the environment of all of them."""
        wanted = f"JRUN_ID={run_id}".encode()
        return [pid for pid in _pids() if wanted in _environment(pid).split(b"\0")]

    def close(self) -> None:
        """Ends what a scenario left running."""
        for folder in (self.root / "state").glob("inspan/projects/*/*/runs/*"):
            if self.living(folder.name):
                self._inspan("kill", folder.name)

    def _words(self, script: str, prompt: str, flags: Sequence[str]) -> list[str]:
        """A command line, in the widest mode that the agent has unless the flags say another."""
        mode = next((after for word, after in pairwise(flags) if word == "--mode"), self._widest)
        self._scripts += 1
        path = self.root / f"script-{self._scripts}.toml"
        # An agent with tools may ask for a title; one that has none asks nothing but what it is asked.
        asides = mode != "complete" and self._widest == "exec"
        path.write_text(f"asides = {str(asides).lower()}\n{script}", encoding="utf-8")
        words = ["run", prompt, "-a", self._agent, "--profile", "clean", "--model-from", f"script:{path}", *flags]
        words += ["--channel", self._channel] if self._channel else []
        return words if "--mode" in flags else [*words, "--mode", mode]

    @property
    def has_tools(self) -> bool:
        """Whether the agent can do more than answer."""
        return self.driver.capabilities.exec != "no"

    @property
    def _widest(self) -> str:
        return "exec" if self.has_tools else "complete"

    def _inspan(self, *words: str) -> subprocess.CompletedProcess[str]:
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
            raise Unmet(f"inspan {words[0]} took more than {_LONGEST_S:g} s") from error


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
