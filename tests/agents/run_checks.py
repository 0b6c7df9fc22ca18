"""What must hold of every run once it has ended, whatever ended it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inspan.protocol.events import RunEnded, RunStarted, Unrecognized
from inspan.protocol.usage import Usage
from inspan.stores.event_log import read_log
from inspan.stores.run_folder import active_runs, is_locked, open_folder
from tests.cli_env import CliEnv, list_pids, processes_of, wait_until

from .styles import NONE_USED, Style


@dataclass(frozen=True, kw_only=True)
class End:
    """How a run should have ended, and the exit code of whoever waits for it."""

    outcome: str
    reason: str
    code: int

    def __str__(self) -> str:
        return self.reason


DONE = End(outcome="completed", reason="done", code=0)
STOPPED = End(outcome="cancelled", reason="stopped", code=143)
KILLED = End(outcome="cancelled", reason="killed", code=143)
INTERRUPTED = End(outcome="cancelled", reason="interrupted", code=130)
CRASHED = End(outcome="failed", reason="crashed", code=1)
LOST = End(outcome="lost", reason="supervisor_lost", code=1)


def run_to_end(
    cli_env: CliEnv, style: Style, scenario: str, *more: str, end: End = DONE, usage: Usage = NONE_USED
) -> RunEnded:
    """Runs in the foreground and proves the end; gives its last event."""
    run = cli_env.run(style.agent, scenario, *style.arguments, *more)
    assert run.code == end.code, run.stderr
    return check_end(cli_env, run.run_id, end=end, usage=usage)


def check_end(cli_env: CliEnv, run_id: str, *, end: End, usage: Usage = NONE_USED) -> RunEnded:
    """Nothing is left of the run but a whole log with the right end; gives its last event."""
    waited = cli_env.inspan("wait", run_id)
    assert (waited.returncode, waited.stdout) == (end.code, f"{run_id} {end.outcome} {end.reason}\n")
    check_no_processes(cli_env, run_id)
    folder = open_folder(str(cli_env.folder(run_id)))
    assert not is_locked(folder)
    assert active_runs(str(cli_env.state)) == []
    assert not Path(folder.socket).exists()
    ended = _read_log_end(folder.log)
    assert (ended.outcome, ended.reason) == (end.outcome, end.reason), ended
    assert (ended.usage or NONE_USED) == usage
    assert _stored_end(cli_env, run_id) == (end.outcome, end.reason)
    return ended


def check_no_processes(cli_env: CliEnv, run_id: str) -> None:
    """No process of the run is left, even one that threw its environment away but was named with the working folder."""
    wait_until(lambda: not processes_of(run_id), f"end of {processes_of(run_id)}")
    wait_until(lambda: not _pids_naming(cli_env.work), f"end of {_pids_naming(cli_env.work)}")


def _read_log_end(path: str) -> RunEnded:
    records = read_log(path)
    assert [record.number for record in records] == list(range(1, len(records) + 1))
    whole_lines = Path(path).read_bytes().count(b"\n")
    assert whole_lines == len(records)
    assert isinstance(records[0].event, RunStarted)
    assert [record.event for record in records if isinstance(record.event, Unrecognized)] == []
    ends = [record.event for record in records if isinstance(record.event, RunEnded)]
    assert ends == [records[-1].event]
    return ends[0]


def _stored_end(cli_env: CliEnv, run_id: str) -> tuple[str, str]:
    stored: dict[str, Any] = json.loads((cli_env.folder(run_id) / "exit.json").read_text())
    assert stored["status"] == ("success" if stored["outcome"] == "completed" else "failed")
    return stored["outcome"], stored["reason"]


def _pids_naming(folder: Path) -> list[int]:
    return [pid for pid in list_pids() if str(folder).encode() in _command_line(pid)]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
