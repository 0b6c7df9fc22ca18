"""The real agents: what was recorded in one folder is played in another, to the same words, tokens and files."""

from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from inspan.engine.replay import replay
from inspan.gateway.places import Places
from inspan.gateway.rules import normalised
from inspan.stores.recording import Exit, Header, Recording

from .conftest import ARGUMENTS
from .deck import Player, Recorder, Room, scripted

pytestmark = pytest.mark.timeout(120)
STEPS = """
[[call]]
think = "pondering"
say = ["All ", "right."]
run = "echo from-the-shell; pwd; date; echo $HOME; cat /proc/sys/kernel/random/uuid; echo ran > ran.txt; false"
[[call]]
write = {path = "written.txt", content = "one\\ntwo\\n"}
[[call]]
edit = {path = "edited.txt", old = "quick", new = "slow"}
[[call]]
run = "cat edited.txt; sleep 0.2; cat /nowhere/at-all"
[[call]]
say = "Finished."
usage = {input = 250, output = 12}
"""


@pytest.fixture
def rooms(tmp_path: Path, programs: dict[str, Path]) -> tuple[Room, Room]:
    """Two folders and homes that have nothing in common, not even the length of their names."""
    here, there = (Room(root=tmp_path / name, programs=programs) for name in ("here", "some/where/else"))
    return here.made(), there.made()


@pytest.mark.parametrize("style", ARGUMENTS)
def test_a_run_is_played_in_another_folder_and_home(style: str, rooms: tuple[Room, Room], tmp_path: Path) -> None:
    here, there = rooms
    tape = tmp_path / "tape.jsonl"
    with Recorder(tape, scripted(STEPS, cwd=str(here.work)), places=here.places) as recorder:
        recorded = here.run(style, recorder.port)
    with Player(tape, places=there.places) as player:
        played = there.run(style, player.port)
    assert player.replay.complaint == ""
    assert told(played, there, style) == told(recorded, here, style)
    assert there.files() == here.files()
    calls, again = recorder.calls_so_far(), player.calls_so_far()
    assert [(c.status, c.usage, c.problem) for c in again] == [(c.status, c.usage, c.problem) for c in calls]
    assert len(again) == 5
    text = tape.read_text()
    assert all(str(folder) not in text for room in rooms for folder in (room.work, room.home))


def told(output: str, room: Room, style: str) -> list[Any]:
    """The events that inspan makes of what an agent printed, without what is different each time."""
    header = Header(recording=1, agent=style.partition(" ")[0], agent_version="", channel="stream", inspan="", task={})
    exited = Exit(exit=0, signal=None)
    events = replay(Recording(header=header, out=output.encode().split(b"\n"), err=[], exit=exited))
    return [plain(msgspec.to_builtins(event), Places(room.places)) for event in events]


def plain(value: Any, places: Places) -> Any:
    if isinstance(value, dict):
        return {key: plain(item, places) for key, item in cast(dict[str, Any], value).items()}
    if isinstance(value, list):
        return [plain(item, places) for item in cast(list[Any], value)]
    return normalised(places.hide(value), is_result=True) if isinstance(value, str) else value
