"""The bubblewrap box seen from inside: what an agent can write, see and reach, and every way out that was tried."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inspan.contracts.sandbox import Box
from inspan.errors import SandboxUnusable
from inspan.protocol.events import TextSaid
from inspan.sandboxes import programs
from inspan.sandboxes.bwrap import SANDBOX
from inspan.sandboxes.containment import probe
from inspan.stores.log import read_log
from tests.engine.puppet import Fake, detach, puppet, run, wait_for
from tests.house import House

pytestmark = pytest.mark.usefixtures("bubblewrap")

# Tries what the prompt asks for, each as `name: expression`, and says what came of it as JSON.
_ACTS = """
import socket, subprocess
def write(path):
    with open(path, "w") as file: file.write("x")
    return "written"
def shell(command): return subprocess.run(["sh", "-c", command], capture_output=True, text=True).returncode
def reach(path):
    with socket.socket(socket.AF_UNIX) as client: client.connect(path)
    return "reached"
def walk(top): return sorted(os.path.join(at, name) for at, _, files in os.walk(top) for name in files)
begin()
for name, expression in json.loads(prompt).items():
    try: result = eval(expression)
    except Exception as error: result = type(error).__name__
    say(json.dumps({name: result}))
finish()
"""


@pytest.fixture(params=["owner", "ordinary user"])
def anyones(request: pytest.FixtureRequest) -> House:
    return request.getfixturevalue("house" if request.param == "owner" else "user_house")


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder that the private /tmp of the box does not cover."""
    path = Path(tempfile.mkdtemp(dir="/var/tmp"))
    yield path
    shutil.rmtree(path)


def _inside(house: House, fake: Fake, *more: str, env: dict[str, str] | None = None, **tries: str) -> dict[str, Any]:
    """What came of each try, told by an agent in the box."""
    given = {**puppet(fake, _ACTS), **(env or {})}
    code, _, stderr = run(house, given, "--sandbox", "bwrap", *more, prompt=json.dumps(tries))
    assert code == 0, stderr
    assert house.events()[0]["sandbox"] == "bwrap"
    said = [event["text"] for event in house.events() if event["kind"] == "text_said"]
    return {name: result for text in said for name, result in json.loads(text).items()}


def test_only_the_working_folder_and_its_own_can_be_written(anyones: House, fake: Fake, elsewhere: Path) -> None:
    anyones.env["HOME"] = str(elsewhere)
    found = _inside(
        anyones,
        fake,
        root='write("/inside")',
        etc='write("/etc/inside")',
        home=f'write("{elsewhere}/inside")',
        above=f'write("{anyones.root}/inside")',
        program=f'write("{anyones.root.parent}/puppet")',
        state=f'write("{anyones.state}/index.db")',
        working='write("inside")',
        run_folder='write(os.environ["RUN_FOLDER"] + "/inside")',
        task_folder='write(os.environ["TASK_FOLDER"] + "/inside")',
        temporary='write("/tmp/inside")',
    )
    refused = {name: result for name, result in found.items() if result != "written"}
    assert sorted(found.keys() - refused.keys()) == ["run_folder", "state", "task_folder", "temporary", "working"]
    assert set(refused.values()) <= {"OSError", "FileNotFoundError", "PermissionError"}
    assert (anyones.work / "inside").read_text() == "x"
    assert (anyones.folder() / "agent" / "inside").read_text() == "x"
    assert not Path("/tmp/inside").exists()
    assert (anyones.state / "index.db").read_bytes()[:6] == b"SQLite", "what was written there stayed in the box"


@pytest.mark.parametrize("where", ["beside", "above", "as home"])
def test_neither_log_nor_lock_nor_socket_can_be_seen_from_any_working_folder(
    anyones: House, fake: Fake, elsewhere: Path, where: str
) -> None:
    cwd = {"beside": anyones.work, "above": anyones.root, "as home": elsewhere}[where]
    env = {"XDG_RUNTIME_DIR": str(elsewhere)}
    if where == "as home":
        env |= {"HOME": str(elsewhere), "XDG_STATE_HOME": str(elsewhere / ".local/state")}
    anyones.env |= env
    state = Path(anyones.env["XDG_STATE_HOME"]) / "inspan"
    tries = json.dumps({"state": f'walk("{state}")', "runtime": f'walk("{elsewhere}/inspan")'})
    code, _, err = run(anyones, puppet(fake, _ACTS), "--sandbox", "bwrap", "-C", str(cwd), prompt=tries)
    assert code == 0, err
    (folder,) = state.glob("projects/*/*/runs/*")
    events = [record.event for record in read_log(str(folder / "events.jsonl"))]
    said = [json.loads(event.text) for event in events if isinstance(event, TextSaid)]
    assert said == [{"state": []}, {"runtime": []}]


