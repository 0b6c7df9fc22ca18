"""A disk that is really full: a small file system of its own, and an agent that floods it."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from inspan.protocol.events import RunEnded
from inspan.stores.log import read_log
from tests.conftest import skip
from tests.engine.puppet import Fake, marked, puppet
from tests.house import House, until

# A page less than the reserve: the log's own last page may be as good as full.
_RESERVED_BYTES = 12 * 1024 - 200
_FLOOD = """
begin()
while True: say("flood " * {words})
"""


def _on_a_small_disk(house: House, script: str, *, size: str) -> subprocess.CompletedProcess[str]:
    """Runs a script whose state folder is a disk of that size; what is on it in the end is kept in `kept`."""
    alone = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    if subprocess.run([*alone, "true"], check=False).returncode:
        skip("no-namespaces")
    state = shlex.quote(house.env["XDG_STATE_HOME"])
    kept = shlex.quote(str(house.root / "kept"))
    text = f"mount -t tmpfs -o {size} small {state} || exit 99\n{script}\ncode=$?\ncp -a {state} {kept}\nexit $code"
    return subprocess.run(
        [*alone, "sh", "-c", text],
        env=house.env,
        cwd=house.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _inspan(house: House, *arguments: str) -> str:
    return shlex.join(house.argv(*arguments))


@pytest.mark.parametrize("way", ["bwrap", "unshare", "reaper"])
def test_an_agent_that_floods_the_disk_ends_as_a_failure_of_the_store(
    house: House, fake: Fake, tmp_path: Path, way: str
) -> None:
    house.env |= {**puppet(fake, _FLOOD.format(words=200)), "INSPAN_CONTAINMENT": way}
    done = _on_a_small_disk(
        house, _inspan(house, "run", "flood", "-a", "codex", "--profile", "user", "-q"), size="size=512k"
    )
    assert done.returncode == 1, done.stderr
    until(lambda: not marked(str(tmp_path / "puppet")), "empty house")
    (folder,) = (house.root / "kept").glob("inspan/projects/*/*/runs/*")
    events = [record.event for record in read_log(str(folder / "events.jsonl"))]
    last = events[-1]
    assert isinstance(last, RunEnded)
    assert (last.outcome, last.reason) == ("failed", "store")
    assert "No space left on device" in last.message
    assert last.next == "Free disk space, then run the task again."
    assert [event for event in events if isinstance(event, RunEnded)] == [last]
    assert "Traceback" not in done.stderr + (folder / "supervisor.log").read_text()


def test_a_run_whose_disk_was_full_is_listed_once_there_is_room(house: House, fake: Fake) -> None:
    house.env |= puppet(fake, _FLOOD.format(words=200))
    script = "\n".join(
        [
            _inspan(house, "run", "flood", "-a", "codex", "--profile", "user", "-q") + " 2>&1",
            f"rm {shlex.quote(house.env['XDG_STATE_HOME'])}/inspan/projects/*/*/runs/*/stdout",
            _inspan(house, "ps", "-a", "--json"),
        ]
    )
    done = _on_a_small_disk(house, script, size="size=512k")
    assert done.returncode == 0, done.stderr
    (listed,) = json.loads(done.stdout.splitlines()[-1])["runs"]
    assert (listed["outcome"], listed["reason"], listed["alive"]) == ("failed", "store", False)
    assert list((house.root / "kept").glob("inspan/active/*")) == []


def test_the_room_that_was_kept_holds_a_last_record_when_not_a_byte_is_left(house: House) -> None:
    script = f"""
import os
from inspan.protocol.events import TextSaid
from inspan.protocol.wire import encode
from inspan.stores.log import RunLog, read_log
path = os.environ["XDG_STATE_HOME"] + "/log"
log = RunLog(path)
with open(path + ".filler", "wb", buffering=0) as filler:
    try:
        while True: filler.write(b"x" * 4096)
    except OSError: pass
refused = 0
while not refused:
    log.append(encode(TextSaid(text="y" * 1000)))
    try: log.flush()
    except OSError: refused += 1
log.give_up(encode(TextSaid(text="z" * {_RESERVED_BYTES})))
log.close()
assert len(read_log(path)[-1].event.text) == {_RESERVED_BYTES}
"""
    done = _on_a_small_disk(house, shlex.join([sys.executable, "-c", script]), size="size=256k")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("size", ["size=8k", "size=40k", *(f"nr_inodes={count},size=4m" for count in range(2, 18, 3))])
def test_a_disk_that_is_too_small_from_the_start_is_told_in_a_sentence(
    house: House, fake: Fake, tmp_path: Path, size: str
) -> None:
    house.env |= puppet(fake, _FLOOD.format(words=200))
    done = _on_a_small_disk(house, _inspan(house, "run", "flood", "-a", "codex", "--profile", "user", "-q"), size=size)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "inspan broke" not in done.stderr
    until(lambda: not marked(str(tmp_path / "puppet")), "empty house")


def test_a_state_folder_on_a_read_only_disk_is_told_in_a_sentence(house: House, fake: Fake) -> None:
    house.env |= puppet(fake, "begin(); finish()")
    done = _on_a_small_disk(house, _inspan(house, "run", "x", "-a", "codex", "--profile", "user"), size="ro")
    assert done.returncode == 1
    assert f"Cannot use {house.state}: Read-only file system" in done.stderr
    assert "XDG_STATE_HOME" in done.stderr


_HEARS = """
import asyncio, os, inspan
heard = []
task = inspan.Task(prompt="flood", cwd=os.getcwd(), agent="codex")
result = asyncio.run(inspan.run(task, on_event=heard.append))
ends = [event for event in heard if isinstance(event, inspan.RunEnded)]
print(result.reason, len(ends), heard[-1] == ends[0], ends[0].reason)
"""


def test_a_program_hears_the_end_of_a_run_on_a_full_disk(house: House, fake: Fake) -> None:
    house.env |= puppet(fake, _FLOOD.format(words=200))
    done = _on_a_small_disk(house, shlex.join([sys.executable, "-c", _HEARS]), size="size=512k")
    assert (done.stdout, done.returncode) == ("store 1 True store\n", 0), done.stderr
