"""What every refusal of the command line has in common."""

import json
import os
import subprocess
from dataclasses import dataclass
from typing import Any

from tests.cli_env import CliEnv

# SQLite makes these for whoever reads.
_READERS_TRACES = ("index.db-wal", "index.db-shm")


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An error as the command line told it."""

    exit_code: int
    code: str
    message: str
    next: str


def expect_refusal(cli_env: CliEnv, *arguments: str, env: dict[str, str] | None = None, stdin: str = "") -> Refusal:
    """Runs a command that must be refused, as JSON; nothing may be on stdout and nothing may have been left behind."""
    before = _list_files(cli_env)
    done = cli_env.inspan(*arguments, "--json", env=env, stdin=stdin)
    assert _list_files(cli_env) == before
    return parse_refusal(done)


def parse_refusal(done: subprocess.CompletedProcess[str]) -> Refusal:
    """The refusal in a command's JSON output: one line on stderr, nothing on stdout."""
    assert done.returncode != 0
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    envelope: dict[str, Any] = json.loads(done.stderr)
    assert envelope.keys() == {"schema", "error"}
    assert envelope["schema"] == 1
    error: dict[str, str] = envelope["error"]
    assert error.keys() == {"code", "message", "next"}
    assert error["next"], error
    return Refusal(exit_code=done.returncode, **error)


def _list_files(cli_env: CliEnv) -> dict[str, int]:
    """Everything in the house but the cache, and when each file was changed."""
    found: dict[str, int] = {}
    for name in ("home", "state", "data", "work"):
        for folder, _, files in os.walk(cli_env.root / name):
            found[folder] = 0
            paths = [os.path.join(folder, file) for file in files if not file.startswith(_READERS_TRACES)]
            found |= {path: os.lstat(path).st_mtime_ns for path in paths}
    return found
