"""The bubblewrap box seen from inside: what an agent can write, see and reach, and every way out that was tried."""

import json
import os
import tempfile
from pathlib import Path

import pytest

from inspan.containment import programs
from inspan.containment.containment import probe
from inspan.contracts.sandbox import Box
from inspan.errors import SandboxUnusable
from inspan.protocol.events import TextSaid
from inspan.sandboxes.bwrap import SANDBOX
from inspan.stores.event_log import read_log
from tests.cli_env import CliEnv, wait_until
from tests.running.fake_agent import Fake, detach_fake_agent, fake_agent_env, run_fake_agent, wait_for_event
from tests.sandboxes.inside import ACTS, run_in_box

pytestmark = pytest.mark.usefixtures("bubblewrap")


def test_only_the_working_folder_and_its_own_can_be_written(
    each_user_env: CliEnv, fake: Fake, folder_outside_tmp: Path
) -> None:
    each_user_env.env["HOME"] = str(folder_outside_tmp)
    found = run_in_box(
        each_user_env,
        fake,
        root='write("/inside")',
        etc='write("/etc/inside")',
        home=f'write("{folder_outside_tmp}/inside")',
        above=f'write("{each_user_env.root}/inside")',
        program=f'write("{each_user_env.root.parent}/puppet")',
        state=f'write("{each_user_env.state}/index.db")',
        working='write("inside")',
        run_folder='write(os.environ["RUN_FOLDER"] + "/inside")',
        task_folder='write(os.environ["TASK_FOLDER"] + "/inside")',
        temporary=f'write("/tmp/inside-{os.getpid()}")',
    )
    refused = {name: result for name, result in found.items() if result != "written"}
    written = ["home", "run_folder", "state", "task_folder", "temporary", "working"]
    assert sorted(found.keys() - refused.keys()) == written
    assert not (folder_outside_tmp / "inside").exists(), "what was written to its home stayed in the box"
    assert set(refused.values()) <= {"OSError", "FileNotFoundError", "PermissionError"}
    assert (each_user_env.work / "inside").read_text() == "x"
    assert (each_user_env.folder() / "agent" / "inside").read_text() == "x"
    assert not Path(f"/tmp/inside-{os.getpid()}").exists()
    assert (each_user_env.state / "index.db").read_bytes()[:6] == b"SQLite", "what was written there stayed in the box"


@pytest.mark.parametrize("where", ["beside", "above", "as home"])
def test_neither_log_nor_lock_nor_socket_can_be_seen_from_any_working_folder(
    each_user_env: CliEnv, fake: Fake, folder_outside_tmp: Path, where: str
) -> None:
    cwd = {"beside": each_user_env.work, "above": each_user_env.root, "as home": folder_outside_tmp}[where]
    env = {"XDG_RUNTIME_DIR": str(folder_outside_tmp)}
    if where == "as home":
        env |= {"HOME": str(folder_outside_tmp), "XDG_STATE_HOME": str(folder_outside_tmp / ".local/state")}
    each_user_env.env |= env
    state = Path(each_user_env.env["XDG_STATE_HOME"]) / "inspan"
    tries = json.dumps({"state": f'walk("{state}")', "runtime": f'walk("{folder_outside_tmp}/inspan")'})
    code, _, err = run_fake_agent(
        each_user_env, fake_agent_env(fake, ACTS), "--sandbox", "bwrap", "-C", str(cwd), prompt=tries
    )
    assert code == 0, err
    (folder,) = state.glob("projects/*/*/runs/*")
    events = [record.event for record in read_log(str(folder / "events.jsonl"))]
    said = [json.loads(event.text) for event in events if isinstance(event, TextSaid)]
    assert said == [{"state": []}, {"runtime": []}]


def test_the_temporary_files_of_others_cannot_be_seen(each_user_env: CliEnv, fake: Fake) -> None:
    with tempfile.NamedTemporaryFile(dir="/tmp") as file:
        assert run_in_box(each_user_env, fake, there=f"os.path.exists({file.name!r})") == {"there": False}