def test_the_temporary_files_of_others_cannot_be_seen(anyones: House, fake: Fake) -> None:
    with tempfile.NamedTemporaryFile(dir="/tmp") as file:
        assert _inside(anyones, fake, there=f"os.path.exists({file.name!r})") == {"there": False}


def test_the_control_socket_cannot_be_reached(anyones: House, fake: Fake, elsewhere: Path) -> None:
    anyones.env["XDG_RUNTIME_DIR"] = str(elsewhere)
    acts = """
import socket
begin()
while not os.path.exists("go"): time.sleep(0.02)
for path in open("go").read().split():
    try:
        with socket.socket(socket.AF_UNIX) as client: client.connect(path)
        say("reached")
    except OSError as error: say(type(error).__name__)
finish()
"""
    run_id = detach(anyones, puppet(fake, acts), "--sandbox", "bwrap")
    wait_for(anyones, run_id, "thread_started")
    sockets = list((elsewhere / "inspan").glob("*.sock"))
    assert len(sockets) == 1
    (anyones.work / "draft").write_text(str(sockets[0]))
    (anyones.work / "draft").rename(anyones.work / "go")
    wait_for(anyones, run_id, "run_ended")
    assert [event["text"] for event in anyones.events() if event["kind"] == "text_said"] == ["FileNotFoundError"]


def test_a_remount_is_no_way_out(anyones: House, fake: Fake) -> None:
    found = _inside(
        anyones,
        fake,
        remount='shell("mount -o remount,rw,bind /")',
        unmount='shell("umount -l /tmp")',
        nested='shell("unshare -rm mount -o remount,rw,bind /")',
        nested_copy="shell(\"unshare -rm sh -c 'mount --bind / /mnt && mount -o remount,rw,bind /mnt'\")",
        chroot='shell("chroot / true")',
        device='shell("mknod /tmp/null c 1 3")',
    )
    assert 0 not in found.values(), found


def test_processes_outside_cannot_be_seen(anyones: House, fake: Fake) -> None:
    found = _inside(
        anyones,
        fake,
        pids='sorted(int(name) for name in os.listdir("/proc") if name.isdigit())',
        outside=f"os.kill({os.getpid()}, 0)",
    )
    assert len(found["pids"]) <= 4
    assert found["outside"] == "ProcessLookupError"


def test_the_profile_clean_has_a_home_of_its_own_in_the_box(anyones: House, fake: Fake, elsewhere: Path) -> None:
    (elsewhere / "private").write_text("mine")
    anyones.env["HOME"] = str(elsewhere)
    found = _inside(
        anyones,
        fake,
        "--profile",
        "clean",
        env={"CODEX_API_KEY": "sk-0123456789abcdef"},
        home='os.environ["HOME"]',
        listed='os.listdir(os.environ["HOME"])',
        writable='write(os.environ["HOME"] + "/inside")',
        temporary='os.environ["TMPDIR"]',
    )
    assert found == {
        "home": str(anyones.state / "sessions" / anyones.folder().name / "home"),
        "listed": [],
        "writable": "written",
        "temporary": "/tmp",
    }
    assert os.listdir(elsewhere) == ["private"]


def test_a_box_without_bubblewrap_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "_bundled_bwrap", "")
    with pytest.raises(SandboxUnusable, match="needs bubblewrap") as caught:
        probe(SANDBOX.wrap(("/bin/true",), Box(cwd="/")), name="bwrap", cache=str(tmp_path / "cache"))
    assert "Install the package bubblewrap" in caught.value.next_step


@pytest.mark.parametrize("broken", ["#!/bin/sh\necho no namespaces for you >&2\nexit 1\n", "no program at all\n"])
def test_a_box_that_cannot_be_built_fails_closed(house: House, fake: Fake, broken: str) -> None:
    (house.root / "bin").mkdir()
    program = house.root / "bin" / "bwrap"
    program.write_text(broken)
    program.chmod(0o755)
    house.env["PATH"] = f"{house.root / 'bin'}:{house.env['PATH']}"
    env = puppet(fake, "open('inside', 'w'); begin(); finish()")
    code, out, err = run(house, env, "--sandbox", "bwrap")
    assert (code, out) == (1, "")
    assert "The sandbox bwrap cannot be set up here" in err
    assert "Traceback" not in err
    assert os.listdir(house.work) == []
    assert list(house.state.glob("projects/*/*/runs/*")) == []


def test_an_offered_bubblewrap_is_used_where_the_system_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "_bundled_bwrap", "")
    assert programs.bwrap() == ""
    programs.offer_bwrap("/carried/bwrap")
    assert SANDBOX.wrap(("/bin/true",), Box(cwd="/"))[0] == "/carried/bwrap"
