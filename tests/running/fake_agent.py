"""A puppet in Codex's clothes: answers `--version` as it does, speaks its lines, and misbehaves as a test wants."""

from collections.abc import Callable
from pathlib import Path

from tests.cli_env import CliEnv, list_pids, wait_until

Fake = Callable[[str, str], str]

# What every puppet can do; the test's own lines follow. Its prompt is in `prompt`.
PRELUDE = """
import json, os, signal, sys, time
if sys.argv[1:] == ["--version"]:
    print("codex-cli 0.163.0")
    sys.exit()
prompt = sys.stdin.read()
def put(**frame): print(json.dumps(frame), flush=True)
def begin(): put(type="thread.started", thread_id="thread-1"); put(type="turn.started")
def say(text): put(type="item.completed", item={"id": "1", "type": "agent_message", "text": text})
def finish(): put(type="turn.completed", usage={"input_tokens": 3, "output_tokens": 4})
"""

# A tree that does not want to die: `grow(ignore=…)` returns once all of it stands. Only the marker finds the last two.
_TREE = """
def grow(marker, *, ignore):
    ready, stands = os.pipe()
    def branch(act):
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
            act()
            os._exit(1)
    def stand(): os.write(stands, b"."); time.sleep(86400)
    def own_group(): os.setpgid(0, 0); stand()
    def daemon():
        os.setsid()
        if os.fork(): os._exit(0)
        for fd in (0, 1, 2): os.close(fd)
        stand()
    def nameless():
        os.setsid()
        if os.fork(): os._exit(0)
        os.set_inheritable(stands, True)
        os.execve("/bin/sh", ["sh", "-c", f"printf . >&{stands}; sleep 86400; exit", marker], {})
    def breeder():
        os.write(stands, b".")
        while True:
            if os.fork() == 0: time.sleep(0.05); os._exit(0)
            time.sleep(0.02)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]: pass
            except ChildProcessError: pass
    def hopper():
        os.write(stands, b".")
        while True:
            time.sleep(0.004)
            if os.fork(): os._exit(0)
    branches = (stand, own_group, daemon, nameless, breeder, hopper)
    for act in branches: branch(act)
    if ignore:
        for number in (signal.SIGTERM, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
    seen = b""
    while len(seen) < len(branches): seen += os.read(ready, 100)
"""


def fake_agent_env(fake: Fake, acts: str) -> dict[str, str]:
    """The environment of a house in which Codex is this puppet."""
    return {"INSPAN_CODEX_BIN": fake("puppet", PRELUDE + _TREE + acts)}


def run_fake_agent(cli_env: CliEnv, env: dict[str, str], *more: str, prompt: str = "do it") -> tuple[int, str, str]:
    """Runs the puppet to its end: exit code, stdout, stderr."""
    done = cli_env.inspan("run", prompt, "-a", "codex", "--profile", "user", *more, env=env)
    return done.returncode, done.stdout, done.stderr


def detach_fake_agent(cli_env: CliEnv, env: dict[str, str], *more: str, prompt: str = "do it") -> str:
    """Starts the puppet and gives the run's id."""
    done = cli_env.inspan("run", prompt, "-d", "-a", "codex", "--profile", "user", *more, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def event_kinds(cli_env: CliEnv, run_id: str) -> list[str]:
    """The kinds of the events so far; a run that has not begun its log has none."""
    path = cli_env.folder(run_id) / "events.jsonl"
    return cli_env.kinds(run_id) if path.exists() and path.read_bytes().endswith(b"\n") else []


def wait_for_event(cli_env: CliEnv, run_id: str, kind: str) -> None:
    wait_until(lambda: kind in event_kinds(cli_env, run_id), f"{kind} in the log of {run_id}")


def find_processes(marker: str) -> list[int]:
    """Every living process with these words on its command line: a daemon can clear its environment, not its past."""
    return [pid for pid in list_pids() if marker.encode() in _command_line(pid)]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