def test_the_control_socket_cannot_be_reached(each_user_env: CliEnv, fake: Fake, folder_outside_tmp: Path) -> None:
    each_user_env.env["XDG_RUNTIME_DIR"] = str(folder_outside_tmp)
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
    run_id = detach_fake_agent(each_user_env, fake_agent_env(fake, acts), "--sandbox", "bwrap")
    wait_for_event(each_user_env, run_id, "thread_started")
    sockets = wait_until(lambda: list((folder_outside_tmp / "inspan").glob("*.sock")), "socket")
    assert len(sockets) == 1
    (each_user_env.work / "draft").write_text(str(sockets[0]))
    (each_user_env.work / "draft").rename(each_user_env.work / "go")
    wait_for_event(each_user_env, run_id, "run_ended")
    assert [event["text"] for event in each_user_env.events() if event["kind"] == "text_said"] == ["FileNotFoundError"]


def test_a_remount_is_no_way_out(each_user_env: CliEnv, fake: Fake) -> None:
    found = run_in_box(
        each_user_env,
        fake,
        remount='shell("mount -o remount,rw,bind /")',
        unmount='shell("umount -l /tmp")',
        nested='shell("unshare -rm mount -o remount,rw,bind /")',
        nested_copy="shell(\"unshare -rm sh -c 'mount --bind / /mnt && mount -o remount,rw,bind /mnt'\")",
        chroot='shell("chroot / true")',
        device='shell("mknod /tmp/null c 1 3")',
    )
    assert 0 not in found.values(), found


def test_processes_outside_cannot_be_seen(each_user_env: CliEnv, fake: Fake) -> None:
    found = run_in_box(
        each_user_env,
        fake,
        pids='sorted(int(name) for name in os.listdir("/proc") if name.isdigit())',
        outside=f"os.kill({os.getpid()}, 0)",
    )
    assert len(found["pids"]) <= 4
    assert found["outside"] == "ProcessLookupError"


def test_the_profile_clean_has_a_home_of_its_own_in_the_box(
    each_user_env: CliEnv, fake: Fake, folder_outside_tmp: Path
) -> None:
    (folder_outside_tmp / "private").write_text("mine")
    each_user_env.env["HOME"] = str(folder_outside_tmp)
    found = run_in_box(
        each_user_env,
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
        "home": str(each_user_env.state / "sessions" / each_user_env.folder().name / "home"),
        "listed": [],
        "writable": "written",
        "temporary": "/tmp",
    }
    assert os.listdir(folder_outside_tmp) == ["private"]


def test_a_box_without_bubblewrap_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "_bundled_bwrap", "")
    with pytest.raises(SandboxUnusable, match="needs bubblewrap") as caught:
        probe(SANDBOX, Box(cwd="/"), cache=str(tmp_path / "cache"))
    assert "Install the package bubblewrap" in caught.value.next_step


@pytest.mark.parametrize("broken", ["#!/bin/sh\necho no namespaces for you. >&2\nexit 1\n", "no program at all\n"])
def test_a_box_that_cannot_be_built_fails_closed(cli_env: CliEnv, fake: Fake, broken: str) -> None:
    (cli_env.root / "bin").mkdir()
    program = cli_env.root / "bin" / "bwrap"
    program.write_text(broken)
    program.chmod(0o755)
    cli_env.env["PATH"] = f"{cli_env.root / 'bin'}:{cli_env.env['PATH']}"
    env = fake_agent_env(fake, "open('inside', 'w'); begin(); finish()")
    code, out, err = run_fake_agent(cli_env, env, "--sandbox", "bwrap")
    assert (code, out) == (1, "")
    assert "The sandbox bwrap cannot be set up here" in err and ".." not in err
    assert "Traceback" not in err
    assert os.listdir(cli_env.work) == []
    assert list(cli_env.state.glob("projects/*/*/runs/*")) == []


def test_an_offered_bubblewrap_is_used_where_the_system_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "_bundled_bwrap", "")
    assert programs.find_bwrap() == ""
    programs.set_bundled_bwrap("/carried/bwrap")
    assert SANDBOX.wrap(("/bin/true",), Box(cwd="/"))[0] == "/carried/bwrap"
