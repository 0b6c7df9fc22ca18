"""A private house for one test: its own HOME, state and working folder, and the command line run inside it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from inspan.system import file_locks

WAIT_S = 120.0
T = TypeVar("T")


class CliEnv:
    """Runs `inspan` as a stranger would, with nothing of the machine's user in reach."""

    def __init__(self, root: Path, *, prefix: Sequence[str] = (), binaries: dict[str, str] | None = None) -> None:
        self.root = root
        self.work = root / "work"
        self.prefix = list(prefix)
        self.python = sys.executable
        self.processes: list[subprocess.Popen[bytes]] = []
        for name in ("home", "state", "cache", "data", "work"):
            (root / name).mkdir()
        self.sockets = short_folder(self)
        self.env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(root / "home"),
            "LANG": "C.UTF-8",
            "XDG_STATE_HOME": str(root / "state"),
            "XDG_CACHE_HOME": str(root / "cache"),
            "XDG_DATA_HOME": str(root / "data"),
            "XDG_RUNTIME_DIR": self.sockets,
            **{name: value for name, value in os.environ.items() if name == "INSPAN_PORTABLE"},
            **(binaries or {}),
        }

    @property
    def state(self) -> Path:
        return self.root / "state" / "inspan"

    def argv(self, *arguments: str) -> list[str]:
        return [*self.prefix, self.python, "-m", "inspan", *arguments]

    def inspan(
        self,
        *arguments: str,
        env: dict[str, str] | None = None,
        stdin: str = "",
        timeout: float = WAIT_S,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end, in the working folder unless another is given."""
        return subprocess.run(
            self.argv(*arguments),
            env={**self.env, **(env or {})},
            cwd=cwd or self.work,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def start(self, *arguments: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Starts a command and leaves it running; the fixture ends it."""
        process = subprocess.Popen(
            self.argv(*arguments),
            env={**self.env, **(env or {})},
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.processes.append(process)
        return process

    def scenario(self, text: str, name: str = "scenario") -> str:
        """Writes a scenario file and gives the value for `--model-from`."""
        path = self.root / f"{name}.toml"
        path.write_text(text)
        return f"script:{path}"

    def run(self, agent: str, scenario: str, *more: str, env: dict[str, str] | None = None) -> "FinishedRun":
        """Runs an agent on a scripted model in the profile clean, to its end."""
        done = self.inspan(
            "run",
            "do it",
            "-a",
            agent,
            "--profile",
            "clean",
            "--model-from",
            self.scenario(scenario),
            *more,
            env=env,
        )
        return FinishedRun(self, done)

    def detach(self, agent: str, scenario: str, *more: str, env: dict[str, str] | None = None) -> str:
        """Starts such a run and gives its id."""
        model = self.scenario(scenario)
        done = self.inspan(
            "run", "do it", "-d", "-a", agent, "--profile", "clean", "--model-from", model, *more, env=env
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def folder(self, run_id: str = "") -> Path:
        """The folder of a run, or of the only one."""
        found = sorted(self.state.glob(f"projects/*/*/runs/{run_id or '*'}"))
        assert len(found) == 1, found
        return found[0]

    def events(self, run_id: str = "") -> list[dict[str, Any]]:
        """The events of a run's log as plain data, in order; of a living run those whose records are whole."""
        log = self.folder(run_id) / "events.jsonl"
        whole, _, _ = (log.read_bytes() if log.exists() else b"").rpartition(b"\n")
        return [json.loads(line)["event"] for line in whole.splitlines()]

    def kinds(self, run_id: str = "") -> list[str]:
        return [event["kind"] for event in self.events(run_id)]

    def wait_for_events(self, run_id: str, *kinds: str) -> None:
        """Waits until events of all these kinds are in a run's log: what they tell of may have happened long before."""
        wait_until(lambda: set(kinds) <= set(self.kinds(run_id)), f"{', '.join(kinds)} in the log")

    def wait_for_end(self, run_id: str) -> None:
        """Waits until a run has ended and its supervisor has let go of it; for tests of something else than `wait`."""
        self.wait_for_events(run_id, "run_ended")
        wait_until(lambda: not self.find_supervisors(run_id), f"end of the supervisor of {run_id}")

    def kill_in_silence(self, run_id: str) -> float:
        """Kills what works on it some seconds after the last record, once a sign of life has come; gives how long it
        was at it by then."""
        log = self.folder(run_id) / "events.jsonl"
        first, *_, last = (json.loads(line)["t"] for line in log.read_bytes().splitlines())
        wait_until(lambda: log.stat().st_mtime > last + 2, "sign of life")
        kill_process(self.supervisor(run_id))
        return log.stat().st_mtime - first

    def supervisor(self, run_id: str) -> int:
        """The pid of a run's supervisor."""

        def find() -> list[int]:
            found = self.find_supervisors(run_id)
            return found if len(found) == 1 else []  # For a moment, whoever has started it holds the lock, too.

        return wait_until(find, "one supervisor")[0]

    def find_supervisors(self, run_id: str) -> list[int]:
        """The process that holds a run's lock and writes its own log; none before the run's start and after its end.

        Whoever starts a run holds the lock, too, until it has handed it on.
        """
        held = {str(self.folder(run_id) / name) for name in ("lock", "supervisor.log")}
        return [pid for pid in list_pids() if held <= open_files(pid)]

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=WAIT_S)
        for path in self.state.glob("projects/*/*/runs/*"):
            for pid in processes_of(path.name):
                kill_process(pid)


class SavedCliEnv:
    """A house that each test finds as it was saved, at the same place: what takes runs to set up is set up once."""

    def __init__(self, made: CliEnv) -> None:
        self._made = made
        self._env, self._prefix = dict(made.env), list(made.prefix)
        self._copy = made.root.with_name(f"{made.root.name}-saved")
        shutil.copytree(made.root, self._copy, symlinks=True)

    def restore(self) -> CliEnv:
        """Ends what still runs there, and puts every file and variable back."""
        self.close()
        made = self._made
        for lock in made.state.glob("projects/*/*/runs/*/lock"):
            if lock.is_file() and file_locks.is_held(str(lock)):  # Its supervisor would write into what is removed.
                for pid in made.find_supervisors(lock.parent.name):
                    kill_process(pid)
        for folder in (made.root, Path(made.sockets)):
            shutil.rmtree(folder)
        shutil.copytree(self._copy, made.root, symlinks=True)
        Path(made.sockets).mkdir(mode=0o700)
        made.env, made.prefix, made.processes = dict(self._env), list(self._prefix), []
        return made

    def close(self) -> None:
        self._made.close()


def short_folder(owner: object) -> str:
    """A private folder with a path short enough for sockets, which is gone when its owner is.

    Without one, sockets go to a folder of /tmp that is named after the user: one that somebody else has left there, as
    root does who plays an ordinary user in a namespace, would be refused.
    """
    made = tempfile.mkdtemp(prefix="inspan-test-", dir="/tmp")
    weakref.finalize(owner, shutil.rmtree, made, ignore_errors=True)
    return made


class FinishedRun:
    """A run that has ended: what the command printed and what the log says."""

    def __init__(self, cli_env: CliEnv, done: subprocess.CompletedProcess[str]) -> None:
        self.cli_env = cli_env
        self.code = done.returncode
        self.stdout = done.stdout
        self.stderr = done.stderr
        self.run_id = cli_env.folder().name

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.cli_env.events(self.run_id)

    @property
    def ended(self) -> dict[str, Any]:
        last = self.events[-1]
        assert last["kind"] == "run_ended"
        return last

    @property
    def verdict(self) -> tuple[str, str, int]:
        return self.ended["outcome"], self.ended["reason"], self.code

    def select_events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["kind"] == kind]


def wait_until(look: Callable[[], T], what: str, *, seconds: float = WAIT_S) -> T:
    """Looks until there is something; fails after a generous time that a healthy machine never needs."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"no {what} within {seconds:g} s")


def list_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def processes_of(run_id: str) -> list[int]:
    """Every living process that was started by a run: its id is in the environment of all of them."""
    return list_holders(f"JRUN_ID={run_id}")


def list_holders(variable: str) -> list[int]:
    """Every living process that was started with this in its environment."""
    wanted = os.fsencode(variable)
    return [pid for pid in list_pids() if wanted in _read_environment(pid).split(b"\0")]


def kill_process(pid: int) -> None:
    """Kills a process without a word; it has let go of its files and locks when this returns."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    wait_until(lambda: _is_dead(pid), f"end of {pid}")


def read_parent(pid: int) -> int:
    """The pid of a process's parent; 0 when it is gone."""
    return int((_read_status(pid) or ["", "0"])[1])


def _is_dead(pid: int) -> bool:
    """Whether nothing of a process runs any more: what is left is for its parent to reap."""
    status = _read_status(pid)
    try:
        return not status or (status[0] in "ZX" and len(os.listdir(f"/proc/{pid}/task")) <= 1)
    except OSError:
        return True


def _read_status(pid: int) -> list[str]:
    """What the kernel tells of a process behind its name: its state, its parent and more; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _read_environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def open_files(pid: int) -> set[str]:
    folder = f"/proc/{pid}/fd"
    found: set[str] = set()
    try:
        for name in os.listdir(folder):
            found.add(os.readlink(f"{folder}/{name}"))
    except OSError:
        pass
    return found
