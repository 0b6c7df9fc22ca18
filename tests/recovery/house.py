"""A state folder of its own for one round of kills: commands are run in it, and its logs are read."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.cli_env import list_pids, open_files, processes_of

from . import kill_points

_FOLDERS = ("home", "state", "cache", "data", "work", "pids")


class House:
    """Made for one round; `close` ends what still runs there."""

    def __init__(self, root: Path, env: Mapping[str, str], *, forks: bool = True) -> None:
        self.root = root
        self._forks = forks
        for name in _FOLDERS:
            (root / name).mkdir(parents=True)
        self.work = root / "work"
        self.state = root / "state" / "inspan"
        self.effects = self.work / "effects"
        self.sockets = tempfile.mkdtemp(prefix="inspan-test-", dir="/tmp")
        self.interpreter = kill_points.write_interpreter(root, sys.executable)
        self.env = {
            **{name: value for name, value in env.items() if name == "PATH" or name.startswith("INSPAN_")},
            "LANG": "C.UTF-8",
            "HOME": str(root / "home"),
            "XDG_RUNTIME_DIR": self.sockets,
            **{f"XDG_{name.upper()}_HOME": str(root / name) for name in ("state", "cache", "data")},
            kill_points.ROOT: str(root),
        }

    def write_script(self, text: str) -> str:
        """A scenario for the scripted model, as `--model-from` takes it."""
        path = self.root / "script.toml"
        path.write_text(text.replace("EFFECTS", str(self.effects)))
        return f"script:{path}"

    def start(self, *words: str, watched: Mapping[str, str] | None = None) -> int:
        """Runs a command in a fork of this process, which has loaded all that it needs; gives its pid.

        `watched` says where it is killed, with all that it starts.
        """
        if pid := os.fork():
            return pid
        try:
            os.setsid()
            os.chdir(self.work)
            os.environ.clear()
            os.environ.update({**self.env, **(watched or {})})
            sys.stdout.flush()
            for number, name in enumerate(("/dev/null", self.root / "stdout", self.root / "stderr")):
                os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
            if watched:
                kill_points.watch("owner")
            from inspan.cli.main import run

            os._exit(run(list(words)))
        except BaseException:
            import traceback

            traceback.print_exc()
            sys.stderr.flush()
            os._exit(99)

    def run(self, *words: str, watched: Mapping[str, str] | None = None) -> int:
        """The same, to its end, in a fork or not; gives its exit code, which is negative where it was killed."""
        if not self._forks:
            argv = [sys.executable, kill_points.__file__, "command", *words]
            env, nothing = {**self.env, **(watched or {})}, subprocess.DEVNULL
            with (self.root / "stdout").open("w") as out, (self.root / "stderr").open("w") as err:
                done = subprocess.run(argv, env=env, cwd=self.work, stdin=nothing, stdout=out, stderr=err, check=False)
            return done.returncode
        _, status = os.waitpid(self.start(*words, watched=watched), 0)
        return os.waitstatus_to_exitcode(status)

    def read_output(self, name: str) -> str:
        return (self.root / name).read_text()

    @property
    def runs(self) -> dict[str, dict[str, Any]]:
        """What every run and loop was asked for."""
        found = sorted(self.state.glob("projects/*/*/runs/*/run.json"))
        return {path.parent.name: json.loads(path.read_text()) for path in found}

    def list_works(self, kind: str) -> list[str]:
        """The loops, or with "" the runs that are of no loop."""
        return [
            run
            for run, each in self.runs.items()
            if each.get("work", "") == kind and each["task"].get("parent", "") not in self.runs
        ]

    def list_chain(self, works: list[str]) -> list[str]:
        """From the first of them on, each with what continues it."""
        continues = {run: self.runs[run]["task"].get("continues", "") for run in works}
        chain = [run for run in works if not continues[run]][:1]
        while following := [run for run in works if chain and continues[run] == chain[-1]]:
            chain.append(following[0])
        return chain

    def find_last_of_chain(self, works: list[str]) -> str:
        return next(reversed(self.list_chain(works)), "")

    def folder(self, run: str) -> Path:
        (found,) = self.state.glob(f"projects/*/*/runs/{run}")
        return found

    def read_log(self, run: str) -> bytes:
        """All whole records of a log."""
        path = self.folder(run) / "events.jsonl"
        data = path.read_bytes() if path.exists() else b""
        return data[: data.rfind(b"\n") + 1]

    def read_events(self, run: str) -> list[dict[str, Any]]:
        return [json.loads(line)["event"] for line in self.read_log(run).splitlines()]

    def read_end(self, run: str) -> tuple[str, str]:
        """Outcome and reason; empty while it lives."""
        last = (self.read_events(run) or [{}])[-1]
        return (last["outcome"], last["reason"]) if last.get("kind") == "run_ended" else ("", "")

    def count_effects(self) -> Counter[str]:
        """How often each run was at work."""
        return Counter(self.effects.read_text().split() if self.effects.exists() else [])

    def find_processes(self) -> dict[str, list[int]]:
        """What lives of any run, and of inspan itself."""
        folders = [path.name for path in self.state.glob("projects/*/*/runs/*")]
        found = {run: processes_of(run) for run in folders}
        found["inspan"] = kill_points.list_living(self.root, kill_points.EVERYBODY)
        return {run: pids for run, pids in found.items() if pids}

    def list_owners(self) -> list[int]:
        """Who has the lock of a run, with what is left to do after its last record; also who is not counted."""
        locks = {str(path) for path in self.state.glob("projects/*/*/runs/*/lock")}
        return [pid for pid in list_pids() if not locks.isdisjoint(open_files(pid))]

    def close(self) -> None:
        for pids in self.find_processes().values():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.rmtree(self.sockets, ignore_errors=True)
