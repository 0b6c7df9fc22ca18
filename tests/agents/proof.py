"""What must hold of every run once it has ended, whatever ended it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inspan.protocol.events import RunEnded, RunStarted, Unrecognized
from inspan.protocol.usage import Usage
from inspan.stores.folder import active_runs, is_locked, open_folder
from inspan.stores.log import read_log
from tests.house import House, pids, processes_of, until

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
    house: House, style: Style, scenario: str, *more: str, end: End = DONE, usage: Usage = NONE_USED
) -> RunEnded:
    """Runs in the foreground and proves the end; gives its last event."""
    run = house.run(style.agent, scenario, *style.arguments, *more)
    assert run.code == end.code, run.stderr
    return prove(house, run.run_id, end=end, usage=usage)


def prove(house: House, run_id: str, *, end: End, usage: Usage = NONE_USED) -> RunEnded:
    """Nothing is left of the run but a whole log with the right end; gives its last event."""
    waited = house.inspan("wait", run_id)
    assert (waited.returncode, waited.stdout) == (end.code, f"{run_id} {end.outcome} {end.reason}\n")
    prove_nothing_lives(house, run_id)
    folder = open_folder(str(house.folder(run_id)))
    assert not is_locked(folder)
    assert active_runs(str(house.state)) == []
    assert not Path(folder.socket).exists()
    ended = _last_of_whole_log(folder.log)
    assert (ended.outcome, ended.reason) == (end.outcome, end.reason), ended
    assert (ended.usage or NONE_USED) == usage
    assert _stored_end(house, run_id) == (end.outcome, end.reason)
    return ended


def prove_nothing_lives(house: House, run_id: str) -> None:
    """No process of the run is left, even one that threw its environment away but was named with the working folder."""
    until(lambda: not processes_of(run_id), f"end of {processes_of(run_id)}")
    until(lambda: not _named_with(house.work), f"end of {_named_with(house.work)}")


def _last_of_whole_log(path: str) -> RunEnded:
    records = read_log(path)
    assert [record.number for record in records] == list(range(1, len(records) + 1))
    whole_lines = Path(path).read_bytes().count(b"\n")
    assert whole_lines == len(records)
    assert isinstance(records[0].event, RunStarted)
    assert [record.event for record in records if isinstance(record.event, Unrecognized)] == []
    ends = [record.event for record in records if isinstance(record.event, RunEnded)]
    assert ends == [records[-1].event]
    return ends[0]


def _stored_end(house: House, run_id: str) -> tuple[str, str]:
    stored: dict[str, Any] = json.loads((house.folder(run_id) / "exit.json").read_text())
    assert stored["status"] == ("success" if stored["outcome"] == "completed" else "failed")
    return stored["outcome"], stored["reason"]


def _named_with(folder: Path) -> list[int]:
    return [pid for pid in pids() if str(folder).encode() in _command_line(pid)]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
